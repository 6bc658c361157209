"""Context precision: how much of what was retrieved is relevant, plain and weighted by rank (RAGAS)."""

from collections.abc import Sequence

from services.evaluation.answered import Answered, Json
from services.evaluation.golden.item import Item
from services.evaluation.metrics.embedder import Embedder
from services.evaluation.metrics.metric import Asking, Found, Metric, shown_passages
from services.evaluation.metrics.verdicts import Verdict, judged

PLAIN, RANK_WEIGHTED = "context_precision", "context_precision_ranked"


async def measure(answered: Answered, item: Item | None, asking: Asking, embedder: Embedder | None) -> Found:
    """Relevant passages ÷ K."""
    verdicts = await _relevance(answered, item, asking)
    return Found(sum(one.holds for one in verdicts) / len(verdicts), details=_details(verdicts))


async def measure_ranked(answered: Answered, item: Item | None, asking: Asking, embedder: Embedder | None) -> Found:
    """See `average_precision`. Asks a judge the same as the plain form: one that remembers is asked once."""
    verdicts = await _relevance(answered, item, asking)
    return Found(average_precision([one.holds for one in verdicts]), details=_details(verdicts))


def average_precision(relevant: Sequence[bool]) -> float:
    """Σ_k precision@k · [passage k is relevant] ÷ relevant passages in the top K; 0 where none is."""
    total, hits = 0.0, 0
    for place, is_relevant in enumerate(relevant, start=1):
        hits += is_relevant
        total += hits / place if is_relevant else 0.0
    return total / hits if hits else 0.0


async def _relevance(answered: Answered, item: Item | None, asking: Asking) -> list[Verdict]:
    """Judged by the reference where there is one, by the question alone otherwise: never by the answer given.

    An answer made from a useless passage would make it useful.
    """
    texts = [passage.text for passage in shown_passages(answered)]
    facts: dict[str, Json] = {"question": answered.question}
    if item is not None and item.reference:
        facts["reference"] = item.reference
    return await judged(asking, "relevance", "passage", texts, "relevant", facts)


def _details(verdicts: Sequence[Verdict]) -> dict[str, object]:
    return {"passages": [one.shown("relevant") for one in verdicts]}


METRIC = Metric(PLAIN, measure, alarm_below=0.60)
METRIC_RANKED = Metric(RANK_WEIGHTED, measure_ranked, alarm_below=0.60)
