"""How well wrong citations and numbers are found: `python -m services.orchestrator.trials.citations [--half test]`.

Prints a table in Markdown. The cases are made from the claims in tests/data/citations, or in a folder like it, by the
rules in citation_cases.py. Each answer streams through the filter and is then reviewed, as in a run. Thresholds were
tuned on the development half only.
"""

import argparse
import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from services.orchestrator.citing.claims import MARKS, numbers
from services.orchestrator.citing.judge import ModelJudge
from services.orchestrator.citing.marks import CitationFilter, nobody_objects
from services.orchestrator.citing.meaning import Meaning
from services.orchestrator.citing.review import Draft
from services.orchestrator.citing.reviewer import EvidenceReviewer
from services.orchestrator.citing.source_text import read
from services.orchestrator.citing.support import Support
from services.orchestrator.citing.words import content, key, words
from services.orchestrator.events import Finding
from services.orchestrator.model import Spent
from services.orchestrator.trials.citation_answers import natural_cases, written_cases
from services.orchestrator.trials.citation_cases import Case, make_cases
from services.orchestrator.trials.citation_claims import read_material
from services.orchestrator.trials.citation_judge import KnowingModel
from services.orchestrator.trials.citation_pairs import paired_cases
from services.orchestrator.trials.embedding_process import embedding

_FOLDER = Path(__file__).parents[3] / "tests" / "data" / "citations"
_SETS = ("dev", "test", "fresh", "opposed", "opposed-test", "written", "written-held")
_PIECE_CHARS = 7
_REVIEW_SECONDS = 60.0
# Half of a sentence's words: what a check by words alone would ask for.
_OVERLAP = 0.5
# The contrary of what the source says, with the same words, names and numbers.
_REVERSED = ("negation", "direction")


@dataclass(frozen=True)
class Checked:
    """What became of a case. `at_once`: found while it streamed. Seconds of the stream and of the review."""

    case: Case
    found: bool
    at_once: bool
    stream_seconds: float = 0
    review_seconds: float = 0


async def check(case: Case, reviewer: EvidenceReviewer, *, alone: bool = False) -> Checked:
    """Streams and reviews one answer. `alone`: no mark is taken out while it streams."""
    sources = dict(enumerate(case.sources, start=1))
    judged = nobody_objects if alone else Support(sources).judge
    citations = CitationFilter(sources.__contains__, judged)
    started = time.perf_counter()
    pieces = [case.answer[at : at + _PIECE_CHARS] for at in range(0, len(case.answer), _PIECE_CHARS)]
    shown = "".join(map(citations.feed, pieces)) + citations.flush()
    streamed = time.perf_counter()
    at_once = _tells(case, citations.take_findings())
    review = await reviewer.review(Draft("", shown, sources), Spent(), _REVIEW_SECONDS)
    if review.degraded:
        raise RuntimeError(review.degraded[0].reason)
    ended = time.perf_counter()
    found = at_once or _tells(case, review.findings)
    return Checked(case, found, at_once, streamed - started, ended - streamed)


def _tells(case: Case, findings: Sequence[Finding]) -> bool:
    """Whether something was found; in an answer of several sentences, in the one that is wrong."""
    return any(not case.planted or one.text.strip(" .") in case.planted for one in findings)


def by_overlap(case: Case) -> bool:
    """The baseline: too few words of the sentence stand in what it cites."""
    said = {key(word.folded) for word in content(words(MARKS.sub("", case.answer)))}
    marks = [mark for row in MARKS.finditer(case.answer) for mark in numbers(row.group())]
    known = {one for mark in marks or range(1, len(case.sources) + 1) for one in read(case.sources[mark - 1]).keys}
    return len(said & known) < _OVERLAP * len(said)


def table(checked: Sequence[Checked]) -> str:
    """Rates by kind and language."""
    lines = ["| answers | kind | es | en | all | of these at once |", "|---|---|---|---|---|---|"]
    for right in (False, True):
        mine = [one for one in checked if one.case.right is right]
        name = "right, blamed" if right else "wrong, caught"
        kinds = list(dict.fromkeys(one.case.kind for one in mine))
        for kind in sorted(kinds):
            lines.append(_line(name, kind, [one for one in mine if one.case.kind == kind]))
        if not right:
            plain = [one for one in mine if one.case.kind not in _REVERSED]
            lines.append(_line(name, "**without reversals**", plain))
        lines.append(_line(name, "**all**", mine))
    return "\n".join(lines)


def _line(name: str, kind: str, found: Sequence[Checked]) -> str:
    spoken = [_rate([one for one in found if one.case.language == language]) for language in ("es", "en")]
    at_once = sum(one.at_once for one in found) / max(1, len(found))
    return f"| {name} | {kind} | {spoken[0]} | {spoken[1]} | {_rate(found)} | {at_once:.3f} |"


def _rate(found: Sequence[Checked]) -> str:
    return f"{sum(one.found for one in found) / len(found):.3f} ({len(found)})" if found else "–"


def baselines(cases: Sequence[Case]) -> str:
    """What simpler checks would reach."""
    rules: Mapping[str, Callable[[Case], bool]] = {
        "always accept": lambda _: False,
        "half of the words": by_overlap,
    }
    lines = ["| baseline | caught | blamed |", "|---|---|---|"]
    for name, blames in rules.items():
        rates = [
            sum(map(blames, mine)) / len(mine)
            for mine in ([one for one in cases if one.right is right] for right in (False, True))
        ]
        lines.append(f"| {name} | {rates[0]:.3f} | {rates[1]:.3f} |")
    return "\n".join(lines)


def _percentile(values: Sequence[float], share: float) -> float:
    return sorted(values)[int(share * (len(values) - 1))] * 1000


async def _checked(
    cases: Sequence[Case], meaning: Meaning | None, knowing: KnowingModel | None, *, alone: bool
) -> list[Checked]:
    judge = ModelJudge(knowing) if knowing else None
    reviewer = EvidenceReviewer(meaning, judge, seconds=_REVIEW_SECONDS, judges_all=knowing is not None)
    found: list[Checked] = []
    for one in cases:
        if knowing:
            knowing.case = one
        found.append(await check(one, reviewer, alone=alone))
    return found


async def main() -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--half", choices=_SETS, default="dev")
    parser.add_argument("--folder", type=Path, default=_FOLDER)
    parser.add_argument("--words-only", action="store_true", help="without embeddings")
    parser.add_argument(
        "--judge",
        choices=("last", "alone"),
        help="with a judging model that is always right; `alone`: no mark is taken out before it was asked",
    )
    parser.add_argument("--misses", action="store_true", help="print what was judged wrongly")
    options = parser.parse_args()
    if options.half == "fresh":
        cases = written_cases(options.folder / "fresh")
    elif options.half.startswith("written"):
        cases = natural_cases(options.folder / "written", held=options.half == "written-held")
    elif options.half.startswith("opposed"):
        test = options.half == "opposed-test"
        cases = paired_cases(options.folder / "opposed" / ("test" if test else "dev"), test=test)
    else:
        cases = [one for one in make_cases(read_material(options.folder)) if one.test is (options.half == "test")]
    knowing = KnowingModel() if options.judge else None
    if options.words_only:
        checked = await _checked(cases, None, knowing, alone=options.judge == "alone")
    else:
        async with embedding() as encoder:
            checked = await _checked(cases, Meaning(encoder), knowing, alone=options.judge == "alone")
    print(table(checked), baselines(cases), sep="\n\n")
    for name, seconds in (
        ("stream", [one.stream_seconds for one in checked]),
        ("review", [one.review_seconds for one in checked]),
    ):
        print(f"\n{name}: p50 {_percentile(seconds, 0.5):.1f} ms, p95 {_percentile(seconds, 0.95):.1f} ms")
    for one in checked if options.misses else ():
        if one.found is one.case.right:
            print("blamed" if one.case.right else "missed", one.case.kind, one.case.answer)


if __name__ == "__main__":
    asyncio.run(main())
