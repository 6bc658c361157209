"""Alert rules of evaluation: what fires, what does not, and that whatever they name is there."""

import importlib
import re
import subprocess
from pathlib import Path

import pytest
import yaml
from prometheus_client import REGISTRY, CollectorRegistry

from local import promtool
from services.evaluation.config import Settings as EvaluationSettings
from services.evaluation.gauges import RunGauges
from services.evaluation.runs.baselines import NAMES
from services.orchestrator.config import Settings as OrchestratorSettings
from tests.chart.test_charts import GOOD, of_kind, render

RULES = Path("charts/sabueso/alerts/evaluation.yaml")
GROUPS = yaml.safe_load(RULES.read_text())["groups"]
ALERTS = {rule["alert"]: rule for group in GROUPS for rule in group["rules"] if "alert" in rule}
RECORDED = {rule["record"] for group in GROUPS for rule in group["rules"] if "record" in rule}
ACME = {"tenant": "acme", "language": "es"}
RUN = {"golden_set": "demo", "variant": "react", "language": "all"}
ACME_RUN = {**RUN, "tenant": "acme"}
# Modules whose import registers the metrics of live traffic.
METRICS = (
    "services.evaluation.online.gauges",
    "services.orchestrator.metrics",
    "services.orchestrator.sampling.metrics",
    "services.runtime.telemetry",
)


def series(name, values, **labels):
    told = ",".join(f'{key}="{value}"' for key, value in labels.items())
    return {"series": f"{name}{{{told}}}", "values": values}


def average(metric, value, per_minute=1.0, **labels):
    """Sum and count of a metric whose average is `value`, over two hours, from two replicas."""
    return [
        series(f"rag_online_{metric}_score_{part}", f"0+{step}x120", pod=pod, **(labels or ACME))
        for pod in "ab"
        for part, step in (("sum", value * per_minute / 2), ("count", per_minute / 2))
    ]


def counts(name, label, per_minute, **labels):
    return [series(name, f"0+{step}x120", **{label: value}, **labels) for value, step in per_minute.items()]


def gauge(name, value, **labels):
    return [series(name, f"{value}x120", **labels)]


ANSWERS = "rag_online_answers_total"
MISSING, SCORED = "rag_online_scores_missing_total", "rag_online_scores_total"
OFFERED = "sabueso_orchestrator_answers_offered_total"
SETS = {"golden_set": "demo"}
# Alert, what Prometheus has seen, and the labels under which it fires; None: it does not.
CASES = [
    ("RAGFaithfulnessLow", average("faithfulness", 0.79), ACME),
    ("RAGFaithfulnessLow", average("faithfulness", 0.81), None),
    ("RAGFaithfulnessLow", average("faithfulness", 0.5, per_minute=0.1), None),
    ("RAGAnswerRelevanceLow", average("answer_relevance", 0.69), ACME),
    ("RAGAnswerRelevanceLow", average("answer_relevance", 0.71), None),
    ("RAGContextPrecisionLow", average("context_precision", 0.59), ACME),
    ("RAGContextPrecisionLow", average("context_precision", 0.61), None),
    ("RAGRefusalsHigh", counts(ANSWERS, "finish", {"refused": 4, "answered": 6}, tenant="acme"), {"tenant": "acme"}),
    ("RAGRefusalsHigh", counts(ANSWERS, "finish", {"refused": 2, "answered": 6}, tenant="acme"), None),
    ("RAGRefusalsHigh", counts(ANSWERS, "finish", {"refused": 0.1, "answered": 0}, tenant="acme"), None),
    (
        "RAGTrafficDrift",
        gauge("rag_online_drift_detected", 1, tenant="acme", kind="questions"),
        {"tenant": "acme", "kind": "questions"},
    ),
    ("RAGTrafficDrift", gauge("rag_online_drift_detected", 0, tenant="acme", kind="questions"), None),
    ("RAGOfflineFaithfulnessLow", gauge("rag_faithfulness_score", 0.84, **RUN), RUN),
    # The tenant is named where the gauge has one.
    ("RAGOfflineFaithfulnessLow", gauge("rag_faithfulness_score", 0.84, **ACME_RUN), ACME_RUN),
    ("RAGOfflineFaithfulnessLow", gauge("rag_faithfulness_score", 0.86, **RUN), None),
    *(
        ("RAGOfflineFaithfulnessLow", gauge("rag_faithfulness_score", 0.1, **RUN | {"variant": name}), None)
        for name in sorted(NAMES)
    ),
    ("RAGContextRecallLow", gauge("rag_context_recall_score", 0.69, **RUN), RUN),
    ("RAGContextRecallLow", gauge("rag_context_recall_score", 0.71, **RUN), None),
    ("RAGNoiseSensitivityHigh", gauge("rag_noise_sensitivity", 0.16, **RUN), RUN),
    ("RAGNoiseSensitivityHigh", gauge("rag_noise_sensitivity", 0.14, **RUN), None),
    ("ToolSelectionAccuracyLow", gauge("tool_selection_accuracy", 0.84, **RUN), RUN),
    ("ToolSelectionAccuracyLow", gauge("tool_selection_accuracy", 0.86, **RUN), None),
    # The clock of a test starts at 0, so that a run of then is as old as the test's time.
    ("RAGOfflineRunOld", [series("rag_last_run_timestamp_seconds", "-700000x120", **SETS)], SETS),
    ("RAGOfflineRunOld", [series("rag_last_run_timestamp_seconds", "-600000x120", **SETS)], None),
    ("RAGOfflineRunFailed", gauge("rag_last_run_failed", 1, **SETS), SETS),
    ("RAGOfflineRunFailed", gauge("rag_last_run_failed", 0, **SETS), None),
    (
        "RAGJudgeFailing",
        [*counts(MISSING, "status", {"judge_failed": 3}), *counts(SCORED, "metric", {"faithfulness": 7})],
        {},
    ),
    ("RAGJudgeFailing", counts(MISSING, "status", {"judge_failed": 1}), {}),
    (
        "RAGJudgeFailing",
        [*counts(MISSING, "status", {"judge_failed": 1, "no_claims": 5}), *counts(SCORED, "metric", {"x": 9})],
        None,
    ),
    (
        "RAGJudgeOverBudget",
        [*counts(MISSING, "status", {"over_budget": 6}), *counts(SCORED, "metric", {"faithfulness": 4})],
        {},
    ),
    (
        "RAGJudgeOverBudget",
        [*counts(MISSING, "status", {"over_budget": 4}), *counts(SCORED, "metric", {"faithfulness": 6})],
        None,
    ),
    ("RAGSamplerDropping", counts(OFFERED, "outcome", {"sent": 8, "dropped": 1, "lost": 1}), {}),
    ("RAGSamplerDropping", counts(OFFERED, "outcome", {"sent": 19, "dropped": 1}), None),
    ("RAGScoresNotStored", counts("rag_online_stored_total", "outcome", {"lost": 1, "written": 5}), {}),
    ("RAGScoresNotStored", counts("rag_online_stored_total", "outcome", {"lost": 0, "written": 5}), None),
]


def of_tenant(text, labels):
    return text.replace("{{ . }}", labels["tenant"]) if "tenant" in labels else ""


def said(text, labels):
    text = re.sub(r"\{\{ with \$labels\.tenant \}\}(.*?)\{\{ end \}\}", lambda match: of_tenant(match[1], labels), text)
    return re.sub(r"\{\{ \$labels\.(\w+) \}\}", lambda match: labels[match[1]], text)


def case(alert, seen, labels):
    rule = ALERTS[alert]
    expected = labels is not None and {
        "exp_labels": labels | rule["labels"],
        "exp_annotations": {key: said(text, labels) for key, text in rule["annotations"].items()},
    }
    return {
        "interval": "1m",
        "input_series": seen,
        "alert_rule_test": [
            {"eval_time": "100m", "alertname": alert, "exp_alerts": [expected] if expected else []},
            # Nothing is alarmed about at once.
            {"eval_time": "0m", "alertname": alert, "exp_alerts": []},
        ],
    }


@pytest.fixture(scope="module")
def program():
    found = promtool.find()
    if found is None:
        pytest.skip(promtool.HOW)
    return found


def run(program, *words):
    done = subprocess.run([program, *words], capture_output=True, text=True, timeout=100)
    return done.returncode, done.stdout + done.stderr


def test_the_rules_are_valid(program):
    code, told = run(program, "check", "rules", str(RULES))
    assert code == 0, told


def outcome(program, folder, cases, every="5m"):
    file = folder / "tests.yaml"
    file.write_text(
        yaml.safe_dump({"rule_files": [str(RULES.resolve())], "evaluation_interval": every, "tests": cases})
    )
    return run(program, "test", "rules", str(file))


def test_every_alert_fires_when_it_should_and_only_then(program, tmp_path):
    code, told = outcome(program, tmp_path, [case(*one) for one in CASES])
    assert code == 0, told


def test_the_average_is_one_of_answers_and_not_of_pods(program, tmp_path):
    """A pod with few bad answers beside one with many good ones."""
    seen = [
        series("rag_online_faithfulness_score_sum", "0+1.8x120", pod="a", **ACME),
        series("rag_online_faithfulness_score_count", "0+2x120", pod="a", **ACME),
        series("rag_online_faithfulness_score_sum", "0+0.02x120", pod="b", **ACME),
        series("rag_online_faithfulness_score_count", "0+0.1x120", pod="b", **ACME),
    ]
    code, told = outcome(program, tmp_path, [case("RAGFaithfulnessLow", seen, None)])
    assert code == 0, told


def test_a_short_dip_is_not_alarmed_about(program, tmp_path):
    seen = [
        series("rag_online_faithfulness_score_sum", "0+1x90 90.1+0.1x4 91.5+1x40", **ACME),
        series("rag_online_faithfulness_score_count", "0+1x135", **ACME),
    ]
    code, told = outcome(program, tmp_path, [case("RAGFaithfulnessLow", seen, None)], every="1m")
    assert code == 0, told


def test_a_wrong_expectation_is_noticed(program, tmp_path):
    code, _ = outcome(program, tmp_path, [case("RAGFaithfulnessLow", average("faithfulness", 0.9), ACME)])
    assert code != 0


def test_each_alert_has_a_case_that_fires_and_one_that_does_not():
    for alert in ALERTS:
        assert {labels is not None for name, _, labels in CASES if name == alert} == {True, False}, alert


def test_each_alert_has_a_runbook_that_says_what_to_do():
    for alert, rule in ALERTS.items():
        file = Path(rule["annotations"]["runbook_url"])
        assert file.stem == alert
        text = file.read_text(encoding="utf-8")
        assert text.startswith(f"# {alert}\n")
        for part in ("## What it means", "## Look first", "## What to do"):
            assert part in text, f"{file}: {part}"


def test_what_runbooks_name_is_there():
    text = "\n".join(Path(rule["annotations"]["runbook_url"]).read_text() for rule in ALERTS.values())
    metrics = set(re.findall(r"`((?:rag|tool_selection|sabueso)_\w+)", text))
    assert len(metrics) > 8
    assert metrics <= names_told(), metrics - names_told()
    settings = {
        f"SABUESO_{name.upper()}" for one in (EvaluationSettings, OrchestratorSettings) for name in one.model_fields
    }
    named = set(re.findall(r"SABUESO_[A-Z_]+", text))
    assert len(named) > 8
    assert named <= settings, named - settings


def test_runbooks_are_of_alerts_that_there_are():
    ours = {file.stem for file in Path("docs/runbooks").glob("*.md") if file.stem.startswith(("RAG", "ToolSelection"))}
    assert ours == set(ALERTS)


def names_told():
    """Names of all series that the code tells Prometheus."""
    for module in METRICS:
        importlib.import_module(module)
    offline = CollectorRegistry()
    RunGauges(offline)
    families = [family for registry in (REGISTRY, offline) for family in registry.collect()]
    # Labelled metrics have no samples until they are used.
    endings = {"counter": ("_total",), "summary": ("_sum", "_count"), "gauge": ("",), "histogram": ("_count", "_sum")}
    return {f"{family.name}{ending}" for family in families for ending in endings.get(family.type, ())}


def test_every_metric_that_a_rule_names_is_told_by_our_code():
    expressions = " ".join(rule["expr"] for group in GROUPS for rule in group["rules"])
    named = set(re.findall(r"\b(?:rag|tool|sabueso)_[a-z0-9_]+(?::\w+)?", re.sub(r"tenant\w*:\S+", "", expressions)))
    assert len(named) > 15
    assert named <= names_told(), named - names_told()


def test_every_record_that_an_alert_names_is_recorded():
    named = set(re.findall(r"\btenant\w*:\w+:\w+", " ".join(rule["expr"] for rule in ALERTS.values())))
    assert named == RECORDED


# ---- in the chart


def alerting(**more):
    return {**GOOD, "evaluation": {"alerts": {"enabled": True, **more}}}


def test_without_being_asked_for_there_are_no_rules():
    assert not of_kind(render(**GOOD), "PrometheusRule")


def test_the_chart_has_the_rules_as_they_were_tested():
    (rule,) = of_kind(render(**alerting(labels={"release": "prometheus"})), "PrometheusRule").values()
    assert rule["apiVersion"] == "monitoring.coreos.com/v1"
    assert rule["metadata"]["labels"]["release"] == "prometheus"
    assert rule["spec"]["groups"] == GROUPS


def test_runbooks_can_live_elsewhere():
    (rule,) = of_kind(render(**alerting(runbooks="https://wiki.test/sabueso/")), "PrometheusRule").values()
    urls = [
        one["annotations"]["runbook_url"]
        for group in rule["spec"]["groups"]
        for one in group["rules"]
        if "alert" in one
    ]
    assert set(urls) == {f"https://wiki.test/sabueso/{alert}.md" for alert in ALERTS}
