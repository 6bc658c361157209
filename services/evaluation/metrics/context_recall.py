"""Context recall: claims of the reference that some passage holds ÷ all claims of the reference (RAGAS)."""

from services.evaluation.answered import Answered
from services.evaluation.golden.item import Item
from services.evaluation.metrics.claims import claims_of
from services.evaluation.metrics.embedder import Embedder
from services.evaluation.metrics.metric import Asking, Found, Metric, reference_text, shown_passages
from services.evaluation.metrics.verdicts import support

NAME = "context_recall"


async def measure(answered: Answered, item: Item | None, asking: Asking, embedder: Embedder | None) -> Found:
    """Judges the retrieval and never the answer, which may be a refusal."""
    reference, passages = reference_text(item), shown_passages(answered)
    claims = await claims_of(asking, answered.question, reference)
    verdicts = await support(asking, claims, passages)
    attributed = sum(one.holds for one in verdicts)
    return Found(attributed / len(claims), len(claims), {"claims": [one.shown("attributable") for one in verdicts]})


METRIC = Metric(NAME, measure, needs_item=True, alarm_below=0.70)
