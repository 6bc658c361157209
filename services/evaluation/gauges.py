"""The newest run of each golden set, for Prometheus. Labels are bounded: further sets and variants are `other`."""

from collections.abc import Collection, Sequence

from prometheus_client import CollectorRegistry, Gauge
from prometheus_client.registry import REGISTRY

from services.evaluation.runs.deterministic import ARGUMENTS, NO_TOOL, REFERENCE_FACTS, REFUSAL, TOOLS
from services.evaluation.runs.store import Measurement, Run, RunStatus
from services.evaluation.runs.summary import ALL

# By our names of the metrics. A metric store is told of these and no other.
_NAMES = {
    "faithfulness": ("rag_faithfulness_score", "Supported claims ÷ claims of the answers."),
    "answer_relevance": ("rag_answer_relevance_score", "How near answers are to their questions."),
    "context_precision": ("rag_context_precision_score", "Relevant passages ÷ passages shown."),
    "context_recall": ("rag_context_recall_score", "Claims of the references that the passages hold ÷ all of them."),
    "noise_sensitivity": ("rag_noise_sensitivity", "Drop of faithfulness under irrelevant passages."),
    "completeness": ("rag_completeness_score", "Aspects of the questions covered by the answers."),
    "ndcg@10": ("rag_retrieval_ndcg_at_10", "nDCG@10 of the sources shown."),
    "recall@10": ("rag_retrieval_recall_at_10", "Expected sources among those shown."),
    REFUSAL: ("rag_refusal_accuracy", "Refusals where they are due, and only there."),
    REFERENCE_FACTS: ("rag_reference_facts", "What references must say that answers say."),
    TOOLS: ("tool_selection_accuracy", "Turns with the right tools ÷ turns in which a call is expected."),
    ARGUMENTS: ("tool_call_accuracy", "Expected calls that were made with the right arguments."),
    NO_TOOL: ("tool_no_tool_accuracy", "Questions that need no tool and got no call."),
}
OTHER = "other"
_MOST_SETS, _MOST_VARIANTS = 20, 12
_OF_RUN = ("golden_set", "tenant")
_LABELS = (*_OF_RUN, "variant", "language")
_Shown = set[tuple[str, tuple[str, str, str, str]]]


class RunGauges:
    """Shows the newest runs. Of tenants who opted in the label `tenant` is their name; of all others it is empty.

    An empty label is none to Prometheus: what does not ask for tenants reads the same series as ever.
    """

    def __init__(self, registry: CollectorRegistry = REGISTRY, tenants: Collection[str] = ()) -> None:
        """`tenants`: those who opted in."""
        self._named = frozenset(tenants)
        self._scores = {key: Gauge(name, text, _LABELS, registry=registry) for key, (name, text) in _NAMES.items()}
        self._coverage = Gauge(
            "rag_answer_coverage", "Questions of the newest run that were answered.", _OF_RUN, registry=registry
        )
        self._last = Gauge(
            "rag_last_run_timestamp_seconds",
            "Start of the newest run that has ended.",
            _OF_RUN,
            registry=registry,
        )
        self._failed = Gauge(
            "rag_last_run_failed", "1 where the newest run that is over failed.", _OF_RUN, registry=registry
        )
        self._known: dict[str, list[str]] = {}
        # What the newest run of a tenant's set shows: metric with its labels.
        self._shown: dict[tuple[str, str], _Shown] = {}

    def show(self, run: Run, measurements: Sequence[Measurement]) -> None:
        """Takes a run that is over.

        A failed one leaves the scores of the one before as they are; any other takes the place of all of them, so that
        nothing is told, or alarmed about, that the newest run did not measure.
        """
        name = self._bounded("sets", run.golden_set, _MOST_SETS)
        of_run = name, run.tenant if run.tenant in self._named else ""
        self._last.labels(*of_run).set(run.created_at.timestamp())
        self._failed.labels(*of_run).set(run.status is RunStatus.FAILED)
        if run.status is not RunStatus.DONE:
            return
        if run.wanted_count:
            self._coverage.labels(*of_run).set(run.done_count / run.wanted_count)
        shown: _Shown = set()
        for one in measurements:
            if one.stratum == ALL and one.mean is not None and one.metric in self._scores:
                variant = self._bounded("variants", one.variant, _MOST_VARIANTS)
                self._scores[one.metric].labels(*of_run, variant, one.language).set(one.mean)
                shown.add((one.metric, (*of_run, variant, one.language)))
        before = self._shown.get((run.tenant, name), set())
        self._shown[run.tenant, name] = shown
        # Sets of two tenants without names of their own may be called the same.
        for metric, labels in before - {each for all_of in self._shown.values() for each in all_of}:
            self._scores[metric].remove(*labels)

    def _bounded(self, kind: str, name: str, most: int) -> str:
        known = self._known.setdefault(kind, [])
        if name not in known and len(known) < most:
            known.append(name)
        return name if name in known else OTHER
