"""Whether a judge judges the same facts otherwise in another language: a judge trained mostly in English may."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from services.evaluation.answered import Passage
from services.evaluation.judge.judge import Judge, JudgeFailed, OverBudget
from services.evaluation.metrics.metric import Asking
from services.evaluation.metrics.verdicts import support
from services.evaluation.statistics import Paired, paired


@dataclass(frozen=True)
class Side:
    """A case in one language."""

    claim: str
    passage: str


@dataclass(frozen=True)
class ParallelCase:
    """The same claim on the same passage in several languages, and whether it is supported."""

    id: str
    supported: bool
    sides: Mapping[str, Side]


@dataclass(frozen=True)
class LanguageBias:
    """How verdicts in `second` differ from those in `first`, over the cases that have both.

    `accuracy`, `supported_share`: by language. `right`: the paired difference of being right (second − first);
    `lenient`: that of saying "supported", which shows a judge that errs as often, but to the other side. `missing`:
    cases by language on which the judge failed.
    """

    first: str
    second: str
    accuracy: Mapping[str, float]
    supported_share: Mapping[str, float]
    agreement: float
    right: Paired
    lenient: Paired
    missing: Mapping[str, int]


async def language_bias(
    cases: Sequence[ParallelCase], judge: Judge, first: str = "en", second: str = "es"
) -> LanguageBias:
    """Asks for each case in both languages, each by the prompt of its language and by itself.

    Raises ValueError where no case has both verdicts.
    """
    languages = (first, second)
    asked = [
        asyncio.gather(*(_verdict(case.sides[language], language, judge) for case in cases)) for language in languages
    ]
    said = dict(zip(languages, await asyncio.gather(*asked), strict=True))
    both = [at for at, pair in enumerate(zip(*said.values(), strict=True)) if None not in pair]
    if not both:
        raise ValueError("the judge gave no verdict in both languages on any case")
    right = {one: [float(said[one][at] is cases[at].supported) for at in both] for one in languages}
    yes = {one: [float(bool(said[one][at])) for at in both] for one in languages}
    missing = {one: sum(verdict is None for verdict in said[one]) for one in languages}
    return LanguageBias(
        first,
        second,
        accuracy={one: sum(right[one]) / len(both) for one in languages},
        supported_share={one: sum(yes[one]) / len(both) for one in languages},
        agreement=sum(said[first][at] is said[second][at] for at in both) / len(both),
        right=paired(right[first], right[second]),
        lenient=paired(yes[first], yes[second]),
        missing=missing,
    )


def xquad_cases(folder: Path, languages: Sequence[str] = ("en", "es"), a_paragraph: int = 1) -> list[ParallelCase]:
    """Cases from XQuAD (Artetxe et al. 2020), whose questions, answers and paragraphs are translations of each other.

    Of each paragraph the first `a_paragraph` questions, each with its answer (supported) and with another question's
    answer out of the same paragraph (not supported). A claim is a question with its answer: a sentence of the two would
    be nobody's translation.
    """
    read = {one: _questions(folder / f"xquad.{one}.json") for one in languages}
    paragraphs = list(zip(*(read[one] for one in languages), strict=True))
    cases: list[ParallelCase] = []
    for texts in paragraphs:
        sides = dict(zip(languages, texts, strict=True))
        for at in range(min(a_paragraph, *(len(questions) for _, questions in texts))):
            cases += _cases(sides, at)
    return cases


def _cases(sides: Mapping[str, tuple[str, list[tuple[str, str, str]]]], at: int) -> list[ParallelCase]:
    """The right claim on question `at` of a paragraph, and a wrong one where there is one in all languages."""
    count = min(len(questions) for _, questions in sides.values())
    other = next((n for n in range(count) if all(_differ(q[at][2], q[n][2]) for _, q in sides.values())), None)
    found: list[ParallelCase] = []
    for is_supported, answer in ((True, at), (False, other)):
        if answer is not None:
            each = {one: Side(f"{q[at][1]} {q[answer][2]}", passage) for one, (passage, q) in sides.items()}
            identity = next(iter(sides.values()))[1][at][0]
            found.append(ParallelCase(f"{identity}:{'right' if is_supported else 'wrong'}", is_supported, each))
    return found


async def _verdict(side: Side, language: str, judge: Judge) -> bool | None:
    try:
        (verdict,) = await support(Asking(judge, language), [side.claim], [Passage(side.passage)])
    except (JudgeFailed, OverBudget):
        return None
    return verdict.holds


def _questions(path: Path) -> list[tuple[str, list[tuple[str, str, str]]]]:
    """Paragraphs, each with (id, question, answer)."""
    articles = json.loads(path.read_text(encoding="utf-8"))["data"]
    return [
        (
            paragraph["context"],
            [(each["id"], each["question"].strip(), each["answers"][0]["text"].strip()) for each in paragraph["qas"]],
        )
        for article in articles
        for paragraph in article["paragraphs"]
    ]


def _differ(one: str, other: str) -> bool:
    one, other = one.casefold(), other.casefold()
    return one not in other and other not in one
