"""What rules, dashboards and runbooks name is there; dashboards are those of their source."""

import json
import re
from pathlib import Path

import pytest
import yaml

from local.dashboards.__main__ import FOLDER, texts
from tests.chart.alert_rules import all_alerts, all_rules
from tests.chart.cluster_facts import GOOD, of_kind, render
from tests.chart.known_metrics import all_names, buckets_of, exporters, ours
from tests.chart.promql import labels_in, names_in, selectors

DASHBOARDS = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(FOLDER.glob("*.json"))}
RUNBOOKS = Path("docs/runbooks")
LEVELS = yaml.safe_load(Path("charts/sabueso/alerts/slos.yaml").read_text(encoding="utf-8"))
# What Prometheus itself tells, besides what our rules record.
OF_PROMETHEUS = {"ALERTS"}
# Variables of Grafana, as they could be.
VARIABLES = {
    "$__rate_interval": "5m",
    "$release": "try",
    "$namespace": "sabueso",
    "$pool_namespace": "models",
    "$qdrant_namespace": "q",
}


def panels():
    return [(name, panel) for name, one in DASHBOARDS.items() for panel in one["panels"]]


def expressions():
    """PromQL of all panels, with variables filled in."""
    for name, panel in panels():
        for target in panel.get("targets", ()):
            text = target["expr"]
            for variable, value in VARIABLES.items():
                text = text.replace(variable, value)
            yield f"{name}: {panel['title']}", text


def recorded():
    return {rule["record"] for rule in all_rules() if "record" in rule}


# ---- names


def test_the_list_of_our_metrics_is_no_empty_one():
    assert len(ours()) > 100
    assert {"sabueso_gateway_request_duration_seconds_bucket", "rag_faithfulness_score"} <= ours()


def test_every_series_that_a_rule_asks_for_is_told_by_somebody():
    for rule in all_rules():
        missing = names_in(rule["expr"]) - all_names() - recorded() - OF_PROMETHEUS
        assert not missing, rule


def test_every_series_that_a_dashboard_asks_for_is_told_by_somebody():
    for where, text in expressions():
        missing = names_in(text) - all_names() - recorded() - OF_PROMETHEUS
        assert not missing, where


def test_every_label_that_is_asked_of_our_series_is_one_of_theirs():
    given = {"namespace", "pod", "le", "instance"}
    for where, text in [*expressions(), *((rule.get("alert", ""), rule["expr"]) for rule in all_rules())]:
        for one in selectors(text):
            if one.name in ours():
                assert set(labels_in(one)) <= given | labels_of(one.name), where


def labels_of(series):
    from prometheus_client import REGISTRY

    for ending in ("", "_bucket", "_count", "_sum", "_total"):
        found = REGISTRY._names_to_collectors.get(series.removesuffix(ending))
        if found is not None and hasattr(found, "_labelnames"):
            return set(found._labelnames)
    return {"golden_set", "variant", "language"}


def test_names_that_vllm_has_given_up_are_nowhere():
    text = json.dumps(list(DASHBOARDS.values())) + yaml.safe_dump(all_rules())
    for name in exporters()["vllm"]["gone"]:
        assert not re.search(rf"{re.escape(name)}\b", text), name


def test_the_understudy_tells_nothing_that_vllm_does_not():
    from services.understudy.metrics import EngineMetrics

    told = set(
        re.findall(r"^# TYPE (vllm:\w+?)(?:_total)? \w+$", EngineMetrics("m").exposition().decode(), re.MULTILINE)
    )
    known = exporters()["vllm"]["metrics"]
    assert {name for name in told if not name.endswith("_created")} <= set(known), told


@pytest.mark.parametrize("source", ["dashboards", "rules"])
def test_shares_are_never_added_up(source):
    texts = [text for _, text in expressions()] if source == "dashboards" else [rule["expr"] for rule in all_rules()]
    for text in texts:
        assert not re.search(r"\bsum\b[^(]*\([^()]*_perc\b", text), text


def test_every_limit_is_a_bucket_of_the_code():
    for name, known in LEVELS["buckets"].items():
        assert [f"{float(one)}" for one in known] == [one for one in buckets_of(name) if one != "+Inf"], name
    asked = [one for rule in all_rules() for one in selectors(rule["expr"]) if "le" in labels_in(one)]
    assert len(asked) == sum("seconds" in level for level in LEVELS["slos"].values())
    for one in asked:
        assert labels_in(one)["le"] in buckets_of(one.name.removesuffix("_bucket")), one


# ---- dashboards


def test_the_dashboards_are_those_of_their_source():
    """`python -m local.dashboards` makes them anew."""
    assert {path.name: path.read_text(encoding="utf-8") for path in FOLDER.glob("*")} == texts()


def test_there_is_a_dashboard_for_each_question():
    assert set(DASHBOARDS) == {"overview", "slo", "agent", "retrieval", "model-pool", "tenant"}
    assert len({one["uid"] for one in DASHBOARDS.values()}) == 6


def test_every_panel_has_a_question_a_unit_and_a_place_of_its_own():
    for name, one in DASHBOARDS.items():
        taken = set()
        for panel in one["panels"]:
            place = panel["gridPos"]
            cells = {(x, y) for x in range(place["x"], place["x"] + place["w"])
                     for y in range(place["y"], place["y"] + place["h"])}  # fmt: skip
            assert place["x"] + place["w"] <= 24, (name, panel["title"])
            assert not cells & taken, (name, panel["title"])
            taken |= cells
            if panel["type"] in ("row", "text"):
                continue
            assert panel["targets"], (name, panel["title"])
            assert panel["fieldConfig"]["defaults"]["unit"], (name, panel["title"])
            if panel["type"] == "timeseries":
                # Else Grafana writes a series' whole name and labels.
                assert all(one["legendFormat"] for one in panel["targets"]), (name, panel["title"])


def test_dashboards_ask_for_the_variables_that_they_have():
    for name, one in DASHBOARDS.items():
        had = {f"${variable['name']}" for variable in one["templating"]["list"]} | {"$__rate_interval"}
        asked = set(re.findall(r"\$\w+", json.dumps([panel.get("targets") for panel in one["panels"]])))
        assert asked <= had, name
        for variable in one["templating"]["list"]:
            if variable["type"] == "query":
                series, _ = re.fullmatch(r"label_values\((\S+), (\w+)\)", variable["definition"]).groups()
                assert series in all_names() | recorded(), name


def test_the_chart_hands_the_dashboards_to_grafana():
    wishes = {"enabled": True, "annotations": {"grafana_folder": "sabueso"}}
    maps = of_kind(render(**GOOD, dashboards=wishes), "ConfigMap")
    found = {name: one for name, one in maps.items() if "-dashboard-" in name}
    assert len(found) == 6
    for one in found.values():
        assert one["metadata"]["labels"]["grafana_dashboard"] == "1"
        assert one["metadata"]["annotations"] == {"grafana_folder": "sabueso"}
        ((file, text),) = one["data"].items()
        assert json.loads(text) == DASHBOARDS[file.removesuffix(".json")]


def test_without_being_asked_for_there_are_neither_rules_nor_dashboards():
    manifests = render(**GOOD)
    assert not of_kind(manifests, "PrometheusRule")
    assert not [name for name in of_kind(manifests, "ConfigMap") if "dashboard" in name]


# ---- alerts and their runbooks


def test_every_alert_says_how_grave_it_is_what_it_is_and_where_to_read_on():
    for rule in all_alerts():
        assert rule["labels"]["severity"] in ("critical", "warning", "info"), rule
        assert {"summary", "description", "runbook_url"} <= set(rule["annotations"]), rule
        assert rule["annotations"]["runbook_url"] == f"docs/runbooks/{rule['alert']}.md"
        assert len(rule["annotations"]["summary"]) <= 100, rule
        assert "[[" not in json.dumps(rule)


def test_symptoms_page_and_causes_do_not():
    """Whoever is woken must be needed: answers fail or are late, or nothing is there that could answer."""
    paging = {rule["alert"] for rule in all_alerts() if rule["labels"]["severity"] == "critical"}
    symptoms = {level["alert"] for level in LEVELS["slos"].values()}
    assert paging == symptoms | {"ServiceAbsent", "PoolDown", "VllmEngineStalled"}


def test_every_alert_has_a_runbook_of_its_name_with_what_is_needed_at_night():
    for rule in all_alerts():
        text = (RUNBOOKS / f"{rule['alert']}.md").read_text(encoding="utf-8")
        parts = re.findall(r"^#+ .*$", text, re.MULTILINE)
        wanted = ["## What it means", "## Look first", "## What to do", "## Make sure"]
        assert parts == [f"# {rule['alert']}", *wanted], rule["alert"]


def test_every_runbook_belongs_to_an_alert():
    evaluation = Path("charts/sabueso/alerts/evaluation.yaml").read_text(encoding="utf-8")
    alerts = {rule["alert"] for rule in all_alerts()} | set(re.findall(r"alert: (\w+)", evaluation))
    assert {path.stem for path in RUNBOOKS.glob("*.md")} == alerts


def test_queries_of_runbooks_can_be_run_and_find_something():
    found = 0
    for rule in {rule["alert"]: rule for rule in all_alerts()}.values():
        text = (RUNBOOKS / f"{rule['alert']}.md").read_text(encoding="utf-8")
        for block in re.findall(r"```promql\n(.*?)```", text, re.DOTALL):
            for line in filter(None, block.splitlines()):
                missing = names_in(line) - all_names() - recorded() - OF_PROMETHEUS
                assert not missing, (rule["alert"], line)
                found += 1
        named = set(re.findall(r"`((?:sabueso|rag)_\w+)`", text))
        assert named <= ours() | {name.rpartition("_")[0] for name in ours()}, (rule["alert"], named - ours())
    assert found > 40


def test_commands_of_runbooks_are_ones_of_the_command_line():
    import typer

    from services.cli.main import app

    found = 0
    for path in sorted(RUNBOOKS.glob("*.md")):
        for line in re.findall(r"(?m)(?:`|^)sabueso ([a-z][^`#\n]*)", path.read_text(encoding="utf-8")):
            command = typer.main.get_command(app)
            words = line.split()
            while words and hasattr(command, "commands"):
                command = command.commands.get(words.pop(0))
                assert command is not None, (path.name, line)
            known = {"--help"} | {name for option in command.params for name in option.opts}
            assert {word for word in words if word.startswith("--")} <= known, (path.name, line)
            found += 1
    assert found > 20


def test_settings_that_runbooks_name_are_settings():
    import importlib

    known = set()
    for path in Path("services").glob("*/config.py"):
        settings = getattr(importlib.import_module(f"services.{path.parent.name}.config"), "Settings", None)
        known |= {f"SABUESO_{name.upper()}" for name in settings.model_fields} if settings else set()
    alerts = {rule["alert"] for rule in all_alerts()}
    for alert in alerts:
        named = set(re.findall(r"SABUESO_[A-Z_]+", (RUNBOOKS / f"{alert}.md").read_text(encoding="utf-8")))
        assert named <= known, (alert, named - known)
