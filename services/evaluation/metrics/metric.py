"""What all metrics have in common: they take an answer, ask a judge, and give a score or say why there is none."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from services.evaluation.answered import Answered, Json, Passage
from services.evaluation.golden.item import Item
from services.evaluation.judge.judge import Check, Judge, JudgeFailed, OverBudget, no_complaint
from services.evaluation.metrics.embedder import Embedder, EmbedderFailed
from services.evaluation.score import Score, Status


@dataclass(frozen=True)
class Found:
    """A value, what it was computed from, and what a person would like to see."""

    value: float
    claim_count: int = 0
    details: Mapping[str, object] = field(default_factory=dict[str, object])
    reason: str = ""


class NotScored(Exception):
    """There is nothing to score."""

    def __init__(self, status: Status, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


class Asking:
    """A judge as one score asks it: in one language, counted."""

    def __init__(self, judge: Judge | None, language: str) -> None:
        self._judge = judge
        self._language = language
        self.count = 0

    async def ask(
        self, task: str, facts: Mapping[str, Json], schema: Mapping[str, Json], check: Check = no_complaint
    ) -> Json:
        """See Judge."""
        if self._judge is None:
            raise JudgeFailed("no judge is set")
        self.count += 1
        return await self._judge.ask(task, self._language, facts, schema, check)


Measure: TypeAlias = Callable[[Answered, Item | None, Asking, Embedder | None], Awaitable[Found]]


@dataclass(frozen=True)
class Metric:
    """A metric of one answer.

    `needs_item`: without a golden item it has no value, so it cannot be had of live traffic. `alarm_below`: where the
    product's definitions see a fault; None where they name no threshold.
    """

    name: str
    measure: Measure
    needs_item: bool = False
    needs_judge: bool = True
    alarm_below: float | None = None

    async def score(
        self, answered: Answered, item: Item | None, judge: Judge | None, embedder: Embedder | None
    ) -> Score:
        """Never raises for what a judge, an embedder or an odd answer does, nor for want of one: the status says it."""
        return await score_of(
            self.name, judge, answered.language, lambda asking: self.measure(answered, item, asking, embedder)
        )


async def score_of(
    name: str, judge: Judge | None, language: str, measure: Callable[[Asking], Awaitable[Found]]
) -> Score:
    """The score of `measure`, or the reason that there is none."""
    asking = Asking(judge, language)
    try:
        found = await measure(asking)
    except NotScored as error:
        status, reason = error.status, error.reason
    except OverBudget as error:
        status, reason = Status.OVER_BUDGET, str(error)
    except (JudgeFailed, EmbedderFailed) as error:
        status, reason = Status.JUDGE_FAILED, str(error)
    else:
        return Score(name, found.value, Status.OK, found.reason, found.claim_count, asking.count, details=found.details)
    return Score(name, None, status, reason, judge_calls=asking.count)


def answer_text(answered: Answered) -> str:
    """The answer. Raises NotScored where it says nothing: what refuses neither invents nor misses the point."""
    if answered.finish == "refused" or not answered.answer.strip():
        raise NotScored(Status.NO_CLAIMS, "the answer is a refusal, or empty")
    return answered.answer


def shown_passages(answered: Answered) -> tuple[Passage, ...]:
    """What was retrieved. Raises NotScored where nothing was: an answer to nothing must not pass as faithful."""
    if not any(passage.text.strip() for passage in answered.passages):
        raise NotScored(Status.NO_CONTEXT, "nothing was retrieved")
    return answered.passages


def reference_text(item: Item | None) -> str:
    """The reference answer. Raises NotScored where there is none."""
    if item is None or not (item.reference or "").strip():
        raise NotScored(Status.NO_REFERENCE, "there is no reference answer")
    return item.reference or ""
