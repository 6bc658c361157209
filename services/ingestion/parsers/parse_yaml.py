"""YAML to blocks, as text: comments matter, and aliases that multiply are never expanded."""

import re

from services.ingestion.parsed import Block, Parsed

_KEY = re.compile(r"(?:- )?[\"']?([\w$.][\w$./ -]{0,100}?)[\"']?:(?:\s|$)|---")
_TOGETHER_CHARACTERS, _LONG_CHARACTERS = 1_000, 300


def parse_yaml(text: str) -> Parsed:
    """Blocks of code, cut at the keys that are not indented; a long one is a section of its own."""
    pieces: list[list[str]] = [[]]
    for line in text.split("\n"):
        if pieces[-1] and _KEY.match(line):
            pieces.append([])
        pieces[-1].append(line)
    blocks: list[Block] = []
    for piece in ("\n".join(lines).rstrip() for lines in pieces):
        if not piece.strip() or piece.strip() == "---":
            continue
        last = blocks[-1] if blocks else None
        if len(piece) >= _LONG_CHARACTERS:
            found = next((one for line in piece.split("\n") if (one := _KEY.match(line)) and one[1]), None)
            blocks.append(Block(piece, "code", (found[1],) if found else ()))
        elif last and not last.section and len(last.text) + len(piece) < _TOGETHER_CHARACTERS:
            blocks[-1] = Block(f"{last.text}\n{piece}", "code")
        else:
            blocks.append(Block(piece, "code"))
    return Parsed(blocks=tuple(blocks))
