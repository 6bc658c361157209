from argparse import ArgumentParser
from datetime import datetime
from pathlib import Path

import pytest
import yaml

from loadtests.offering.options import Asked, Offer, add_options, asked_of, load_of
from loadtests.offering.plan import SLO, BadPlan, read_plan
from loadtests.offering.target import NoTarget, Target, target

HERE = Target("http://here", {"main": "a", "second": "b", "noisy": "c"})


def written(tmp_path, change):
    plan = yaml.safe_load(SLO.read_text(encoding="utf-8"))
    change(plan)
    path = tmp_path / "plan.yaml"
    path.write_text(yaml.safe_dump(plan, allow_unicode=True), encoding="utf-8")
    return path


def each(plan, asked):
    groups = [[plan.row(one, one.name, asked.seconds or 10, one.arrivals_per_second)] for one in plan.scenarios]
    return Offer("each", groups, gap_seconds=1)


def with_noise(plan, asked):
    noisy = plan.noisy_neighbour
    return Offer("noise", [[*plan.mix(plan.mixed, ", mixed"), plan.row(noisy, noisy.name, 40, 3)]])


def test_the_plan_in_the_repository_can_be_read():
    plan = read_plan()
    assert plan.profile == "h100-tp4"
    for one in plan.scenarios:
        half, most, hardly = (one.budgets()["answer"][percent] for percent in ("p50", "p95", "p99"))
        assert 0.9 * most < half < most < hardly <= 1.2 * most, one.name
    assert all(one.questions[0] in plan.texts for one in plan.scenarios)
    assert sum(plan.seconds for _ in plan.scenarios) + plan.mixed.seconds <= 300


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda plan: plan["scenarios"][1].update(p95ms={}), "scenarios.1.p95ms: there is no such field; correct its"),
        (lambda plan: plan["scenarios"][1].pop("name"), "scenarios.1.name: is missing; add it"),
        (lambda plan: plan["scenarios"][0]["p95_ms"].update(anser=3), "scenarios.0.p95_ms.anser"),
        (lambda plan: plan["scenarios"][0].update(turns=0), "scenarios.0.turns: input should be greater than or equal"),
        (lambda plan: plan["scenarios"][0].update(questions=["x-9"]), "no such questions: naive RAG: x-9"),
        (
            lambda plan: plan["spike"].update(scenarios=["nonsense"]),
            "spike: there is no scenario nonsense; there are n",
        ),
        (lambda plan: plan["scenarios"].append(plan["scenarios"][0]), "two are called naive RAG; give each a name"),
        (lambda plan: plan.update(profile="h200"), "profile: input should be 'instant', 'h100-tp4' or 'h100-tp2', not"),
    ],
)
def test_a_fault_is_told_with_its_field_and_what_to_do(tmp_path, change, says):
    with pytest.raises(BadPlan) as refused:
        read_plan(written(tmp_path, change))
    assert says in str(refused.value)


def test_a_file_that_is_not_there_or_no_yaml_is_told(tmp_path):
    with pytest.raises(BadPlan, match="name another with --plan"):
        read_plan(tmp_path / "none.yaml")
    (tmp_path / "bad.yaml").write_text("scenarios: [")
    with pytest.raises(BadPlan, match=r"bad\.yaml"):
        read_plan(tmp_path / "bad.yaml")


def test_a_mix_is_split_by_weights():
    plan = read_plan()
    rows = {row.scenario.name: row for row in plan.mix(plan.mixed, ", mixed")}
    assert sum(row.per_second for row in rows.values()) == pytest.approx(plan.mixed.per_second)
    ratio = rows["naive RAG"].per_second / rows["with web search"].per_second
    assert ratio == pytest.approx(2)
    assert rows["naive RAG"].name == "naive RAG, mixed"


def test_budgets_are_by_what_is_timed_and_can_be_loosened():
    [rag] = read_plan().named(["naive RAG"])
    assert rag.budgets() == {"answer": {"p50": 291, "p95": 300, "p99": 350}, "first_event": {"p95": 60}}
    assert rag.budgets(1.5)["answer"] == {"p50": pytest.approx(436.5), "p95": 450, "p99": 525}


def test_groups_follow_one_another():
    load = load_of(each, Asked(seconds=4, only=("naive", "embed"), rate=2), HERE)
    first, second = load.rows
    assert (first.name, second.name) == ("naive RAG", "embeddings")
    assert second.begins == first.begins + 4 + 1
    assert load.seconds == second.begins + 4
    assert first.per_second == 10


def test_without_a_key_of_its_tenant_a_scenario_is_left_out_and_said_to_be():
    load = load_of(with_noise, Asked(), Target("http://here", {"main": "a", "second": "a"}))
    assert "noisy neighbour" not in {row.name for row in load.rows}
    assert load.left_out == ("noisy neighbour, for there is no key of its tenant; set SABUESO_LOAD_NOISY_API_KEY",)
    with pytest.raises(BadPlan, match="SABUESO_API_KEY"):
        load_of(each, Asked(only=("naive",)), Target("http://here", {}))
    with pytest.raises(BadPlan, match="SABUESO_LOAD_SECOND_API_KEY"):
        load_of(each, Asked(only=("embeddings",)), Target("http://here", {}))


def test_an_unknown_name_is_answered_with_those_that_there_are():
    with pytest.raises(BadPlan, match="nothing is left to offer; there are naive RAG, one SQL iteration"):
        load_of(each, Asked(only=("nothing",)), HERE)


def test_options_are_read_and_bounded():
    parser = ArgumentParser()
    add_options(parser)
    asked = asked_of(parser.parse_args(["--seconds", "3", "--only", "a", "b", "--out", "/tmp/x"]))
    assert asked == Asked(seconds=3, only=("a", "b"), out="/tmp/x")
    assert asked.folder("slo", datetime(2026, 1, 2)) == Path("/tmp/x")
    assert Asked().folder("slo", datetime(2026, 1, 2, 3, 4, 5)) == Path(".sabueso/load/slo-20260102-030405")
    with pytest.raises(BadPlan, match="above 0"):
        asked_of(parser.parse_args(["--rate", "0"]))


def test_the_target_is_the_stack_that_runs_here_unless_another_is_named(tmp_path):
    (tmp_path / "env").write_text("SABUESO_URL=http://here\nSABUESO_API_KEY=k\nSABUESO_TINY_API_KEY=t\n")
    home = {"SABUESO_HOME": str(tmp_path)}
    here = target(home)
    assert here == Target("http://here", {"main": "k", "second": "k", "noisy": "t"}, home=tmp_path)
    there = target(home | {"SABUESO_URL": "https://there/", "SABUESO_API_KEY": "other"})
    assert there == Target("https://there", {"main": "other", "second": "other"})
    with pytest.raises(NoTarget, match="make up"):
        target({"SABUESO_HOME": str(tmp_path / "none")})
