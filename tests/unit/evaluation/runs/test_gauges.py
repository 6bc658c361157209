"""What Prometheus is told of runs."""

from datetime import UTC, datetime

from prometheus_client import CollectorRegistry

from services.evaluation.gauges import OTHER, RunGauges
from services.evaluation.runs.store import Measurement, Run, RunStatus

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)


def measured(metric="faithfulness", mean=0.8, variant="agent", stratum="all", language="all"):
    return Measurement(variant, metric, stratum, language, mean, 0.7, 0.9, 10, 0)


def run(name="demo", status=RunStatus.DONE, tenant="acme"):
    return Run("r1", tenant, name, NOON, status, "", 9, 10)


def shown(registry, name, **labels):
    return registry.get_sample_value(name, {"golden_set": "demo", "tenant": "", **labels})


def test_a_run_shows_its_means_its_coverage_and_when_it_was():
    registry = CollectorRegistry()
    RunGauges(registry).show(
        run(), [measured(), measured(language="es", mean=0.6), measured(stratum="multi_hop", mean=0)]
    )
    assert shown(registry, "rag_faithfulness_score", variant="agent", language="all") == 0.8
    assert shown(registry, "rag_faithfulness_score", variant="agent", language="es") == 0.6
    assert shown(registry, "rag_answer_coverage") == 0.9
    assert shown(registry, "rag_last_run_timestamp_seconds") == NOON.timestamp()


def test_a_run_that_failed_leaves_the_scores_of_the_one_before_and_says_that_it_failed():
    registry = CollectorRegistry()
    gauges = RunGauges(registry)
    gauges.show(run(), [measured()])
    gauges.show(run(status=RunStatus.FAILED), [])
    assert shown(registry, "rag_faithfulness_score", variant="agent", language="all") == 0.8
    assert shown(registry, "rag_last_run_failed") == 1


def test_what_the_newest_run_did_not_measure_is_not_shown_any_more():
    registry = CollectorRegistry()
    gauges = RunGauges(registry)
    gauges.show(run(), [measured(), measured(variant="plan"), measured(metric="context_recall")])
    gauges.show(run("other"), [measured()])
    gauges.show(run(), [measured(mean=None), measured(metric="context_recall", mean=0.5)])
    assert shown(registry, "rag_faithfulness_score", variant="agent", language="all") is None
    assert shown(registry, "rag_faithfulness_score", variant="plan", language="all") is None
    assert shown(registry, "rag_context_recall_score", variant="agent", language="all") == 0.5
    labels = {"golden_set": "other", "tenant": "", "variant": "agent", "language": "all"}
    assert registry.get_sample_value("rag_faithfulness_score", labels) == 0.8


def test_what_has_no_mean_is_not_shown_as_a_number():
    registry = CollectorRegistry()
    RunGauges(registry).show(run(), [measured(mean=None)])
    assert shown(registry, "rag_faithfulness_score", variant="agent", language="all") is None


def test_however_many_sets_and_variants_there_are_the_labels_are_bounded():
    registry = CollectorRegistry()
    gauges = RunGauges(registry)
    for number in range(100):
        gauges.show(run(f"set-{number}"), [measured(variant=f"v-{number}")])
    names = {one.labels["golden_set"] for metric in registry.collect() for one in metric.samples}
    variants = {
        one.labels["variant"] for metric in registry.collect() for one in metric.samples if "variant" in one.labels
    }
    assert len(names) == 21
    assert len(variants) == 13
    assert OTHER in names & variants


def test_a_tenant_is_named_who_has_opted_in_and_no_other():
    registry = CollectorRegistry()
    gauges = RunGauges(registry, ["acme"])
    gauges.show(run(), [measured()])
    gauges.show(run(tenant="shy"), [measured(mean=0.5)])
    labels = {"variant": "agent", "language": "all"}
    assert shown(registry, "rag_faithfulness_score", tenant="acme", **labels) == 0.8
    assert shown(registry, "rag_faithfulness_score", **labels) == 0.5
    assert shown(registry, "rag_last_run_failed", tenant="acme") == 0
    assert {one.labels["tenant"] for metric in registry.collect() for one in metric.samples} == {"acme", ""}


def test_what_another_tenants_set_of_the_same_name_shows_stays():
    registry = CollectorRegistry()
    gauges = RunGauges(registry)
    gauges.show(run(), [measured()])
    gauges.show(run(tenant="other"), [measured(mean=0.5)])
    gauges.show(run(), [measured(mean=None)])
    assert shown(registry, "rag_faithfulness_score", variant="agent", language="all") == 0.5
    gauges.show(run(tenant="other"), [measured(mean=None)])
    assert shown(registry, "rag_faithfulness_score", variant="agent", language="all") is None
