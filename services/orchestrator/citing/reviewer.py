"""Checks an answer against its sources: every number, and every mark whose words could not tell at once."""

import asyncio
import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from services.orchestrator.citing import metrics, notes
from services.orchestrator.citing.absence import speaks_of_absence
from services.orchestrator.citing.claims import MARKS, Claim, claims, numbers, sentences
from services.orchestrator.citing.comparing import Statement, has, is_foreign, related, statement, unexplained
from services.orchestrator.citing.denial import contradicts, lack_in
from services.orchestrator.citing.figures import Figure
from services.orchestrator.citing.judge import ClaimJudge, Unjudged
from services.orchestrator.citing.meaning import Meaning, Nearest
from services.orchestrator.citing.review import Draft, Review
from services.orchestrator.citing.support import Support, Verdict, without_headings
from services.orchestrator.events import Finding, FindingKind
from services.orchestrator.model import Spent
from services.orchestrator.results import Degraded
from services.runtime.errors import ServiceError

log = logging.getLogger(__name__)
_MAX_CHARS, _MAX_FINDINGS = 40_000, 20
_SHOWN_CHARS = 300
# Tuned on the development half of tests/data/citations with multilingual-e5-small: nearness below which a sentence does
# not say what the claim does, in the same language and in another; and by how much another source has to be nearer.
_NEAR, _NEAR_FOREIGN, _NEARER = 0.52, 0.24, 0.10


class EvidenceReviewer:
    """The checks, in the order of their cost: words, meaning, and a model where one is given."""

    def __init__(self, meaning: Meaning | None = None, judge: ClaimJudge | None = None, seconds: float = 1) -> None:
        """`meaning`: None where there are no embeddings. `seconds` bounds what is asked of services and models."""
        self._meaning = meaning
        self._judge = judge or Unjudged()
        self._seconds = seconds

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
        support = Support(draft.sources, draft.question, *draft.said)
        text = draft.answer[:_MAX_CHARS]
        figures = list(_unsupported_numbers(text, support))[:_MAX_FINDINGS]
        wrong, doubtful = _judged(text, support)
        lost: list[Degraded] = []
        if doubtful and self._meaning is not None:
            try:
                found = await self._by_meaning(self._meaning, support, doubtful, max(0.0, ends - time.monotonic()))
                wrong += [one for one in found if one.reason]
                doubtful = [one for one, seen in zip(doubtful, found, strict=True) if not seen.reason and not seen.sure]
            except (ServiceError, TimeoutError):
                lost.append(Degraded("embedding", "the meaning of citations could not be checked"))
        wrong += await self._by_model(support, doubtful, spent, ends)
        marks = [
            Finding(FindingKind.CITATION, one.claim.text[-_SHOWN_CHARS:], one.reason, mark)
            for one in wrong
            for mark in one.claim.marks
        ]
        for kind, found in (("number", figures), ("citation", marks)):
            metrics.FINDINGS.labels(kind, "end").inc(len(found))
        findings = [*figures, *marks][:_MAX_FINDINGS]
        shown = [one.mark for one in marks]
        note = notes.note(draft.answer, draft.question, [one.text for one in figures], shown)
        return Review(draft.answer, findings, note, degraded=lost)

    async def _by_meaning(
        self, meaning: Meaning, support: Support, doubtful: Sequence["_Doubt"], seconds: float
    ) -> list["_Doubt"]:
        """The doubts with a reason where meaning tells that the source does not say it."""
        cited = dict.fromkeys(mark for one in doubtful for mark in one.claim.marks)
        others = [mark for mark in support.marks if mark not in cited]
        listed = {mark: support.source(mark).sentences for mark in [*cited, *others]}
        async with asyncio.timeout(seconds):
            found = await meaning.nearest([one.claim.text for one in doubtful], listed, seconds)
        return [_weighed(one, nearest, support) for one, nearest in zip(doubtful, found, strict=True)]

    async def _by_model(
        self, support: Support, doubtful: Sequence["_Doubt"], spent: Spent, ends: float
    ) -> list["_Doubt"]:
        texts = {mark: support.source(mark).text for one in doubtful for mark in one.claim.marks}
        if not doubtful:
            return []
        seconds = max(0.0, ends - time.monotonic())
        rejected = await self._judge.unsupported([one.claim for one in doubtful], texts, spent, seconds)
        return [_Doubt(doubtful[at].claim, doubtful[at].said, notes.BY_MODEL) for at in rejected]


@dataclass(frozen=True)
class _Doubt:
    """A claim that words cannot judge. `reason`: why it is wrong after all; `sure`: it is not.

    `telling`: see Comparison.
    """

    claim: Claim
    said: Statement
    reason: str = ""
    sure: bool = False
    telling: float = 0


def _judged(text: str, support: Support) -> tuple[list[_Doubt], list[_Doubt]]:
    """Claims that are wrong, and such that words cannot judge. Of several marks in a row the doubtful ones only."""
    wrong: list[_Doubt] = []
    doubtful: list[_Doubt] = []
    for sentence in sentences(text):
        for claim in claims(sentence):
            judged = support.judge(claim.text, claim.marks)
            for verdict, kept in ((Verdict.WRONG, wrong), (Verdict.DOUBTFUL, doubtful)):
                marks = tuple(mark for mark, one in judged.items() if one.verdict is verdict)
                if marks:
                    reason = judged[marks[0]].reason if verdict is Verdict.WRONG else ""
                    telling = judged[marks[0]].telling
                    kept.append(_Doubt(Claim(claim.text, marks), statement(claim.text), reason, telling=telling))
    return wrong, doubtful


def _weighed(doubt: _Doubt, nearest: Mapping[int, Nearest], support: Support) -> _Doubt:
    claim, said = doubt.claim, doubt.said
    cited = [nearest[mark] for mark in claim.marks if mark in nearest]
    if not cited:
        return doubt
    best = max(cited, key=lambda one: one.nearness)
    other = max(((one.nearness, mark) for mark, one in nearest.items() if mark not in claim.marks), default=(0.0, 0))
    sources = [support.source(mark) for mark in claim.marks]
    foreign = is_foreign(said, sources)
    if all(one.tabular for one in sources):
        return _Doubt(claim, said, sure=True)  # what rows are about stands in the question
    if other[0] > best.nearness + _NEARER:
        return _Doubt(claim, said, f"source {other[1]} says it, not the one that is cited")
    if best.nearness < (_NEAR if said.language and not foreign else _NEAR_FOREIGN) and doubt.telling < 1:
        return _Doubt(claim, said, notes.OTHER)
    if len(sources) == 1 and not sources[0].tabular and not best.sentence.whole:
        beside = best.beside if foreign else related(said, sources[0].sentences, best.sentence)
        if contradicts(said.words, said.keys, best.sentence, beside, foreign=foreign):
            return _Doubt(claim, said, notes.CONTRARY)
    return _Doubt(claim, said, sure=True)


def _unsupported_numbers(text: str, support: Support) -> Iterator[Finding]:
    """Numbers that are neither in any source, nor in the question, nor computed from them."""
    cited = [mark for row in MARKS.finditer(text) for mark in numbers(row.group())]
    # Most numbers stand in what is cited: the other sources are read when one does not.
    told: set[str] = set()
    first = [support.source(mark) for mark in dict.fromkeys(cited) if mark in support.marks]
    for sentence in sentences(text):
        bare = MARKS.sub(lambda match: " " * len(match.group()), sentence)
        said = statement(without_headings(bare, first))
        unknown = [one for one in said.figures if not any(has(source, one) for source in first)]
        if not unknown or speaks_of_absence(bare):
            continue
        sources = support.everything()
        unknown = [one for one in unknown if not any(has(source, one) for source in sources)]
        lack = lack_in(bare)
        for figure in unexplained(said, unknown, sources, support.asked):
            known = figure.text in lack or figure.text in told or support.is_count(figure, said)
            if not known and (sources or _matters(figure)):
                told.add(figure.text)
                yield Finding(FindingKind.NUMBER, figure.text, notes.NUMBER)


def _matters(figure: Figure) -> bool:
    """Whether a number must be accounted for in an answer without any source, such as one to a greeting."""
    return not figure.spelt and (bool(figure.unit) or abs(figure.value) > 10)
