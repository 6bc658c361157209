"""Reads what tools found, as the orchestrator writes it down for the model. All of it is untrusted text."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast


@dataclass(frozen=True)
class Passage:
    """A piece of a document; `number` is its citation mark."""

    number: int
    document: str
    title: str
    section: str
    text: str


@dataclass(frozen=True)
class Rows:
    """The result of one statement."""

    number: int
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    truncated: bool


@dataclass(frozen=True)
class Page:
    """A page of the web as a search engine shows it."""

    number: int
    title: str
    snippet: str
    published: str


@dataclass(frozen=True)
class Reply:
    """What any other tool said."""

    number: int
    tool: str
    text: str


@dataclass(frozen=True)
class Failure:
    """A tool that did not answer, and what it said of the reason."""

    tool: str
    error: str


@dataclass(frozen=True)
class Findings:
    """Everything that the tools brought for one question, in order and each source once."""

    passages: tuple[Passage, ...] = ()
    rows: tuple[Rows, ...] = ()
    pages: tuple[Page, ...] = ()
    failures: tuple[Failure, ...] = ()
    replies: tuple[Reply, ...] = ()
    searched: frozenset[str] = frozenset()


def read_findings(results: Sequence[tuple[str, str]]) -> Findings:
    """Reads (tool name, content) pairs. What is not in the agreed form counts as a failure of its tool."""
    passages: dict[int, Passage] = {}
    rows: dict[int, Rows] = {}
    pages: dict[int, Page] = {}
    failures: list[Failure] = []
    replies: dict[int, Reply] = {}
    searched: set[str] = set()
    for tool, content in results:
        body = json_within(content)
        if "error" in body:
            failures.append(Failure(_text(body.get("tool")) or tool, _text(body["error"])))
        elif "passages" in body:
            searched.add("vector_search")
            for one in _objects(body["passages"]):
                passages.setdefault(_number(one), _passage(one))
        elif "results" in body:
            searched.add("web_search")
            for one in _objects(body["results"]):
                page = Page(
                    _number(one), _text(one.get("title")), _text(one.get("snippet")), _text(one.get("published"))
                )
                pages.setdefault(page.number, page)
        elif "columns" in body:
            searched.add("sql_query")
            rows.setdefault(_number(body), _rows(body))
        elif "text" in body:
            searched.add(tool)
            replies.setdefault(
                _number(body), Reply(_number(body), _text(body.get("tool")) or tool, _text(body["text"]))
            )
        else:
            failures.append(Failure(tool, "the result cannot be read"))
    return Findings(
        tuple(passages.values()),
        tuple(rows.values()),
        tuple(pages.values()),
        tuple(failures),
        tuple(replies.values()),
        frozenset(searched),
    )


def _passage(one: Mapping[str, Any]) -> Passage:
    title, text = _text(one.get("title")), _text(one.get("text"))
    document = _text(one.get("document_id")) or title
    return Passage(_number(one), document, title, _text(one.get("section")), text)


def _rows(body: Mapping[str, Any]) -> Rows:
    columns = tuple(_text(one) for one in _list(body.get("columns")))
    rows = tuple(tuple(_list(row)) for row in _list(body.get("rows")))
    return Rows(_number(body), columns, rows, body.get("truncated") is True)


def json_within(content: str) -> Mapping[str, Any]:
    """The JSON object that a text is, or that stands between marks of where it came from; empty where there is none."""
    for text in (content, content[content.find("{") : content.rfind("}") + 1]):
        try:
            body = json.loads(text)
        except (ValueError, RecursionError):
            continue
        return cast(Mapping[str, Any], body) if isinstance(body, dict) else {}
    return {}


def _list(value: Any) -> list[Any]:
    return cast(list[Any], value) if isinstance(value, list) else []


def _objects(value: Any) -> list[Mapping[str, Any]]:
    return [cast(Mapping[str, Any], one) for one in _list(value) if isinstance(one, dict)]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else str(value)


def _number(one: Mapping[str, Any]) -> int:
    value = one.get("n")
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


_LINK = re.compile(
    r"!?\[([^\]\n]*)\]\([^)\s]*\)|<?\b(?:https?|ftp|file|javascript|data|mailto):[^\s>)\]]*>?|\bwww\.\S+", re.I
)
_TAG = re.compile(r"<[^<>\n]{1,200}>")
_MARK = re.compile(r"\[\s*([\d,\s]+)\s*\]")
_HIDDEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff\U000e0000-\U000e007f]")
_BLANKS = re.compile(r"\t[ \t]*| [ \t]+")
_COMMAND = re.compile(
    (
        r"\b(?:ignor(?:e|a|ad|es?|ing|en)\b.{0,40}\b(?:instru|previous|anterior|above|rules|"
        r"reglas|prompt)|disregard\b|(?:system|developer) (?:prompt|message)|mensaje (?:del|"
        r"de) sistema|prompt (?:del|de) sistema|(?:new|nuevas) instruc|you are (?:now|an ai|"
        r"a helpful)|eres (?:ahora|un asistente)|as an ai|call the (?:tool|function)|"
        r"llama a la (?:herramienta|funcion)|(?:dear|attention|note to) (?:ai|assistant|model)|"
        r"asistente:|assistant:|<\|)"
    ),
    re.I,
)


@lru_cache(maxsize=1024)
def clean(text: str) -> str:
    """Untrusted text as it may be quoted: no links, tags, hidden characters, or marks that look like citations."""
    text = _HIDDEN.sub("", text)
    text = _LINK.sub(lambda match: match[1] or "", text)
    text = _MARK.sub(r"(\1)", _TAG.sub(" ", text))
    return _BLANKS.sub(" ", text).strip()


def gives_orders(text: str) -> bool:
    """Whether a text talks to the model instead of to its readers; such sentences are not quoted."""
    return bool(_COMMAND.search(text))
