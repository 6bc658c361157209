"""Numbers what the tools found, so that an answer can cite it, and writes it down for the model."""

import json
import re
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from services.orchestrator.model import estimate_tokens
from services.orchestrator.results import Found, Page, Pages, Passage, Passages, Reply, Rows, Source, has_content
from services.orchestrator.shortening import brief, folded, says_the_same

_OFF_TOPIC = "No collection seems to be about this. Name one in `collection` to search it all the same."
_FOOTNOTE = re.compile(r"\[([\d, ]{1,49})\]")
# From so many entries of so many characters on, models overlook what is in the middle.
_LONG_LIST, _LONG_CHARS = 6, 6_000
# What is left of an entry, or of rows, that was not cited.
_BRIEF_CHARS, _BRIEF_ROWS = 200, 3
# Whoever stores a document or writes a page chooses its title: that is no place for a text.
_HEADING_CHARS = 300
# A source as the model reads it, and the name of the field that holds its text.
_Describe = Callable[[Any], tuple[dict[str, Any], str]]


@dataclass(frozen=True)
class EvidenceBudgets:
    """Tokens that all results of one kind may take of the model's context, over a whole run."""

    documents: int = 16_000
    rows: int = 8_000
    web: int = 8_000
    replies: int = 8_000

    def of(self, found: Found) -> int:
        """The budget of this kind."""
        match found:
            case Passages():
                return self.documents
            case Rows():
                return self.rows
            case Pages():
                return self.web
            case Reply():
                return self.replies


@dataclass
class _Observation:
    """What was written of one result: `short` once it had to be shortened."""

    found: Found
    body: dict[str, Any]
    text: str
    short: str = ""

    @property
    def tokens(self) -> int:
        return estimate_tokens(self.short or self.text)


class Evidence:
    """The numbered sources of one run. The same source found twice keeps its number.

    A text that was given is not given again: one that says the same is named as a further source of it (`also_in`).
    With `budgets`, long results have the most relevant first and last, where models look (Liu et al. 2023, "Lost in the
    Middle"), and older results are shortened once those of their kind are too large together.
    """

    def __init__(self, max_observation_chars: int = 24_000, budgets: EvidenceBudgets | None = None) -> None:
        """`max_observation_chars`: ceiling of what one tool result may take of the model's context."""
        self._max_chars = max_observation_chars
        self._budgets = budgets
        self._numbers: dict[Hashable, int] = {}
        self._sources: dict[int, Source] = {}
        self._observations: list[_Observation] = []
        self._given: dict[str, set[int]] = {}
        self._cited: set[int] = set()
        self.has_content = False

    @property
    def sources(self) -> Mapping[int, Source]:
        """Sources by number, in order."""
        return self._sources

    @property
    def count(self) -> int:
        """Results so far; the next one has this index."""
        return len(self._observations)

    def __contains__(self, mark: object) -> bool:
        """Whether `mark` names a source."""
        return mark in self._sources

    def add(self, found: Found, reader: str | None = None) -> str:
        """Numbers the sources in `found`; returns the observation for the model, a JSON text.

        `reader` names the transcript that it is for: what stands there already is not repeated. None repeats it.
        """
        self.has_content = self.has_content or has_content(found)
        body = self._body(found, set() if reader is None else self._given.setdefault(reader, set()))
        self._observations.append(_Observation(found, body, _text(body)))
        if self._budgets:
            self._keep_within(self._budgets, found)
        return self._observations[-1].text

    def cite(self, marks: Collection[int]) -> None:
        """Notes what was cited: that is not shortened from now on."""
        self._cited.update(marks)

    def shortened(self, index: int) -> str:
        """The result of this index as it is to be read from now on; empty where it stays as it was."""
        return self._observations[index].short

    def _body(self, found: Found, given: set[int]) -> dict[str, Any]:
        match found:
            case Passages():
                note = {"note": _OFF_TOPIC} if found.off_topic else {}
                return {"passages": self._listed(found.passages, _passage, given), **note}
            case Pages():
                return {"results": self._listed(found.pages, _page, given)}
            case Rows():
                return self._rows(found)
            case Reply():
                return {
                    "n": self._number(found),
                    "tool": found.tool,
                    "text": brief(_unmarked(found.text), self._max_chars),
                }

    def _listed(self, sources: Sequence[Any], describe: _Describe, given: set[int]) -> list[dict[str, Any]]:
        """As many as fit; the first always, cut where it is too long. Then the order in which they are read."""
        listed: list[dict[str, Any]] = []
        folds: list[str] = []
        left = self._max_chars
        for source in sources:
            body, field = describe(source)
            fold = folded(body[field])
            same = next((at for at, other in enumerate(folds) if fold and says_the_same(fold, other)), None)
            if same is not None:
                listed[same].setdefault("also_in", []).append(_named(self._number(source), body, field))
                continue
            size = len(_text(body))
            if size > left and listed:
                break
            if size > left:
                body[field] = brief(body[field], max(0, left - (size - len(body[field]))))
            number = self._number(source)
            if number in given:
                body = {key: value for key, value in body.items() if key != field} | {"given": "above"}
                size = len(_text(body))
            given.add(number)
            left -= size
            listed.append({"n": number, **body})
            folds.append(fold)
        is_long = len(listed) >= _LONG_LIST and self._max_chars - left >= _LONG_CHARS
        return [*listed[::2], *listed[1::2][::-1]] if self._budgets and is_long else listed

    def _rows(self, found: Rows) -> dict[str, Any]:
        rows: list[tuple[Any, ...]] = []
        left = self._max_chars - len(_text(found.columns))
        for row in found.rows:
            left -= len(_text(row)) + 1
            if left < 0:
                break
            rows.append(row)
        return {
            "n": self._number(found),
            "columns": found.columns,
            "rows": rows,
            "row_count": len(found.rows),
            "truncated": found.truncated or len(rows) < len(found.rows),
        }

    def _keep_within(self, budgets: EvidenceBudgets, found: Found) -> None:
        """Shortens the older results of a kind, all at once: every change makes the model's server read anew."""
        alike = [one for one in self._observations if type(one.found) is type(found)]
        if sum(one.tokens for one in alike) > budgets.of(found):
            for one in alike[:-1]:
                one.short = one.short or self._short(one.body)
            for given in self._given.values():  # what is found once more has to be given again
                given.difference_update(number for one in alike[:-1] for number in _marks(one.body))

    def _short(self, body: Mapping[str, Any]) -> str:
        """A result with what was cited, and the beginning of the rest. Numbers stay as they are."""
        if "rows" in body:
            kept = body["rows"] if body["n"] in self._cited else body["rows"][:_BRIEF_ROWS]
            return _text({**body, "rows": kept, "truncated": body["truncated"] or len(kept) < len(body["rows"])})
        if "tool" in body:
            return _text(self._short_entry(body))
        name = next(iter(body))
        return _text({**body, name: [self._short_entry(one) for one in body[name]]})

    def _short_entry(self, entry: Mapping[str, Any]) -> dict[str, Any]:
        cited = {entry["n"], *(one["n"] for one in entry.get("also_in", ()))} & self._cited
        field = "snippet" if "snippet" in entry else "text"
        return dict(entry) if cited or field not in entry else {**entry, field: brief(entry[field], _BRIEF_CHARS)}

    def _number(self, source: Source) -> int:
        match source:
            case Passage():
                key: Hashable = (source.document_id, source.chunk_id)
            case Page():
                key = source.url
            case Rows():
                key = (source.statement, source.params_json)
            case Reply():
                key = ("tool", source.tool, source.arguments_json)
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
    """Every turn reads all of it again: nothing is said twice, nor what the text shows by itself, as its language."""
    title, section = _heading(passage.title), _heading(passage.section)
    body: dict[str, Any] = {} if passage.document_id in title else {"document_id": passage.document_id}
    optional = {"section": section, "page": passage.page}
    text = _unmarked(_below_heading(passage.text, passage.section))
    return body | {"title": title} | {key: value for key, value in optional.items() if value} | {"text": text}, "text"


def _below_heading(text: str, section: str) -> str:
    """A text without the heading of its section, where it begins with it."""
    heading, (first, _, rest) = section.rpartition(" > ")[2].strip(), text.partition("\n")
    return rest.lstrip() if heading and rest and first.strip() == heading else text


def _page(page: Page) -> tuple[dict[str, Any], str]:
    body: dict[str, Any] = {"title": _heading(page.title), "url": page.url, "snippet": _unmarked(page.snippet)}
    return body | ({"published": page.published} if page.published else {}), "snippet"


def _marks(body: Mapping[str, Any]) -> list[int]:
    return [one["n"] for one in body.get("passages", body.get("results", ()))]


def _named(number: int, body: Mapping[str, Any], text_field: str) -> dict[str, Any]:
    """A further source of a text."""
    return {"n": number, **{key: value for key, value in body.items() if key != text_field}}


def _heading(text: str) -> str:
    return brief(_unmarked(text), _HEADING_CHARS)


def _unmarked(text: str) -> str:
    """`text` with its own footnotes as (1): copied into an answer they would pass for our citations."""
    return _FOOTNOTE.sub(r"(\1)", text)


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
