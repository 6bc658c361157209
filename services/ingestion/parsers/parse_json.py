"""JSON and JSON Lines to blocks: keys as paths, each record by itself."""

import json
from typing import Any, cast

from services.ingestion.parsed import Block, Parsed, Unreadable
from services.ingestion.parsers.parse_text import parse_text
from services.ingestion.parsers.text_encoding import clean
from services.ingestion.parsers.trees import Node, called, tree_blocks

_DEEPEST = 200


def parse_json(text: str) -> Parsed:
    """Blocks of a JSON value; of records when there is one a line; of a text, with a warning, when it is neither."""
    try:
        value = json.loads(text)
    except RecursionError:
        raise Unreadable("The JSON is nested too deeply.") from None
    except ValueError:
        return parse_jsonl(text)
    node = _node(value, 0)
    title = called(node) if isinstance(value, dict) and "title" in value else ""
    return Parsed(title=title, blocks=tuple(tree_blocks(node)))


def parse_jsonl(text: str) -> Parsed:
    """Blocks of one record a line. Lines that are no JSON are read as text, with a warning."""
    blocks: list[Block] = []
    broken: list[int] = []
    lines = [line for line in text.split("\n") if line.strip()]
    for number, line in enumerate(lines, 1):
        try:
            node = _node(json.loads(line), 0)
        except (ValueError, RecursionError):
            broken.append(number)
            blocks.append(Block(line, "paragraph", (f"[{number}]",)))
            continue
        blocks += tree_blocks(node, (called(node) or f"[{number}]",))
    if len(broken) > len(lines) / 2:
        warning = "The file is not valid JSON; it was read as a text."
        return Parsed(blocks=parse_text(text).blocks, warnings=(warning,))
    warnings = (f"{len(broken)} lines, the first of them line {broken[0]}, are not valid JSON.",) if broken else ()
    return Parsed(blocks=tuple(blocks), warnings=warnings)


def _node(value: Any, depth: int) -> Node:
    if depth > _DEEPEST:
        raise Unreadable("The JSON is nested too deeply.")
    if isinstance(value, dict):
        pairs = cast(dict[str, Any], value)
        return [(clean(name), _node(part, depth + 1)) for name, part in pairs.items()]
    if isinstance(value, list):
        return [(f"[{index}]", _node(part, depth + 1)) for index, part in enumerate(cast(list[Any], value))]
    if isinstance(value, str):
        return clean(value)
    return "" if value is None else json.dumps(value)
