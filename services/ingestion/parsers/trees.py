"""Nested values (JSON, XML) to blocks: small ones as lines "path: value", larger ones as sections."""

from collections.abc import Iterator, Sequence

from services.ingestion.parsed import Block

# About one chunk: what fits stays together.
_TOGETHER_CHARACTERS = 1_200
_DEEPEST = 60
_NAMES = ("title", "name", "label", "subject", "heading", "id", "@name", "@id", "@title", "key", "@key")

# A value, or its parts with their names; a part of a list is called "[0]", the text of an element "".
Node = str | Sequence[tuple[str, "Node"]]


def tree_blocks(node: Node, section: tuple[str, ...] = ()) -> list[Block]:
    """Blocks of `node` below `section`."""
    if _fits(node) or len(section) > _DEEPEST:
        return _together(node, section)
    if isinstance(node, str):
        return [
            Block(paragraph.strip("\n"), "paragraph", section) for paragraph in node.split("\n\n") if paragraph.strip()
        ]
    blocks: list[Block] = []
    waiting: list[tuple[str, Node]] = []
    # The parts of a list of records are about different things; those of anything else belong together.
    records = _is_list(node) and any(not isinstance(part, str) for _, part in node)
    for name, part in node:
        if records and _fits(part):
            blocks += _together(part, (*section, called(part) or name))
        elif _fits(part) and _fits([*waiting, (name, part)]):
            waiting.append((name, part))
        else:
            blocks += _together(waiting, section)
            waiting = [(name, part)] if _fits(part) else []
            if not waiting:
                anonymous = name.startswith("[") or not name
                blocks += tree_blocks(part, (*section, (called(part) or name) if anonymous else name))
    return blocks + _together(waiting, section)


def called(node: Node) -> str:
    """What a record calls itself, or empty."""
    if isinstance(node, str):
        return ""
    parts = {name.lower(): part for name, part in node}
    for name in _NAMES:
        part = parts.get(name)
        if isinstance(part, str) and 0 < len(part.strip()) <= 150:
            return " ".join(part.split())
    return ""


def _together(node: Node, section: tuple[str, ...]) -> list[Block]:
    text = "\n".join(_lines(node))
    listed = _is_list(node) and all(isinstance(part, str) for _, part in node)
    return [Block(text, "list" if listed else "paragraph", tuple(filter(None, section)))] if text.strip() else []


def _is_list(node: Node) -> bool:
    return not isinstance(node, str) and len(node) > 0 and node[0][0].startswith("[")


def _fits(node: Node) -> bool:
    """Whether all of `node` is no longer than a chunk; looks at no more than that."""
    size = 0
    for line in _lines(node):
        size += len(line) + 1
        if size > _TOGETHER_CHARACTERS:
            return False
    return True


def _lines(node: Node, path: str = "", depth: int = 0) -> Iterator[str]:
    if isinstance(node, str):
        if node.strip():
            yield f"{path}: {node}" if path else node
    elif depth > 4 * _DEEPEST:
        yield f"{path}: …"
    elif _is_list(node) and all(isinstance(part, str) for _, part in node):
        if path:
            yield f"{path}: " + ", ".join(str(part) for _, part in node)
        else:
            yield from (f"- {part}" for _, part in node)
    else:
        for name, part in node:
            joined = path + name if name.startswith("[") or not path or not name else f"{path}.{name}"
            yield from _lines(part, joined, depth + 1)
