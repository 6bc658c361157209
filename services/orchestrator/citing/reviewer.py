"""Checks an answer against its sources: every number, and every mark whose words could not tell at once."""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, replace

from services.orchestrator.citing import metrics, notes
from services.orchestrator.citing.absence import speaks_of_absence
from services.orchestrator.citing.alignment import Alignment
from services.orchestrator.citing.claims import MARKS, Claim, claims, numbers, sentences
from services.orchestrator.citing.denial import lack_in
from services.orchestrator.citing.figure_support import has, unexplained
from services.orchestrator.citing.figures import Figure
from services.orchestrator.citing.judge import MOST_CLAIMS, ClaimJudge, Heard, Unjudged
from services.orchestrator.citing.meaning import Meaning, Nearest
from services.orchestrator.citing.opposing import Opposed, oppositions
from services.orchestrator.citing.review import Draft, Review
from services.orchestrator.citing.source_text import SourceText
from services.orchestrator.citing.statement import Statement, is_foreign, statement
from services.orchestrator.citing.support import Support, Verdict, without_headings
from services.orchestrator.events import Finding, FindingKind
from services.orchestrator.model import Spent
from services.orchestrator.results import Degraded, Passage
from services.runtime.errors import ServiceError

log = logging.getLogger(__name__)
_MAX_CHARS, _MAX_FINDINGS = 40_000, 20
_OPENING_SENTENCES = (
    "The supplier Acme must not deliver more than 30 units before 1 May 2024, unless the office in London agrees.",
    "El proveedor Acme no puede entregar más de 30 unidades antes del 1 de mayo de 2024, salvo acuerdo en Londres.",
)
_SHOWN_CHARS = 300
# Tuned on the development material in tests/data/citations with multilingual-e5-small: nearness below which a sentence
# does not say what the claim does, in the same language and in another; and by how much another source has to be
# nearer, and how near. A paraphrase shares few words and is not very near: both have to be plain.
_NEAR, _NEAR_FOREIGN, _NEARER, _NEAR_AT_ALL = 0.15, 0.24, 0.15, 0.35
# Of the claim's words: so few in what it cites and so many in another source tell that the mark is wrong.
_FEW_WORDS, _MOST_WORDS, _LEAST_WORDS = 0.34, 0.7, 4
# Whose words have this share of what the claim speaks of, that source is about the same.
_TELLING_SHARE, _TELLING_ANCHORS = 0.42, 2
# Below this share two clauses hardly speak of the same, and cannot say the contrary.
_ALIGNED_SHARE = 0.3
# By so much two sentences come nearer without a denial if they say the contrary with it; and of so many sentences of
# the cited sources, the nearest, clauses are compared.
_DENIAL_WEIGHS, _MOST_COMPARED = 0.065, 12


class EvidenceReviewer:
    """The checks, in the order of their cost: words, meaning, and a model where one is given."""

    def __init__(
        self,
        meaning: Meaning | None = None,
        judge: ClaimJudge | None = None,
        seconds: float = 1,
        *,
        judges_all: bool = False,
    ) -> None:
        """`meaning`: None where there are no embeddings. `seconds` bounds what is asked of services and models.

        `judges_all`: the judge is asked about every citation and has the last word; otherwise about those alone that
        nothing else decides.
        """
        self._meaning = meaning
        self._judge = judge or Unjudged()
        self._judges_all = judges_all
        self._seconds = seconds

    def warm(self) -> None:
        """Loads what the first answer would load otherwise: word lists, names of countries and cities, patterns."""
        sources = {at: Passage("", "", "", "", 1, "", "", text) for at, text in enumerate(_OPENING_SENTENCES)}
        support = Support(sources)
        for mark, text in enumerate(_OPENING_SENTENCES):
            for claim in (text, text.replace("London", "Paris").replace("Londres", "Berlín")):
                support.judge(claim, (mark,))

    async def review(self, draft: Draft, spent: Spent, seconds: float) -> Review:
        """See Reviewer."""
        started = time.monotonic()
        try:
            seconds = min(seconds, self._seconds)
            return await self._reviewed(draft, spent, started + seconds)
        except Exception:
            log.exception("an answer could not be checked")
            return Review(draft.answer, degraded=(Degraded("citation_check", "the answer could not be checked"),))

    async def _reviewed(self, draft: Draft, spent: Spent, ends: float) -> Review:
        support = draft.support or Support(draft.sources, draft.question, *draft.said)
        text = draft.answer[:_MAX_CHARS]
        figures = [one async for one in _unsupported_numbers(text, support)]
        wrong, doubtful = await _judged(text, support)
        lost: list[Degraded] = []
        if doubtful and self._meaning is not None:
            try:
                found = await self._by_meaning(self._meaning, support, doubtful, max(0.0, ends - time.monotonic()))
                wrong += [one for one in found if one.reason]
                doubtful = [one for one, seen in zip(doubtful, found, strict=True) if not seen.reason and not seen.sure]
            except (ServiceError, TimeoutError):
                lost.append(Degraded("embedding", "the meaning of citations could not be checked"))
        asked = _cited(text, support) if self._judges_all else [one.claim for one in doubtful]
        rejected = await self._by_model(support, asked, spent, ends)
        if rejected is None:
            lost.append(Degraded("citation_judge", "the model that judges citations did not answer"))
        elif self._judges_all:
            heard = Heard(asked[:MOST_CLAIMS], rejected)
            wrong = [one for one in wrong if not heard.clears(one.claim.text)]
            figures = [(sentence, one) for sentence, one in figures if not heard.clears_all(sentence)]
        wrong += [_Doubt(asked[at], statement(asked[at].text), notes.BY_MODEL) for at in rejected or ()]
        marks = [
            Finding(FindingKind.CITATION, one.claim.text[-_SHOWN_CHARS:], one.reason, mark)
            for one in _each_once(wrong)
            for mark in one.claim.marks
        ]
        told = [one for _, one in figures][:_MAX_FINDINGS]
        for kind, found in (("number", told), ("citation", marks)):
            metrics.FINDINGS.labels(kind, "end").inc(len(found))
        findings = [*told, *marks][:_MAX_FINDINGS]
        shown = [one.mark for one in marks]
        note = notes.note(draft.answer, draft.question, [one.text for one in told], shown)
        return Review(draft.answer, findings, note, degraded=lost)

    async def _by_meaning(
        self, meaning: Meaning, support: Support, doubtful: Sequence["_Doubt"], seconds: float
    ) -> list["_Doubt"]:
        """The doubts with a reason where meaning tells that the source does not say it."""
        open_ = [one for one in doubtful if not one.denied]
        cited = dict.fromkeys(mark for one in open_ for mark in one.claim.marks)
        others = [mark for mark in support.marks if mark not in cited]
        async with asyncio.timeout(seconds):
            weighed = iter(())
            if open_:
                listed = {mark: support.source(mark).sentences for mark in [*cited, *others]}
                nearest = await meaning.nearest([one.claim.text for one in open_], listed, seconds)
                weighed = iter([_weighed(one, near, support) for one, near in zip(open_, nearest, strict=True)])
            found = [one if one.denied else next(weighed) for one in doubtful]
            denied = [one for one in found if one.denied]
            if denied:
                pairs = [(one.claim.text, one.denied.strip()) for one in denied]
                nearer = iter(await meaning.denials(pairs, seconds))
                found = [_second_look(one, next(nearer)) if one.denied else one for one in found]
        return found

    async def _by_model(
        self, support: Support, asked: Sequence[Claim], spent: Spent, ends: float
    ) -> Sequence[int] | None:
        """Places of those that the judge rejects; None where it did not answer."""
        if not asked:
            return ()
        texts = {mark: support.source(mark).text for one in asked for mark in one.marks}
        return await self._judge.unsupported(asked, texts, spent, max(0.0, ends - time.monotonic()))


@dataclass(frozen=True)
class _Doubt:
    """A claim that words cannot judge. `reason`: why it is wrong after all; `sure`: it is not.

    `telling`: see Comparison. `denied`: see Judgement. `beside`: further marks behind the same words.
    """

    claim: Claim
    said: Statement
    reason: str = ""
    sure: bool = False
    telling: float = 0
    denied: str = ""
    beside: tuple[int, ...] = ()


async def _judged(text: str, support: Support) -> tuple[list[_Doubt], list[_Doubt]]:
    """Claims that are wrong, and such that words cannot judge. Of several marks in a row the doubtful ones only."""
    wrong: list[_Doubt] = []
    doubtful: list[_Doubt] = []
    for sentence in sentences(text):
        await asyncio.sleep(0)  # others go on between two sentences
        for claim in claims(sentence):
            judged = support.judge(claim.text, claim.marks)
            for verdict, kept in ((Verdict.WRONG, wrong), (Verdict.DOUBTFUL, doubtful)):
                marks = tuple(mark for mark, one in judged.items() if one.verdict is verdict)
                if marks:
                    reason = judged[marks[0]].reason if verdict is Verdict.WRONG else ""
                    first = judged[marks[0]]
                    said = statement(claim.text)
                    mine = Claim(claim.text, marks)
                    kept.append(_Doubt(mine, said, reason, False, first.telling, first.denied, claim.marks))
    return wrong, doubtful


def _weighed(doubt: _Doubt, nearest: Mapping[int, Nearest], support: Support) -> _Doubt:
    claim, said = doubt.claim, doubt.said
    cited = [nearest[mark] for mark in claim.marks if mark in nearest]
    if not cited:
        return doubt
    best = max(cited, key=lambda one: one.nearness)
    sources = [support.source(mark) for mark in claim.marks]
    if all(one.tabular for one in sources):
        return _Doubt(claim, said, sure=True)  # what rows are about stands in the question
    alignment = _alignment(claim.text, cited)
    if alignment.share < _TELLING_SHARE or len(alignment.anchors) < _TELLING_ANCHORS:
        others = {mark: one for mark, one in nearest.items() if mark not in (*claim.marks, *doubt.beside)}
        if (elsewhere := _elsewhere(said, sources, best.nearness, others, support)) is not None:
            return _Doubt(claim, said, f"source {elsewhere} says it, not the one that is cited")
        foreign = not said.language or is_foreign(said, sources)
        if best.nearness < (_NEAR_FOREIGN if foreign else _NEAR) and doubt.telling < 1:
            return _Doubt(claim, said, notes.OTHER)
    contrary = oppositions(alignment)
    if alignment.share >= _ALIGNED_SHARE and any(one.kind is not Opposed.DENIAL for one in contrary):
        return _Doubt(claim, said, notes.CONTRARY)
    contrary = [one for one in contrary if one.kind is Opposed.DENIAL]
    return _Doubt(claim, said, sure=True, denied=contrary[0].sentence if contrary else "")


def _alignment(text: str, cited: Sequence[Nearest]) -> Alignment:
    """With the nearest sentences of what is cited, in their order: what the first is about goes for the next ones."""
    listed = [one for found in cited for one in found.listed]
    kept = sorted(sorted(range(len(listed)), key=lambda at: -listed[at][1])[:_MOST_COMPARED])
    return Alignment(text, [listed[at][0].text for at in kept], [listed[at][1] for at in kept])


def _elsewhere(
    said: Statement, sources: Sequence[SourceText], nearness: float, others: Mapping[int, Nearest], support: Support
) -> int | None:
    """The mark of another source that says the claim, plainly rather than what is cited."""
    mark = max(others, key=lambda one: others[one].nearness, default=None)
    if mark is None:
        return None
    if others[mark].nearness > max(nearness + _NEARER, _NEAR_AT_ALL):
        return mark
    known = frozenset(one for source in sources for one in source.keys)
    if len(said.keys) < _LEAST_WORDS or len(said.keys & known) >= _FEW_WORDS * len(said.keys):
        return None
    having = [one for one in others if len(said.keys & support.source(one).keys) >= _MOST_WORDS * len(said.keys)]
    return having[0] if having else None


def _second_look(doubt: _Doubt, nearer: float) -> _Doubt:
    """A sentence that denies what its source does not, or the other way round, once it is known what that weighs."""
    return replace(doubt, reason=notes.CONTRARY if nearer > _DENIAL_WEIGHS else "", sure=True)


def _cited(text: str, support: Support) -> list[Claim]:
    """All claims that cite something which is there."""
    listed = [
        Claim(claim.text, tuple(mark for mark in claim.marks if mark in support.marks))
        for sentence in sentences(text)
        for claim in claims(sentence)
    ]
    return [one for one in listed if one.marks and one.text]


def _each_once(wrong: Sequence[_Doubt]) -> list[_Doubt]:
    """Of findings about the same words and marks the first."""
    return list({(one.claim.text, one.claim.marks): one for one in reversed(wrong)}.values())[::-1]


async def _unsupported_numbers(text: str, support: Support) -> AsyncGenerator[tuple[str, Finding]]:
    """Numbers that are neither in any source, nor in the question, nor computed from them; each with its sentence."""
    cited = [mark for row in MARKS.finditer(text) for mark in numbers(row.group())]
    # Most numbers stand in what is cited: the other sources are read when one does not.
    told: set[str] = set()
    first = [support.source(mark) for mark in dict.fromkeys(cited) if mark in support.marks]
    for sentence in sentences(text):
        await asyncio.sleep(0)
        bare = MARKS.sub(lambda match: " " * len(match.group()), sentence)
        said = statement(without_headings(bare, first))
        unknown = [one for one in said.figures if not any(has(source, one) for source in first)]
        if not unknown or speaks_of_absence(bare):
            continue
        sources = support.everything()
        unknown = [one for one in unknown if not any(has(source, one) for source in sources)]
        lack = lack_in(bare)
        # Before all that may be computed from sources: an answer counts its documents in every other line.
        unknown = [one for one in unknown if not support.is_count(one, said)]
        # What is cited first: among all numbers of all sources a computed one may be no more than chance.
        own = [mark for row in MARKS.finditer(sentence) for mark in numbers(row.group()) if mark in support.marks]
        for some in filter(None, ([support.source(mark) for mark in own], first, sources)):
            unknown = unexplained(said, unknown, some, support.asked)
        for figure in unknown if sources else unexplained(said, unknown, [], support.asked):
            if figure.text not in lack and figure.text not in told and (sources or _matters(figure)):
                told.add(figure.text)
                yield sentence, Finding(FindingKind.NUMBER, figure.text, notes.NUMBER)


def _matters(figure: Figure) -> bool:
    """Whether a number must be accounted for in an answer without any source, such as one to a greeting."""
    return not figure.spelt and (bool(figure.unit) or abs(figure.value) > 10)
