"""Faithfulness: supported claims ÷ all claims of the answer (Es et al., RAGAS, arXiv:2309.15217)."""

from services.evaluation.answered import Answered
from services.evaluation.golden.item import Item
from services.evaluation.metrics.claims import claims_of
from services.evaluation.metrics.embedder import Embedder
from services.evaluation.metrics.metric import Asking, Found, Metric, answer_text, shown_passages
from services.evaluation.metrics.verdicts import support

NAME = "faithfulness"


async def measure(answered: Answered, item: Item | None, asking: Asking, embedder: Embedder | None) -> Found:
    """All claims are judged, against all passages together. `details.claims`: each with its verdict."""
    text, passages = answer_text(answered), shown_passages(answered)
    claims = await claims_of(asking, answered.question, text)
    verdicts = await support(asking, claims, passages)
    supported = sum(one.holds for one in verdicts)
    return Found(supported / len(claims), len(claims), {"claims": [one.shown("supported") for one in verdicts]})


METRIC = Metric(NAME, measure, alarm_below=0.85)
