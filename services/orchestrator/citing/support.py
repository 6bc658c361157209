"""Whether the sources that a sentence cites say what it says, as far as words and figures tell."""

import asyncio
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from enum import Enum

from services.orchestrator.citing import notes
from services.orchestrator.citing.absence import is_left_out, speaks_of_absence
from services.orchestrator.citing.comparing import Comparison, compare, contraries, coverage
from services.orchestrator.citing.counting import is_count, may_count
from services.orchestrator.citing.denial import is_lacking, lack_in
from services.orchestrator.citing.figure_support import follows_with, has
from services.orchestrator.citing.figures import Figure, figures
from services.orchestrator.citing.opposing import Opposed
from services.orchestrator.citing.source_text import SourceText, calculation, is_calculation, is_long, read, read_text
from services.orchestrator.citing.statement import Statement, statement
from services.orchestrator.results import Source

# Tuned on the development half of tests/data/citations, see services/orchestrator/trials/citations.py.
_ENOUGH_COVERAGE, _LEAST_COVERAGE = 0.45, 0.13
_LEAST_KEYS = 3
# Of the words of a sentence so many stand in one of the source, before a denial in one of them may say the contrary;
# and so many before it surely does.
_ALIGNED, _SAME = 0.5, 0.99
# Judgements that are kept for the review of what has been streamed.
_MOST_REMEMBERED = 256
_LEAST_HEADING = 3
# What one reckons with without having found it: halves, hundreds, months and days.
_CONSTANTS = frozenset(map(Decimal, (0, 1, 2, 3, 4, 7, 10, 12, 24, 52, 60, 100, 360, 365, 366, 1000)))
_HEADING = re.compile(r"\s*#{1,6}\s")


class Verdict(Enum):
    """`DOUBTFUL`: words do not tell, as between two languages; meaning may."""

    SUPPORTED = "supported"
    DOUBTFUL = "doubtful"
    WRONG = "wrong"


@dataclass(frozen=True)
class Judgement:
    """A verdict with its reason in one line for people; empty where there is nothing to say.

    `telling`: see Comparison. `denied`: the sentence of a source that seems to say the contrary; meaning has to tell.
    """

    verdict: Verdict
    reason: str = ""
    telling: float = 0
    denied: str = ""


_SUPPORTED = Judgement(Verdict.SUPPORTED)


class Support:
    """Judges sentences of one answer against the sources of its run."""

    def __init__(self, sources: Mapping[int, Source], *asked: str) -> None:
        """`sources` by mark; it may grow. `asked`: the question and what was said before, whose figures are known."""
        self._sources = sources
        self._read: dict[int, tuple[Source, SourceText]] = {}
        self._judged: dict[tuple[str, tuple[int, ...], int], Mapping[int, Judgement]] = {}
        self._ahead: asyncio.Task[None] | None = None
        self._asked = [read_text(text) for text in asked if text]

    def read_ahead(self) -> None:
        """Reads the sources that are there by now in the background, while a model is thinking. Needs an event loop.

        Each is read between two turns of the loop, long ones beside it, so that nobody waits for them.
        """
        if self._ahead is None or self._ahead.done():
            self._ahead = asyncio.create_task(self._read_all(), name="read sources ahead")

    async def _read_all(self) -> None:
        while unread := [
            (at, one) for at, one in self._sources.items() if not (at in self._read or is_calculation(one))
        ]:
            for mark, source in unread:
                text = await asyncio.to_thread(read, source) if is_long(source) else read(source)
                self._read.setdefault(mark, (source, text))
                await asyncio.sleep(0)

    def source(self, mark: int) -> SourceText:
        """The source behind a mark, read once."""
        source = self._sources[mark]
        known = self._read.get(mark)
        if known is None or known[0] is not source:
            known = self._read[mark] = (source, self._calculated(source) if is_calculation(source) else read(source))
        return known[1]

    def _calculated(self, source: Source) -> SourceText:
        """A result of the calculator. It says what was put into it, too: that has to come from elsewhere.

        Otherwise a number that nobody found would become evidence by being reckoned with.
        """
        expression, result = calculation(source)
        others = [self.source(at) for at, one in self._sources.items() if not is_calculation(one)]
        earlier = [read_text(calculation(one)[1]) for one in self._sources.values() if is_calculation(one)]
        known = [*others, *self._asked, *(one for one in earlier if one.text != result)]
        operands = [one for one in figures(expression) if one.value not in _CONSTANTS or one.unit]
        return read_text(result if all(any(has(one, put) for one in known) for put in operands) else "")

    @property
    def read_count(self) -> int:
        """How many of the sources have been read."""
        return len(self._read)

    @property
    def marks(self) -> Sequence[int]:
        """The marks of the run."""
        return list(self._sources)

    @property
    def asked(self) -> Sequence[SourceText]:
        """What was asked and said before."""
        return self._asked

    def everything(self) -> list[SourceText]:
        """All sources of the run."""
        return [self.source(mark) for mark in self._sources]

    def judge(self, text: str, marks: Sequence[int]) -> Mapping[int, Judgement]:
        """For a sentence and the marks behind it, what becomes of each. Several together may support what none does."""
        asked = (text, tuple(marks), len(self._sources))
        if asked not in self._judged:
            if len(self._judged) >= _MOST_REMEMBERED:
                self._judged.clear()
            self._judged[asked] = self._judgements(text, marks)
        return self._judged[asked]

    def _judgements(self, text: str, marks: Sequence[int]) -> Mapping[int, Judgement]:
        cited = {mark: self.source(mark) for mark in marks if mark in self._sources}
        said = statement(without_headings(text, cited.values()))
        if not cited or speaks_of_absence(text) or not (said.keys or said.figures):
            return dict.fromkeys(cited, _SUPPORTED)
        sources = list(cited.values())
        found = self._compare(said, sources)
        together = self._verdict(said, found, sources)
        if together.verdict is Verdict.SUPPORTED and not found.foreign and not found.tabular:
            together = _contrary(said, sources)
        if found.absent and not found.missing and is_left_out(text):
            together = _SUPPORTED
        if not found.absent and self._lacks(said, found.missing, sources, foreign=found.foreign):
            together = _SUPPORTED
        # A heading names what follows, and says nothing of it.
        if _HEADING.match(text) and together.verdict is Verdict.DOUBTFUL:
            together = _SUPPORTED
        if len(cited) == 1:
            return dict.fromkeys(cited, together)
        return {mark: self._share(said, one, together) for mark, one in cited.items()}

    def _compare(self, said: Statement, sources: Sequence[SourceText]) -> Comparison:
        # A row does not say whose it is: the name may stand in the sources that led to it.
        beside = self.everything() if all(one.tabular for one in sources) else []
        found = compare(said, sources, self._asked, beside)
        known = {one for one in found.missing if self.is_count(one, said)}
        if found.missing and len(self._sources) > len(sources):
            others = [one for one in self.everything() if one not in sources]
            known |= follows_with(said, found.missing, sources, others)
        if not known:
            return found
        missing, misplaced = ([one for one in some if one not in known] for some in (found.missing, found.misplaced))
        return replace(found, missing=tuple(missing), misplaced=tuple(misplaced))

    def is_count(self, figure: Figure, said: Statement) -> bool:
        """Whether the figure counts the run's evidence, and rightly."""
        if not may_count(figure, said):  # before all sources are read
            return False
        evidence = {mark: (source, self.source(mark)) for mark, source in self._sources.items()}
        return is_count(figure, said, evidence)

    def _lacks(
        self, said: Statement, missing: Sequence[Figure], sources: Sequence[SourceText], *, foreign: bool
    ) -> bool:
        """Whether the sentence says that something is not there, and the sources do not speak of it, indeed."""
        lack = lack_in(said.text)
        if (
            not lack
            or any(one.text not in lack for one in missing)
            or not is_lacking(said.words, sources, foreign=foreign)
        ):
            return False
        told = compare(statement(f". {lack}"), sources)
        return not told.figures_found and len(told.absent) == told.names

    def _share(self, said: Statement, source: SourceText, together: Judgement) -> Judgement:
        """Of one among several marks: whether it adds anything. The sentence may be wrong without its fault."""
        if coverage(said, source.keys) >= _LEAST_COVERAGE or any(has(source, one) for one in said.figures):
            return _SUPPORTED  # before all that a comparison computes
        found = self._compare(said, [source])
        if len(found.absent) < found.names or found.foreign or len(said.keys) < _LEAST_KEYS:
            return _SUPPORTED
        return together if together.verdict is Verdict.WRONG else Judgement(Verdict.DOUBTFUL)

    def _verdict(self, said: Statement, found: Comparison, sources: Sequence[SourceText]) -> Judgement:
        if found.misplaced or (found.missing and (found.foreign or found.tabular or found.coverage < _ENOUGH_COVERAGE)):
            figure = (found.misplaced or found.missing)[0].text
            said_instead = f", which says {found.differing}" if found.differing else ""
            return Judgement(Verdict.WRONG, f"{figure} is not in the source{said_instead}")
        if found.absent:
            return Judgement(Verdict.WRONG, f"{found.absent[0]} is not in the source")
        if found.denied:
            if found.foreign:
                return Judgement(Verdict.WRONG, notes.CONTRARY)
            sure = len(said.keys) >= _LEAST_KEYS and bool(_aligned(said, sources, _SAME))
            verdict = Verdict.WRONG if sure else Verdict.DOUBTFUL
            return Judgement(verdict, notes.CONTRARY, found.telling, _aligned(said, sources, _ALIGNED))
        if found.tabular:
            return _SUPPORTED if said.figures or found.coverage else Judgement(Verdict.DOUBTFUL, notes.OTHER)
        if found.foreign or found.denied is None:
            return Judgement(Verdict.DOUBTFUL, notes.OTHER, found.telling)
        if len(said.keys) < _LEAST_KEYS or found.coverage >= _ENOUGH_COVERAGE:
            return _SUPPORTED
        # Few words in common are no fault of a paraphrase: meaning tells.
        telling = 0 if said.language else found.telling  # it may be another language, after all
        return Judgement(Verdict.DOUBTFUL, notes.OTHER, telling)


def _aligned(said: Statement, sources: Sequence[SourceText], share: float) -> str:
    """The sentence of the sources with most of the statement's words; empty where none has that share of them."""
    listed = [one for source in sources if not source.tabular for one in source.sentences]
    best = max(listed, key=lambda one: len(said.keys & one.keys), default=None)
    return best.text if best and len(said.keys & best.keys) >= share * len(said.keys) else ""


def _contrary(said: Statement, sources: Sequence[SourceText]) -> Judgement:
    """The verdict on a sentence whose words the sources have, by whether they say the contrary with them."""
    found = contraries(said, sources)
    if any(one.kind is not Opposed.DENIAL for one in found):
        return Judgement(Verdict.WRONG, notes.CONTRARY)
    return Judgement(Verdict.DOUBTFUL, notes.CONTRARY, denied=found[0].sentence) if found else _SUPPORTED


def without_headings(text: str, sources: Iterable[SourceText]) -> str:
    """The text without titles and headings that it repeats: `Holidays, 3. Carrying over` says no 3."""
    for source in sources:
        for heading in source.headings:
            if len(heading) >= _LEAST_HEADING:
                text = text.replace(heading, " ")
    return text
