"""An answer of live traffic as it is offered, and what is known of it without a judge."""

from dataclasses import dataclass

from services.evaluation.answered import Answered

LANGUAGES = ("es", "en")
NO_TOOL = "none"


@dataclass(frozen=True)
class Offered:
    """`answered.tenant` is the caller's. `metrics`: names of those that take a judge."""

    answered: Answered
    metrics: tuple[str, ...] = ()


def language_of(answered: Answered) -> str:
    """A label: one of few."""
    return answered.language if answered.language in LANGUAGES else "other"


def top_score(answered: Answered) -> float | None:
    """Of the best passage; None where nothing was ranked."""
    return max((one.score for one in answered.passages if one.score is not None), default=None)


def tool_mix(answered: Answered) -> str:
    """Which tools took part, such as `sql_query+vector_search`; one word an answer, so that words are independent."""
    return "+".join(sorted({call.tool for call in answered.calls})) or NO_TOOL


def is_refused(answered: Answered) -> bool:
    """Whether it says that it does not answer."""
    return answered.finish == "refused"
