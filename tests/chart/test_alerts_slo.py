"""Service levels: that their burn rates can be reached, that they fire, and that they are quiet when all is well."""

import re
from functools import cache
from pathlib import Path

import promql_parser
import pytest
import yaml

from local import promtool
from tests.chart.alert_rules import all_rules, rendered, run, series, steady, write_rules, write_tests
from tests.chart.cluster_facts import GOOD, check_schemas, manifests_of, of_kind, render
from tests.chart.promql import names_in

LEVELS = yaml.safe_load(Path("charts/sabueso/alerts/slos.yaml").read_text(encoding="utf-8"))
SLOS, BURNS = LEVELS["slos"], LEVELS["burns"]
HOURS = {"5m": 1 / 12, "30m": 0.5, "1h": 1, "2h": 2, "6h": 6, "1d": 24, "3d": 72}
# One of each kind, where all would take promtool long.
FEW = ("requests", "answers-web", "output-tokens")
needs_promtool = pytest.mark.skipif(promtool.find() is None, reason=promtool.HOW)


def burning(groups):
    return [rule for group in groups for rule in group["rules"] if "long" in rule.get("labels", ())]


def rendered_with(**alerts):
    rules = of_kind(render(**GOOD, alerts={"enabled": True, **alerts}), "PrometheusRule")
    return rules["try-alerts-slo"]["spec"]["groups"]


def budgets_asked(rule):
    """Factor and objective of both windows, as the rule has them."""
    found = re.findall(r"> ([\d.]+) \* \(1 - ([\d.]+)\)", rule["expr"])
    assert len(found) == 2, rule["expr"]
    assert found[0] == found[1]
    return tuple(map(float, found[0]))


# ---- the numbers


def test_factors_are_shares_of_the_budget_of_thirty_days():
    spent = [round(one["factor"] * HOURS[one["long"]] / 720, 4) for one in BURNS]
    assert spent == [0.02, 0.05, 0.1, 0.1]
    for one in BURNS:
        assert HOURS[one["short"]] == pytest.approx(HOURS[one["long"]] / 12)


def test_symptoms_page_first_and_ticket_later():
    assert [one["severity"] for one in BURNS] == ["critical", "critical", "warning", "warning"]
    assert [one["for"] for one in BURNS] == ["2m", "15m", "1h", "3h"]


def test_every_burn_rate_can_be_reached():
    """A share of errors is at most 1: an alert on more could never fire."""
    objectives = dict(zip(SLOS, (0.2, 0.5, 0.8, 0.9, 0.93, 0.9306, 0.94, 0.95, 0.99, 0.999, 0.9999), strict=True))
    rules = burning(rendered_with(slos={name: {"objective": one} for name, one in objectives.items()}))
    assert len(rules) == len(SLOS) * len(BURNS)
    for rule in [*rules, *burning(rendered()["slo"])]:
        factor, objective = budgets_asked(rule)
        assert factor * (1 - objective) <= 0.81, rule
    assert {rule["labels"]["slo"]: budgets_asked(rule)[1] for rule in rules} == objectives


def test_objectives_of_the_chart_keep_the_factors_of_the_book():
    for rule in burning(rendered()["slo"]):
        (one,) = [burn for burn in BURNS if burn["long"] == rule["labels"]["long"]]
        assert budgets_asked(rule) == (one["factor"], SLOS[rule["labels"]["slo"]]["objective"])


def test_every_scenario_that_has_a_level_is_one_of_the_code():
    from typing import get_args

    from services.orchestrator.scenario import Scenario

    told = set(re.findall(r'scenario="(\w+)"', " ".join(level["total"] for level in SLOS.values())))
    assert len(told) == 6
    assert told <= set(get_args(Scenario))


def test_the_load_test_is_stricter_than_what_wakes_somebody():
    """`make load` is red before a page is."""
    promised = {
        one["name"]: one["p95_ms"]["answer"]
        for one in yaml.safe_load(Path("loadtests/slo.yaml").read_text())["scenarios"]
    }
    paging = {
        "naive RAG": "answers-rag",
        "one SQL iteration": "answers-one-iteration",
        "SQL and documents in parallel": "answers-one-iteration",
        "two iterations in sequence": "answers-two-iterations",
        "three iterations in sequence": "answers-three-iterations",
        "with web search": "answers-web",
        "hybrid question by the router": "answers-router",
    }
    for name, level in paging.items():
        assert promised[name] / 1000 <= SLOS[level]["seconds"], name


def test_alerts_ask_for_what_is_recorded_only():
    recorded = {rule["record"] for group in rendered()["slo"] for rule in group["rules"] if "record" in rule}
    assert {f"slo:bad_requests:ratio_rate{window}" for window in HOURS} <= recorded
    for rule in burning(rendered()["slo"]):
        assert names_in(rule["expr"]) <= recorded, rule
        # Sums over long times are of what is recorded: of raw series they would cost too much.
    for rule in all_rules():
        for call in re.findall(r"(\w+)\[(?:1d|3d|30d)\]", rule["expr"].replace("}", "")):
            assert not call.startswith("sabueso"), rule


def test_every_expression_can_be_read():
    for rule in all_rules():
        assert promql_parser.parse(rule["expr"])


# ---- other numbers


def test_a_platform_team_can_change_objective_and_limit():
    groups = rendered_with(slos={"answers-web": {"objective": 0.9, "seconds": 3}, "answers-rag": {"enabled": False}})
    text = yaml.safe_dump(groups, width=1000)
    assert 'scenario=\\"web\\",le=\\"3.0\\"' in text or 'scenario="web",le="3.0"' in text
    assert "answers-rag" not in text
    assert {budgets_asked(rule)[1] for rule in burning(groups) if rule["labels"]["slo"] == "answers-web"} == {0.9}
    assert "answers with the web took longer than they may (3 s)" in text


@pytest.mark.parametrize(
    ("alerts", "says"),
    [
        ({"slos": {"answers-web": {"seconds": 1.4}}}, "answers-web.seconds: 1.4 is no bucket"),
        ({"slos": {"answer": {"objective": 0.9}}}, "alerts.slos.answer: there is no such service level"),
        ({"slos": {"requests": {"seconds": 1}}}, "requests.seconds: this level counts errors"),
        ({"slos": {"requests": {"objective": 1}}}, "objective"),
        ({"thresholds": {"memory": 1}}, "alerts.thresholds.memory: there is no such threshold"),
    ],
)
def test_a_wrong_number_is_refused_by_name(alerts, says):
    with pytest.raises(Exception, match=re.escape(says)):
        rendered_with(**alerts)


# ---- what fires


@cache
def few():
    return rendered_with(slos={name: {"enabled": False} for name in SLOS if name not in FEW})


def planted(times_budget, minutes, per_minute=6000, levels=FEW, shape=None):
    """Series of service levels with bad requests of so many times their budget. `shape`: the values of a rate."""
    shape = shape or (lambda rate: f"0+{rate:g}x{minutes}")
    found = []
    for name in levels:
        level, metric = SLOS[name], SLOS[name]["metric"]
        # Searches are requests too, and must not weigh there.
        rate = per_minute / (100 if name == "search" else 1)
        bad = min(1.0, times_budget * (1 - level["objective"])) * rate
        labels = dict(re.findall(r'(\w+)="([^"]*)"', level["total"]))
        if "seconds" in level:
            found.append(series(f"{metric}_count", shape(rate), **labels))
            found.append(series(f"{metric}_bucket", shape(rate - bad), le=f"{float(level['seconds'])}", **labels))
        else:
            label, fine, wrong = ("status", "200", "503") if "status" in level["bad"] else ("code", "OK", "UNAVAILABLE")
            labels |= {"route": "/v1/usage"} if label == "status" else {}
            found += [series(metric, shape(n), **labels, **{label: v}) for v, n in ((fine, rate - bad), (wrong, bad))]
    return found


def expected(minutes, *longs, groups=None):
    """What all alerts together should be at a time: those of these long windows."""
    alerts = {}
    for rule in burning(groups or few()):
        fires = [{"exp_labels": rule["labels"]}] if rule["labels"]["long"] in longs else []
        alerts.setdefault(rule["alert"], []).extend(fires)
    return [{"eval_time": f"{minutes}m", "alertname": name, "exp_alerts": fires} for name, fires in alerts.items()]


def judged(folder, *cases, groups=None):
    rules = write_rules(folder / "slo.rules.yaml", groups or few())
    tests = [{"interval": "1m", "input_series": seen, "alert_rule_test": asked} for seen, asked in cases]
    return run("test", "rules", write_tests(folder / "slo.yaml", rules, tests, "1m"))


@needs_promtool
def test_a_fast_burn_pages_within_minutes(tmp_path):
    code, told = judged(tmp_path, (planted(16, 30), [*expected(1), *expected(9, "1h"), *expected(26, "1h", "6h")]))
    assert code == 0, told


@needs_promtool
def test_what_is_within_the_budget_alarms_nobody(tmp_path):
    code, told = judged(
        tmp_path,
        (planted(0.9, 40), expected(40)),
        # No traffic at all, and series that stand still.
        ([], expected(20)),
        (planted(16, 30, shape=lambda rate: f"{rate:g}x30"), expected(30)),
        # Half of three requests in an hour is no outage.
        (planted(1000, 60, per_minute=0.05), expected(40)),
        # Processes begin anew at 0.
        (planted(0.5, 0, shape=lambda rate: f"0+{rate:g}x20 0+{rate:g}x30"), [*expected(22), *expected(40)]),
    )
    assert code == 0, told


@needs_promtool
def test_a_page_ends_soon_after_what_caused_it(tmp_path):
    """The short window is for that: the long one is above its limit for most of an hour more."""
    outage = [
        series("sabueso_gateway_request_duration_seconds_count", "0+1000x30 30000x30", route="/v1/usage", status="503"),
        steady("sabueso_gateway_request_duration_seconds_count", 1000, route="/v1/usage", status="200"),
    ]
    rules = [rule for rule in burning(few()) if rule["alert"] == "RequestsFailing"]
    fires = [{"exp_labels": rule["labels"]} for rule in rules if rule["labels"]["long"] == "6h"]
    asked = [{"eval_time": "40m", "alertname": "RequestsFailing", "exp_alerts": fires}]
    code, told = judged(tmp_path, (outage, asked))
    assert code == 0, told


@needs_promtool
def test_what_is_left_of_the_budget_is_recorded(tmp_path):
    rules = write_rules(tmp_path / "rules.yaml", few())
    left = 'round(slo:error_budget:remaining30d{slo="requests"}, 0.001)'
    labels = '{slo="requests", release="try", namespace="default"}'
    asked = {"expr": left, "eval_time": "40m", "exp_samples": [{"labels": labels, "value": 0.5}]}
    test = {"interval": "1m", "input_series": planted(0.5, 50), "promql_expr_test": [asked]}
    code, told = run("test", "rules", write_tests(tmp_path / "t.yaml", rules, [test], "1m"))
    assert code == 0, told


@needs_promtool
@pytest.mark.slow
def test_every_level_burns_through_all_four_windows(tmp_path):
    groups = rendered()["slo"]

    def asked(minutes, *longs):
        return expected(minutes, *longs, groups=groups)

    code, told = judged(
        tmp_path,
        (planted(16, 90, levels=SLOS), [*asked(9, "1h"), *asked(25, "1h", "6h"), *asked(80, "1h", "6h", "1d")]),
        (planted(4, 230, levels=SLOS), [*asked(30), *asked(80, "1d"), *asked(220, "1d", "3d")]),
        (planted(0.9, 250, levels=SLOS), [*asked(60), *asked(240)]),
        groups=groups,
    )
    assert code == 0, told


# ---- as manifests


def test_rules_fit_the_schema_of_the_operator():
    rules = [one for one in render(**GOOD, alerts={"enabled": True}) if one["kind"] == "PrometheusRule"]
    assert len(rules) == 7
    check_schemas(rules)


def test_helm_3_and_4_make_the_same_rules(helm_template):
    text = helm_template({**GOOD, "alerts": {"enabled": True}, "dashboards": {"enabled": True}})
    made = of_kind(manifests_of(text), "PrometheusRule")
    assert {name.removeprefix("try-alerts-"): one["spec"]["groups"] for name, one in made.items()} == rendered()


def test_files_can_be_left_out_and_series_looked_for_elsewhere():
    wishes = {"without": ["kubernetes", "backing"], "selectors": {"modelPool": 'namespace="models",job="vllm"'}}
    rules = of_kind(
        render(**GOOD, alerts={"enabled": True, "thresholds": {"modelErrorShare": 0.5}, **wishes}), "PrometheusRule"
    )
    assert set(rules) == {f"try-alerts-{one}" for one in ("gateway", "agent", "ingestion", "model-pool", "slo")}
    for group in rules["try-alerts-model-pool"]["spec"]["groups"]:
        for rule in group["rules"]:
            assert 'namespace="models",job="vllm"' in rule["expr"]
            assert "namespace" not in rule["labels"]
    text = yaml.safe_dump(rules["try-alerts-model-pool"])
    assert "more than 0.5 of all" in text


def test_services_that_are_not_installed_are_not_missed():
    rules = render(**GOOD, alerts={"enabled": True}, services={"evaluation": {"enabled": False}})
    groups = of_kind(rules, "PrometheusRule")["try-alerts-gateway"]["spec"]["groups"]
    missed = {rule["labels"]["service"] for rule in groups[0]["rules"] if rule["alert"] == "ServiceAbsent"}
    assert "evaluation" not in missed
    assert {"gateway", "orchestrator", "tool_cache"} <= missed


def test_runbooks_can_live_elsewhere_and_labels_are_the_operators():
    rules = of_kind(
        render(**GOOD, alerts={"enabled": True, "labels": {"release": "prom"}, "runbooks": "https://wiki.test/"}),
        "PrometheusRule",
    )
    for one in rules.values():
        assert one["metadata"]["labels"]["release"] == "prom"
        for group in one["spec"]["groups"]:
            for rule in group["rules"]:
                if "alert" in rule:
                    assert rule["annotations"]["runbook_url"] == f"https://wiki.test/{rule['alert']}.md"
