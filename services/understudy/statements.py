"""Reads a passage as statements that can be quoted: sentences, list items, and table rows with what introduces them."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from services.understudy.evidence import gives_orders
from services.understudy.words import content, fold, sentences

_ROW = re.compile(r"^\s*\|.*\|\s*$")
_RULE = re.compile(r"^[\s|:+=-]+$")
_ITEM = re.compile(r"^\s*(?:[-*•·–+]|\d{1,2}[.)]|[a-z][.)])\s+(?=\S)")
_EMPHASIS = re.compile(r"(?<!\w)(\*\*|__)(?=\S)(.+?)(?<=\S)\1(?!\w)")
_HASHES = re.compile(r"^#{1,6}\s+")
_NUMBERED = re.compile(r"^\d{1,2}[.)]\s+\S")
_ENDED = re.compile(r"[.!?:;…][\"”»)*_]*$")
_MAX_HEADING_WORDS = 9
_MIN_ITEM_WORDS = 4


@dataclass(frozen=True)
class Statement:
    """A sentence, or an item of a table or list; `lead` is the sentence that introduces the item, if one does.

    `items` are all that a sentence introduces; `paragraph` counts from 0.
    """

    text: str
    lead: str = ""
    items: tuple[str, ...] = ()
    paragraph: int = 0


@lru_cache(maxsize=512)
def statements(text: str, heading: str) -> tuple[Statement, ...]:
    """What a cleaned passage says, in order, without headings and without what gives orders to the model.

    `heading` is the passage's own, which the text often repeats.
    """
    found: list[Statement] = []
    opener: int | None = None  # where the sentence is that introduces what comes
    for paragraph, (kind, lines) in enumerate(_blocks(text, heading)):
        if kind == "prose":
            own = [one for one in sentences("\n".join(lines)) if not gives_orders(fold(one))]
            found += [Statement(one, paragraph=paragraph) for one in own]
            opener = len(found) - 1 if own and own[-1].endswith(":") else None
            continue
        if opener is None and len(lines) == 1 and _only_numbered(lines[0]):
            continue
        items = table_rows(lines) if kind == "table" else [_ITEM.sub("", line, count=1).strip() for line in lines]
        items = [one for one in items if not gives_orders(fold(one))]
        lead = found[opener].text if opener is not None else ""
        if opener is not None and items:
            found[opener] = replace(found[opener], items=tuple(items))
        for item in items:
            whole = kind == "list" and _ENDED.search(item) and len(content(item)) >= _MIN_ITEM_WORDS
            found.append(Statement(item, "" if whole else lead, paragraph=paragraph))
        opener = None
    return tuple(found)


def table_rows(lines: Sequence[str]) -> list[str]:
    """Rows of a table as people read them: `first: second`, and with their columns' names where there are more."""
    rows = [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in lines]
    ruled = len(rows) > 1 and bool(_RULE.match(lines[1]))
    names = rows[0] if ruled else []
    body = [row for row, line in zip(rows, lines, strict=True) if not _RULE.match(line)][1 if ruled else 0 :]
    return [one for row in body if (one := _row(row, names))]


def _row(cells: list[str], names: list[str]) -> str:
    first, *others = cells
    if len(others) > 1 and len(names) == len(cells):
        others = [f"{name} {cell}" for name, cell in zip(names[1:], others, strict=True) if cell]
    told = ", ".join(cell for cell in others if cell)
    return f"{first}: {told}" if first and told else first or told


def _blocks(text: str, heading: str) -> Iterator[tuple[str, list[str]]]:
    """Paragraphs, lists and tables (`prose`, `list`, `table`) with their lines; no headings."""
    kind, lines = "", list[str]()
    for raw in text.split("\n"):
        line = _EMPHASIS.sub(r"\2", raw)
        own = _kind(line)
        if kind == "list" and lines and (not own or (own == "prose" and line[0].isspace())):
            # A blank line between items ends no list, and an indented one goes on with its item.
            lines[-1] = f"{lines[-1]} {line.strip()}".rstrip()
            continue
        heads = bool(own) and own != "table" and _is_heading(raw, heading, alone=own == "prose")
        if own != kind or heads:
            if lines:
                yield kind, lines
            kind, lines = own, []
        if own and not heads:
            lines.append(line)
    if lines:
        yield kind, lines


def _kind(line: str) -> str:
    if not line.strip():
        return ""
    if _ROW.match(line):
        return "table"
    return "list" if _ITEM.match(line) else "prose"


def _is_heading(line: str, heading: str, *, alone: bool) -> bool:
    """Whether a line only names what follows. One that is not `alone`, an item, must be the heading known."""
    bare = _EMPHASIS.sub(r"\2", _HASHES.sub("", line.strip())).strip()
    if not bare or _ENDED.search(bare):
        return False
    if heading and _plain(bare) == _plain(heading):
        return True
    return alone and bool(_HASHES.match(line.strip()) or _EMPHASIS.fullmatch(line.strip()))


def _only_numbered(line: str) -> bool:
    """`4. Lost keys` by itself is a heading: a list has several items, or something that introduces it."""
    return bool(_NUMBERED.match(line.strip())) and not _ENDED.search(line) and len(line.split()) <= _MAX_HEADING_WORDS


def _plain(text: str) -> str:
    return re.sub(r"^[\d.)\s]+", "", fold(text)).strip(" .:")
