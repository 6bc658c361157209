"""Source code to blocks: cut at the definitions, each with the name of what it defines as its section."""

import importlib
import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import PurePath
from typing import Any

from tree_sitter import Language, Parser

from services.ingestion.parsed import Block, Parsed
from services.ingestion.parsers.code_languages import LANGUAGES

# Module and function of the wheels that bring a grammar.
_GRAMMARS = {
    "python": ("tree_sitter_python", "language"), "javascript": ("tree_sitter_javascript", "language"),
    "typescript": ("tree_sitter_typescript", "language_typescript"), "go": ("tree_sitter_go", "language"),
    "tsx": ("tree_sitter_typescript", "language_tsx"), "rust": ("tree_sitter_rust", "language"),
    "java": ("tree_sitter_java", "language"), "c": ("tree_sitter_c", "language"),
    "cpp": ("tree_sitter_cpp", "language"), "csharp": ("tree_sitter_c_sharp", "language"),
    "ruby": ("tree_sitter_ruby", "language"), "php": ("tree_sitter_php", "language_php"),
    "bash": ("tree_sitter_bash", "language"),
}  # fmt: skip
# A definition that is longer is cut at those within it; shorter ones without a name are joined.
_LONG_CHARACTERS = 2_000
_JOINED_CHARACTERS = 1_000
_DEEPEST = 4
_BODIES = ("body", "declaration_list", "class_body", "block")
_WRAPPERS = {"decorated_definition", "export_statement", "template_declaration", "expression_statement"}
_COMMENTS = {"comment", "line_comment", "block_comment", "decorator", "attribute_item", "annotation"}


@dataclass(frozen=True)
class _Part:
    """Bytes from `start` to `end` that define `name`, or nothing when it is empty. `node` can be cut further."""

    start: int
    end: int
    name: str
    node: Any


def parse_code(text: str, filename: str) -> Parsed:
    """Blocks of a program, all of its characters kept. Languages without a grammar are cut at blank lines."""
    path = PurePath(filename)
    language = LANGUAGES.get(path.suffix.lower().lstrip("."), "")
    parser = _parser(language)
    if parser is None:
        return Parsed(title=path.name, blocks=tuple(_by_blank_lines(text)))
    content = text.encode()
    root: Any = parser.parse(content).root_node
    return Parsed(title=path.name, blocks=tuple(_blocks(content, _parts(root), 0, len(content), (), 0)))


@lru_cache
def _parser(language: str) -> Parser | None:
    if language not in _GRAMMARS:
        return None
    module, function = _GRAMMARS[language]
    grammar: object = getattr(importlib.import_module(module), function)()
    return Parser(Language(grammar))


def _parts(node: Any) -> list[_Part]:
    """The definitions directly in `node`, each with the comments and decorators above it."""
    parts: list[_Part] = []
    comment = -1
    for child in node.named_children:
        if child.type in _COMMENTS:
            comment = child.start_byte if comment < 0 else comment
            continue
        parts.append(_Part(child.start_byte if comment < 0 else comment, child.end_byte, _name(child), child))
        comment = -1
    return parts


def _name(node: Any, depth: int = 0) -> str:
    """What a node defines, or empty."""
    if depth > _DEEPEST:
        return ""
    if node.type in _WRAPPERS or node.type == "lexical_declaration":
        inner = (_name(child, depth + 1) for child in node.named_children if child.type not in _COMMENTS)
        return next((name for name in inner if name), "")
    if not re.search(
        r"definition|declaration|_item|declarator|_spec|specifier|^class$|^module$|^method$|function", node.type
    ):
        return ""
    if (found := node.child_by_field_name("name")) is not None:
        return _text(found)
    if (declarator := node.child_by_field_name("declarator")) is not None:
        return _declared(declarator)
    if node.type == "impl_item" and (found := node.child_by_field_name("type")) is not None:
        return _text(found)
    inner = (child for child in node.named_children if child.type.endswith(("_spec", "declarator", "_specifier")))
    return next((name for child in inner if (name := _name(child, depth + 1))), "")


def _declared(node: Any) -> str:
    """The name within `*open(const char *path)` of C."""
    for _ in range(10):
        inner = node.child_by_field_name("declarator")
        if inner is None:
            return _text(node)
        node = inner
    return ""


def _text(node: Any) -> str:
    return " ".join(node.text.decode(errors="replace").split())[:100]


def _blocks(
    content: bytes, parts: list[_Part], start: int, end: int, section: tuple[str, ...], depth: int
) -> list[Block]:
    """The bytes from `start` to `end`: named parts as blocks of their own, what lies between them joined."""
    blocks: list[Block] = []
    for part in parts:
        if not part.name:
            continue
        # Imports and statements before it; from the start of its line, for its indentation.
        line = content.rfind(b"\n", start, part.start) + 1 or start
        blocks += _between(content[start:line], section)
        stop = _with_signs(content, part.end, end)
        blocks += _definition(content, _Part(line, stop, part.name, part.node), section, depth)
        start = stop
    return blocks + _between(content[start:end], section)


def _with_signs(content: bytes, at: int, end: int) -> int:
    """The end of the line that `at` is in, where nothing but signs follow, such as a bracket or a semicolon."""
    stop = content.find(b"\n", at, end)
    stop = end if stop < 0 else stop
    return at if _says_something(content[at:stop]) else stop


def _says_something(content: bytes) -> bool:
    return any(chr(byte).isalnum() or byte > 127 for byte in content)


def _definition(content: bytes, part: _Part, section: tuple[str, ...], depth: int) -> list[Block]:
    section = (*section, part.name)
    inner = _members(part.node) if part.end - part.start > _LONG_CHARACTERS and depth < _DEEPEST else []
    if any(one.name for one in inner):
        return _blocks(content, inner, part.start, part.end, section, depth + 1)
    return _code(content[part.start : part.end], section)


def _members(node: Any) -> list[_Part]:
    """The definitions within a class, module or namespace."""
    for child in node.named_children if node.type in _WRAPPERS else ():
        if members := _members(child):
            return members
    body = node.child_by_field_name("body") or next((one for one in node.named_children if one.type in _BODIES), None)
    return _parts(body) if body is not None else []


def _code(content: bytes, section: tuple[str, ...]) -> list[Block]:
    text = content.decode(errors="replace").strip("\n").rstrip()
    return [Block(text, "code", section)] if text.strip() else []


def _between(content: bytes, section: tuple[str, ...]) -> list[Block]:
    """Code that defines nothing, cut at blank lines where it is long; a lone closing bracket is not worth a block."""
    if not _says_something(content):
        return []
    text = content.decode(errors="replace")
    return [Block(part, "code", section) for part in _joined(re.split(r"\n(?:[ \t]*\n)+", text))]


_OPENS = re.compile(
    r"(?:\[(?P<ini>[^\]\n]+)\]\s*$|(?P<key>[\w.-]+):(?:\s|$)|(?:\w+\s+){0,4}?(?:def|class|func|function|fn|fun|sub|module|struct"
    r"|enum|interface|trait|object|message|service|resource|type|procedure|defmodule|table|view)\s+(?P<name>[\w.:\"`$-]+))",
    re.I | re.M,
)


def _by_blank_lines(text: str) -> list[Block]:
    """Blocks that begin, after a blank line or at a section mark, with a line that is not indented."""
    pieces: list[list[str]] = [[]]
    blank = False
    for line in text.split("\n"):
        opens = _OPENS.match(line)
        if (
            pieces[-1]
            and line[:1].strip()
            and (blank or (opens and opens["ini"]))
            and line.strip() not in ("}", "end", ");")
        ):
            pieces.append([])
        pieces[-1].append(line)
        blank = not line.strip()
    blocks: list[Block] = []
    for piece in _joined(["\n".join(lines) for lines in pieces], apart=_OPENS):
        found = _OPENS.search(piece)
        name = next((one for one in found.groups() if one), "") if found else ""
        blocks.append(Block(piece, "code", (name.strip('"`'),) if name else ()))
    return blocks


def _joined(pieces: list[str], apart: re.Pattern[str] | None = None) -> list[str]:
    """Neighbours that are short, together; a piece that matches `apart` begins anew."""
    joined: list[str] = []
    for piece in (one.strip("\n").rstrip() for one in pieces):
        if not piece.strip():
            continue
        short = joined and len(joined[-1]) + len(piece) < _JOINED_CHARACTERS
        if short and not (apart and apart.match(piece)):
            joined[-1] += "\n\n" + piece
        else:
            joined.append(piece)
    return joined
