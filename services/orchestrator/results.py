"""What tools find, as plain data: it is numbered as evidence, shown to the model and kept in the tool cache."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

_SUMMARY_CHARS = 60


@dataclass(frozen=True)
class Degraded:
    """Something was skipped because it failed. `reason`: one line, without internals."""

    service: str
    reason: str


@dataclass(frozen=True)
class Passage:
    """A piece of a document. `page` is 0 where the format has none; `score` compares within one search only.

    The last five are for programs: no model reads them. `suspicious`: parts of the text that gave orders to a model
    when the document was taken in. `harmless_by`: the detector that found nothing at all in it then.
    """

    document_id: str
    chunk_id: str
    title: str
    source: str
    page: int
    section: str
    language: str
    text: str
    collection: str = ""
    score: float = 0
    metadata: Mapping[str, str] = field(default_factory=dict[str, str])
    suspicious: tuple[str, ...] = ()
    harmless_by: str = ""


@dataclass(frozen=True)
class Passages:
    """Passages by descending score.

    `queries`: what was searched where that is more, or other, than the call's own query, which comes first;
    `transform` says how they were made. `collections`: those that were chosen where that was left open; `off_topic`:
    none was, because none is about the query.
    """

    passages: tuple[Passage, ...]
    degraded: tuple[Degraded, ...] = ()
    queries: tuple[str, ...] = ()
    transform: str = ""
    collections: tuple[str, ...] = ()
    off_topic: bool = False


@dataclass(frozen=True)
class Rows:
    """Rows of one statement; values are what JSON can hold.

    `source` and `tables`: what was read. `volatile`: the same statement may give other rows though no table changed.
    """

    statement: str
    params_json: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    truncated: bool = False
    degraded: tuple[Degraded, ...] = ()
    source: str = ""
    tables: tuple[str, ...] = ()
    volatile: bool = False


@dataclass(frozen=True)
class Page:
    """A page of the public web as a search engine shows it. Untrusted text."""

    url: str
    title: str
    snippet: str
    published: str


@dataclass(frozen=True)
class Pages:
    """Pages in the engine's order. `redacted_query`: what was asked instead, where internal data was taken out."""

    pages: tuple[Page, ...]
    degraded: tuple[Degraded, ...] = ()
    redacted_query: str = ""


@dataclass(frozen=True)
class Reply:
    """What any other tool said: one of an external server, or the calculator.

    `trusted`: it is ours and made from arguments only; everything else is untrusted text. `arguments_json`: canonical.
    """

    tool: str
    arguments_json: str
    text: str
    degraded: tuple[Degraded, ...] = ()
    trusted: bool = False


Found = Passages | Rows | Pages | Reply
Source = Passage | Rows | Page | Reply


def has_content(found: Found) -> bool:
    """Whether there is anything to answer from: an empty set, or a sum over nothing (NULL), is not."""
    match found:
        case Passages():
            return bool(found.passages)
        case Pages():
            return bool(found.pages)
        case Rows():
            return any(value is not None for row in found.rows for value in row)
        case Reply():
            return bool(found.text.strip())


def may_be_kept(found: Found) -> bool:
    """Whether the result serves the next caller as well as this one: it is complete, and no accident of its moment."""
    match found:
        case Passages():
            return not found.degraded
        case Pages():
            return not (found.degraded or found.redacted_query)
        case Rows():
            return not (found.degraded or found.volatile)
        case Reply():
            return not found.degraded


def summary(found: Found) -> str:
    """One line for people."""
    match found:
        case Passages():
            return _count(len(found.passages), "passage") + _searched(found)
        case Pages():
            asked = "; asked without internal data" if found.redacted_query else ""
            return _count(len(found.pages), "page") + asked
        case Rows():
            return _count(len(found.rows), "row") + (" (truncated)" if found.truncated else "")
        case Reply():
            return found.text if len(found.text) <= _SUMMARY_CHARS else f"{_count(len(found.text), 'character')}"


def _searched(found: Passages) -> str:
    """How it was found, where that is not plain from the call."""
    if found.off_topic:
        return "; no collection is about this"
    told = [f"{_count(len(found.queries), 'query')} ({found.transform})"] if len(found.queries) > 1 else []
    told += ["follow-up completed"] if len(found.queries) == 1 else []
    told += [f"in {', '.join(found.collections)}"] if found.collections else []
    return "".join(f"; {one}" for one in told)


def _count(number: int, noun: str) -> str:
    many = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{number} {noun if number == 1 else many}"
