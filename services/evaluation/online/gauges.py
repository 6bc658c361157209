"""What Prometheus is told of live traffic: sums and counts, so that any time's average is right over all replicas.

The average of half an hour is `increase(…_sum[30m]) / increase(…_count[30m])`. The labels are bounded: a tenant has to
opt in, and only so many have a name of their own.
"""

from collections.abc import Sequence

from prometheus_client import Counter, Gauge, Summary

from services.evaluation.online.drift import Verdict
from services.evaluation.online.offered import Offered, language_of, tool_mix, top_score
from services.evaluation.online.store import Agreement
from services.evaluation.score import Score

OTHER = "other"
_BY = ["tenant", "language"]
_SCORES = {
    "faithfulness": Summary("rag_online_faithfulness_score", "Supported claims ÷ claims of an answer.", _BY),
    "answer_relevance": Summary("rag_online_answer_relevance_score", "How near an answer is to its question.", _BY),
    "context_precision": Summary("rag_online_context_precision_score", "Relevant passages ÷ passages shown.", _BY),
    "context_precision_ranked": Summary(
        "rag_online_context_precision_ranked_score", "The same, weighted by rank.", _BY
    ),
    "completeness": Summary("rag_online_completeness_score", "Aspects of the question covered by the answer.", _BY),
}
_RETRIEVAL = Summary("rag_online_retrieval_score", "Score of the best passage of an answer; at least 0.", _BY)
_ANSWERS = Counter("rag_online_answers_total", "Sampled answers by how they ended.", ["tenant", "finish"])
_TOOLS = Counter("rag_online_tool_use_total", "Sampled answers by the tools that took part.", ["tenant", "tools"])
_MISSING = Counter("rag_online_scores_missing_total", "Scores without a value, by why.", ["metric", "status"])
_SCORED = Counter("rag_online_scores_total", "Scores with a value.", ["metric"])
# accepted, refused (the queue is full), repeated (offered before), failed.
OFFERS = Counter("rag_online_offers_total", "Sampled answers offered, by what became of them.", ["outcome"])
# written, lost.
STORED = Counter("rag_online_stored_total", "Measured answers by whether PostgreSQL has them.", ["outcome"])
LANGFUSE = Counter("rag_online_langfuse_scores_total", "Scores for Langfuse by what became of them.", ["outcome"])
_DRIFT_P = Gauge("rag_online_drift_p_value", "How likely chance alone makes such a difference.", ["tenant", "kind"])
_DRIFT_DISTANCE = Gauge(
    "rag_online_drift_distance", "How far the last window is from the reference.", ["tenant", "kind"]
)
_DRIFT = Gauge("rag_online_drift_detected", "1 where the last window differs from the reference.", ["tenant", "kind"])
_AGREEMENT = Gauge(
    "rag_online_score_by_feedback", "Mean score of answers that people liked, or not.", ["tenant", "metric", "rating"]
)
_MOST_MIXES = 20


class Gauges:
    """Tells what was measured, under labels of which there are few."""

    def __init__(self, most_tenants: int = 50) -> None:
        self._most_tenants = most_tenants
        self._tenants: set[str] = set()
        self._mixes: set[str] = set()

    def saw(self, offered: Offered) -> None:
        """Tells what is known without a judge."""
        answered = offered.answered
        tenant = self._label(answered.tenant)
        _ANSWERS.labels(tenant, answered.finish).inc()
        _TOOLS.labels(tenant, _bounded(tool_mix(answered), self._mixes, _MOST_MIXES)).inc()
        if (score := top_score(answered)) is not None:
            _RETRIEVAL.labels(tenant, language_of(answered)).observe(max(0.0, score))

    def scored(self, offered: Offered, scores: list[Score]) -> None:
        """Tells what the judge said."""
        answered = offered.answered
        for score in scores:
            if score.value is None:
                _MISSING.labels(score.metric, score.status.value).inc()
            else:
                _SCORED.labels(score.metric).inc()
                # A sum that falls would read as a restart of the process.
                value = max(0.0, score.value)
                _SCORES[score.metric].labels(self._label(answered.tenant), language_of(answered)).observe(value)

    def compared(self, tenant: str, verdict: Verdict) -> None:
        """Tells of one comparison with the reference."""
        labels = self._label(tenant), verdict.kind
        _DRIFT_P.labels(*labels).set(verdict.p_value)
        _DRIFT_DISTANCE.labels(*labels).set(verdict.distance)
        _DRIFT.labels(*labels).set(verdict.is_drift)

    def agreed(self, tenant: str, found: Sequence[Agreement]) -> None:
        """Tells whether people think as the judge does."""
        for one in found:
            _AGREEMENT.labels(self._label(tenant), one.metric, one.rating).set(one.mean)

    def _label(self, tenant: str) -> str:
        return _bounded(tenant, self._tenants, self._most_tenants)


def _bounded(name: str, known: set[str], most: int) -> str:
    if name not in known:
        if len(known) >= most:
            return OTHER
        known.add(name)
    return name
