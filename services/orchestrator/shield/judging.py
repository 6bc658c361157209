"""What the model may read of a tool's result, by the tenant's policy: each text as it is, in parts, or not at all."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar, cast

from services.orchestrator.results import Found, Page, Pages, Passage, Passages, Reply, Rows
from services.orchestrator.shield.heard import texts_of
from services.orchestrator.shield.known_links import is_web
from services.orchestrator.shield.verdicts import Verdicts, without
from services.runtime.recognition.injections.detector import HARMLESS_BELOW, Suspect
from services.runtime.tenants import GuardTools

# A text, and parts of it that were suspected before; the text as the model may read it.
_Rewrite = Callable[[str, Sequence[str]], str]
_Listed = TypeVar("_Listed", Passage, Page)

# Shorter cells say nothing that could be obeyed.
_LEAST_CHARS = 8
_WITHHELD = "[withheld: this source gives orders to the model]"


@dataclass(frozen=True)
class Judged:
    """One text: what the model may read in its place, and the worst score in it; `kinds` of what was found.

    `blamed`: the parts that give orders.
    """

    text: str
    score: float = 0
    kinds: frozenset[str] = frozenset()
    blamed: str = ""

    @property
    def suspicious(self) -> bool:
        """Whether it gives orders."""
        return bool(self.kinds)


class Judging:
    """Of the results of one run. Changes nothing but what it knows to be harmless, and may be asked in any thread."""

    def __init__(self, policy: GuardTools, verdicts: Verdicts) -> None:
        self._policy = policy
        self._verdicts = verdicts
        self._harmless: set[str] = set()

    def know_harmless(self, found: Found) -> None:
        """Notes texts in which the scan of documents, by this very detector, found nothing to be looked for here."""
        version = self._verdicts.detector.version
        if version and isinstance(found, Passages) and self._policy.injection_score >= HARMLESS_BELOW:
            self._harmless.update(one.text for one in found.passages if one.harmless_by == version)

    def suspects(self, text: str) -> Sequence[Suspect]:
        """Parts of a text that may give orders."""
        if not text or text in self._harmless:
            return ()
        return self._verdicts.of(text, min(HARMLESS_BELOW, self._policy.injection_score))

    def of(self, found: Found) -> tuple[Found, list[Judged]]:
        """What the model may read of a result, and what was found in each of its texts."""
        if self._policy.injection == "off":
            return found, [Judged(text) for text in texts_of(found)[1]]
        judged: list[Judged] = []

        def rewrite(text: str, marked: Sequence[str]) -> str:
            judged.append(self.of_text(text, marked))
            return judged[-1].text

        return self._rewritten(found, rewrite, judged), judged

    def _rewritten(self, found: Found, of: _Rewrite, judged: list[Judged]) -> Found:
        def kept(ones: Sequence[_Listed], rewritten: Callable[[_Listed, _Rewrite], _Listed]) -> tuple[_Listed, ...]:
            after: list[_Listed] = []
            for one in ones:
                before = len(judged)
                admitted = rewritten(one, of)
                after += () if self._drops(judged[before:]) else (admitted,)
            return tuple(after)

        match found:
            case Passages():
                return replace(found, passages=kept(found.passages, _passage))
            case Pages():
                return replace(found, pages=kept(found.pages, _page))
            case Rows():
                rows = tuple(tuple(self._cell(cell, of, judged) for cell in row) for row in found.rows)
                return found if rows == found.rows else replace(found, rows=rows)
            case Reply():
                text = of(found.text, ())
                return replace(found, text=_WITHHELD if self._drops(judged[-1:]) else text)

    def _drops(self, judged: Sequence[Judged]) -> bool:
        return self._policy.injection == "block" and any(one.suspicious for one in judged)

    def _cell(self, cell: Any, of: _Rewrite, judged: list[Judged]) -> Any:
        """A cell may be a list or an object, with texts and names of its own."""
        if isinstance(cell, dict):
            members = cast(Mapping[str, Any], cell).items()
            return {self._cell(name, of, judged): self._cell(one, of, judged) for name, one in members}
        if isinstance(cell, list):
            return [self._cell(one, of, judged) for one in cast(Sequence[Any], cell)]
        if not isinstance(cell, str) or len(cell) < _LEAST_CHARS:
            return cell
        text = of(cell, ())
        return _WITHHELD if self._drops(judged[-1:]) else text

    def of_text(self, text: str, marked: Sequence[str] = ()) -> Judged:
        """One text; `marked` are parts of it that were suspected before."""
        suspects = (*self.suspects(text), *_where(marked, text))
        sure = [one for one in suspects if one.score >= self._policy.injection_score]
        if not sure:
            return Judged(text)
        score, kinds = max(one.score for one in sure), frozenset(one.kind for one in sure)
        if self._policy.injection == "scan":
            kept = text
        else:
            kept = without(text, sure, suspects)
        return Judged(kept, score, kinds, "\n".join(text[one.start : one.end] for one in sure))


def _passage(one: Passage, of: _Rewrite) -> Passage:
    """`source` is a link or the name of a file, which may say anything."""
    return replace(
        one,
        title=of(one.title, ()),
        section=of(one.section, ()),
        source=one.source if is_web(one.source) else of(one.source, ()),
        metadata={name: of(value, ()) for name, value in one.metadata.items()},
        text=of(one.text, one.suspicious),
    )


def _page(one: Page, of: _Rewrite) -> Page:
    return replace(one, title=of(one.title, ()), snippet=of(one.snippet, ()), published=of(one.published, ()))


def marks(found: Found) -> Sequence[str]:
    """What the scan of documents suspected of a result."""
    return [mark for one in found.passages for mark in one.suspicious] if isinstance(found, Passages) else []


def _where(marked: Sequence[str], text: str) -> Iterator[Suspect]:
    """Each mark in the text: whoever scanned the document may have seen what the text alone does not show."""
    for mark in marked:
        at = text.find(mark) if mark else -1
        if at >= 0:
            yield Suspect(at, at + len(mark), 1.0, "document")
