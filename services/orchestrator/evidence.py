"""Numbers what the tools found, so that an answer can cite it, and writes it down for the model."""

import json
import re
from collections.abc import Hashable, Mapping
from typing import Any

from services.orchestrator.results import Found, Page, Pages, Passage, Passages, Rows, Source, has_content

_OFF_TOPIC = "No collection seems to be about this. Name one in `collection` to search it all the same."
_FOOTNOTE = re.compile(r"\[([\d, ]{1,49})\]")


class Evidence:
    """The numbered sources of one run. The same source found twice keeps its number."""

    def __init__(self, max_observation_chars: int = 24_000) -> None:
        """`max_observation_chars`: ceiling of what one tool result may take of the model's context."""
        self._max_chars = max_observation_chars
        self._numbers: dict[Hashable, int] = {}
        self._sources: dict[int, Source] = {}
        self.has_content = False

    @property
    def sources(self) -> Mapping[int, Source]:
        """Sources by number, in order."""
        return self._sources

    def __contains__(self, mark: object) -> bool:
        """Whether `mark` names a source."""
        return mark in self._sources

    def add(self, found: Found) -> str:
        """Numbers the sources in `found`; returns the observation for the model, a JSON text."""
        self.has_content = self.has_content or has_content(found)
        match found:
            case Passages():
                note = {"note": _OFF_TOPIC} if found.off_topic else {}
                return _text({"passages": self._listed(found.passages, _passage), **note})
            case Pages():
                return _text({"results": self._listed(found.pages, _page)})
            case Rows():
                return self._rows(found)

    def _listed(self, sources: tuple[Any, ...], describe: Any) -> list[dict[str, Any]]:
        """As many as fit; the first always, cut where it is too long."""
        listed: list[dict[str, Any]] = []
        left = self._max_chars
        for source in sources:
            body, text_field = describe(source)
            size = len(_text(body))
            if size > left and listed:
                break
            if size > left:
                body[text_field] = body[text_field][: max(0, left - (size - len(body[text_field])))] + "…"
            left -= size
            listed.append({"n": self._number(source), **body})
        return listed

    def _rows(self, found: Rows) -> str:
        rows: list[tuple[Any, ...]] = []
        left = self._max_chars
        for row in found.rows:
            left -= len(_text(row)) + 1
            if left < 0:
                break
            rows.append(row)
        return _text(
            {
                "n": self._number(found),
                "columns": found.columns,
                "rows": rows,
                "row_count": len(found.rows),
                "truncated": found.truncated or len(rows) < len(found.rows),
            }
        )

    def _number(self, source: Source) -> int:
        match source:
            case Passage():
                key: Hashable = (source.document_id, source.chunk_id)
            case Page():
                key = source.url
            case Rows():
                key = (source.statement, source.params_json)
        number = self._numbers.setdefault(key, len(self._numbers) + 1)
        self._sources[number] = source
        return number


def error_observation(tool: str, message: str, *, code: str = "", position: str = "", hint: str = "") -> str:
    """What the model sees of a failed call; nothing of what is not known."""
    return _text(failure_fields(tool, message, code=code, position=position, hint=hint))


def failure_fields(tool: str, message: str, *, code: str = "", position: str = "", hint: str = "") -> dict[str, Any]:
    """The same as an object."""
    place = int(position) if position.isdecimal() else 0
    helps = {"code": code, "position": place, "hint": hint}
    return {"error": message, "tool": tool} | {name: value for name, value in helps.items() if value}


def preview(rows: Rows, max_rows: int = 10) -> str:
    """The first rows as JSON, for people who check a citation."""
    return _text({"columns": rows.columns, "rows": rows.rows[:max_rows]})


def _passage(passage: Passage) -> tuple[dict[str, Any], str]:
    body: dict[str, Any] = {"document_id": passage.document_id, "title": _unmarked(passage.title)}
    optional = {"section": _unmarked(passage.section), "page": passage.page, "language": passage.language}
    return body | {key: value for key, value in optional.items() if value} | {"text": _unmarked(passage.text)}, "text"


def _page(page: Page) -> tuple[dict[str, Any], str]:
    body: dict[str, Any] = {"title": _unmarked(page.title), "url": page.url, "snippet": _unmarked(page.snippet)}
    return body | ({"published": page.published} if page.published else {}), "snippet"


def _unmarked(text: str) -> str:
    """`text` with its own footnotes as (1): copied into an answer they would pass for our citations."""
    return _FOOTNOTE.sub(r"(\1)", text)


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
