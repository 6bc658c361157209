"""Markdown to blocks, from the tokens of a CommonMark parser."""

import re

from markdown_it import MarkdownIt
from markdown_it.token import Token

from services.ingestion.parsed import Outline, Parsed, table
from services.ingestion.parsers.clauses import add_paragraph
from services.ingestion.parsers.parse_html import parse_html

_FRONT_MATTER = re.compile(r"\A---\n(.*?)\n---\n", re.S)
_FRONT_TITLE = re.compile(r"^title:\s*[\"']?(.+?)[\"']?\s*$", re.M)


def parse_markdown(text: str) -> Parsed:
    """Blocks of a Markdown text; the title is that of the front matter, else the first heading of level 1."""
    title = ""
    front = _FRONT_MATTER.match(text)
    if front:
        found = _FRONT_TITLE.search(front[1])
        title = found[1] if found else ""
        text = text[front.end() :]
    outline = Outline()
    first = add_markdown(outline, text)
    return Parsed(title=title or first, blocks=tuple(outline.blocks))


def add_markdown(outline: Outline, text: str) -> str:
    """Adds the blocks of a Markdown text, and gives its first heading of level 1, or nothing."""
    walk = _Walk(MarkdownIt("commonmark").enable("table").parse(text), outline)
    walk.all()
    return walk.title


class _Walk:
    """Goes through the tokens once; keeps the open lists and the rows of the open table."""

    def __init__(self, tokens: list[Token], outline: Outline) -> None:
        self.outline = outline
        self.title = ""
        self._tokens = tokens
        self._marks: list[str] = []
        self._rows: list[list[str]] = []

    def all(self) -> None:
        for position, token in enumerate(self._tokens):
            if token.type == "inline":
                self._words(position, _plain(token))
            elif token.type in ("fence", "code_block"):
                self.outline.add(token.content, "code")
            elif token.type == "html_block":
                self._html(token.content)
            elif "list" in token.type:
                self._list(token)
            elif token.type == "tr_open":
                self._rows.append([])
            elif token.type == "table_close":
                self.outline.add(table(self._rows), "table")
                self._rows = []

    def _list(self, token: Token) -> None:
        if token.type in ("bullet_list_open", "ordered_list_open"):
            self._marks.append("-")
        elif token.type in ("bullet_list_close", "ordered_list_close"):
            self._marks.pop()
        elif token.type == "list_item_open" and token.info:
            self._marks[-1] = f"{token.info}{token.markup}"

    def _words(self, position: int, words: str) -> None:
        opener = self._tokens[position - 1]
        if opener.type == "heading_open":
            level = int(opener.tag[1])
            self.title = self.title or (words if level == 1 else "")
            self.outline.heading(level, words)
        elif opener.type in ("th_open", "td_open"):
            self._rows[-1].append(words)
        elif self._marks:
            first = self._tokens[position - 2].type == "list_item_open"
            indent = "  " * (len(self._marks) - 1)
            self.outline.add(f"{indent}{self._marks[-1] if first else ' '} {words}", "list")
        else:
            add_paragraph(self.outline, words)

    def _html(self, content: str) -> None:
        for block in parse_html(content).blocks:
            if block.kind == "heading":
                self.outline.heading(len(block.section), block.text)
            else:
                self.outline.add(block.text, block.kind)


def _plain(token: Token) -> str:
    """The words of a line without its marks; the address of a link is kept only where it is what one reads."""
    parts: list[str] = []
    for child in token.children or ():
        if child.type in ("softbreak", "hardbreak"):
            parts.append("\n")
        elif child.type == "html_inline":
            parts.append(" " if child.content.lower().startswith("<br") else "")
        else:
            parts.append(child.content)
    return "".join(parts)
