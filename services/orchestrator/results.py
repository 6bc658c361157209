"""What tools find, as plain data: it is numbered as evidence, shown to the model and kept in the tool cache."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Degraded:
    """Something was skipped because it failed. `reason`: one line, without internals."""

    service: str
    reason: str


@dataclass(frozen=True)
class Passage:
    """A piece of a document. `page` is 0 where the format has none."""

    document_id: str
    chunk_id: str
    title: str
    source: str
    page: int
    section: str
    language: str
    text: str


@dataclass(frozen=True)
class Passages:
    """Passages by descending score."""

    passages: tuple[Passage, ...]
    degraded: tuple[Degraded, ...] = ()


@dataclass(frozen=True)
class Rows:
    """Rows of one statement; values are what JSON can hold."""

    statement: str
    params_json: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    truncated: bool = False
    degraded: tuple[Degraded, ...] = ()


@dataclass(frozen=True)
class Page:
    """A page of the public web as a search engine shows it. Untrusted text."""

    url: str
    title: str
    snippet: str
    published: str


@dataclass(frozen=True)
class Pages:
    """Pages in the engine's order."""

    pages: tuple[Page, ...]
    degraded: tuple[Degraded, ...] = ()


Found = Passages | Rows | Pages
Source = Passage | Rows | Page


def has_content(found: Found) -> bool:
    """Whether there is anything to answer from: an empty set, or a sum over nothing (NULL), is not."""
    match found:
        case Passages():
            return bool(found.passages)
        case Pages():
            return bool(found.pages)
        case Rows():
            return any(value is not None for row in found.rows for value in row)


def summary(found: Found) -> str:
    """One line for people."""
    match found:
        case Passages():
            return _count(len(found.passages), "passage")
        case Pages():
            return _count(len(found.pages), "page")
        case Rows():
            return _count(len(found.rows), "row") + (" (truncated)" if found.truncated else "")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
