"""What a parser makes of a file: blocks of text in reading order, each with the headings above it."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Literal, cast

Kind = Literal["heading", "paragraph", "list", "table", "code"]


class Unreadable(Exception):
    """The file cannot be turned into text. The message is for the person who sent it and says what to do."""


@dataclass(frozen=True)
class Block:
    """A paragraph, list item, table or heading.

    `section` holds the headings above, outermost first; a heading is part of its own section. `page` counts from 1,
    0 where the format has no pages.
    """

    text: str
    kind: Kind = "paragraph"
    section: tuple[str, ...] = ()
    page: int = 0


@dataclass(frozen=True)
class Hidden:
    """Text that a reader of the file does not see, on one line. White on white stands in the blocks as well.

    `page` counts from 1, 0 where the format has no pages.
    """

    text: str
    page: int = 0


# So many parts of a file, of so many characters, are listed: the rest of a hostile file says no more.
MOST_HIDDEN, LONGEST_HIDDEN = 200, 4_000


def hidden(parts: Iterable[tuple[str, int]]) -> tuple[Hidden, ...]:
    """(text, page) as what a file hides; blank ones are left out."""
    told = ((" ".join(text[:LONGEST_HIDDEN].split()), page) for text, page in parts)
    return tuple(islice((Hidden(text, page) for text, page in told if len(text) > 1), MOST_HIDDEN))


@dataclass(frozen=True)
class Parsed:
    """A document as understood. `title` and `language` are what the file itself says, or empty.

    `warnings` are sentences for the person who sent it: what could not be read, and what to do about it.
    `hidden` is looked at for orders to a model, and never stored for itself.
    """

    title: str = ""
    language: str = ""
    blocks: tuple[Block, ...] = ()
    page_count: int = 0
    warnings: tuple[str, ...] = ()
    hidden: tuple[Hidden, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Plain values, for the way from the parsing process to the service."""
        blocks = [(block.text, block.kind, block.section, block.page) for block in self.blocks]
        own = {"title": self.title, "language": self.language, "page_count": self.page_count}
        unseen = [(one.text, one.page) for one in self.hidden]
        return own | {"warnings": self.warnings, "blocks": blocks, "hidden": unseen}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> "Parsed":
        """The inverse of `to_json`."""
        rows = cast(Iterable[tuple[str, Kind, list[str], int]], value["blocks"])
        blocks = tuple(Block(text, kind, tuple(section), page) for text, kind, section, page in rows)
        warnings, unseen = tuple(value["warnings"]), tuple(Hidden(*one) for one in value.get("hidden", ()))
        return cls(value["title"], value["language"], blocks, value["page_count"], warnings, unseen)


@dataclass
class Outline:
    """Collects blocks while keeping track of the headings above them."""

    blocks: list[Block] = field(default_factory=list[Block])
    _open: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])

    @property
    def section(self) -> tuple[str, ...]:
        """The headings above what comes next."""
        return tuple(title for _, title in self._open)

    def open(self, level: int, title: str) -> None:
        """Begins a section: it ends those of the same or a deeper level. `level` is 1 for the outermost."""
        while self._open and self._open[-1][0] >= level:
            self._open.pop()
        self._open.append((level, title))

    def heading(self, level: int, title: str, page: int = 0) -> None:
        """A heading that stands alone on its line."""
        if title := title.strip():
            self.open(level, " ".join(title.split()))
            self.blocks.append(Block(title, "heading", self.section, page))

    def add(self, text: str, kind: Kind = "paragraph", page: int = 0) -> None:
        """A block below the current headings; nothing when it is blank."""
        if text := text.strip("\n").rstrip():
            self.blocks.append(Block(text, kind, self.section, page))


def table(rows: list[list[str]]) -> str:
    """A Markdown table; the first row is its head. Empty rows are left out, empty when nothing is left."""
    cells = [[" ".join(cell.split()).replace("|", "\\|") for cell in row] for row in rows]
    cells = [row for row in cells if any(row)]
    if not cells:
        return ""
    width = max(len(row) for row in cells)
    lines = ["| " + " | ".join(row + [""] * (width - len(row))) + " |" for row in cells]
    lines.insert(1, "|" + " --- |" * width)
    return "\n".join(lines)
