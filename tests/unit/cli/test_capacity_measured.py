"""`sabueso capacity --from`: times of a load test in place of those that the plan supposes."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from services.cli.capacity.measured import KINDS, NoRun, measured_plan, read
from services.cli.capacity.planning import Installation
from services.cli.capacity.profiles import CORES, MIX, POOLS, QUESTIONS
from services.cli.capacity.simulation import exponential, simulate
from services.cli.main import app
from tests.unit.loadtests.report.runs import sample, written

POOL = POOLS["h100-tp4"]
PLAN = Installation(POOL, 1, dict.fromkeys(CORES, 2), MIX, 30, 4296)


def model_ms(kind, factor=1.0):
    turns = QUESTIONS[kind].turns
    return 1000 * factor * sum(sum(POOL.turn(number, turns - 1)) for number in range(turns))


def answers(factor=1.0, tools_ms=90.0, **changed):
    """Two of each kind, whose model took `factor` times as long as the profile says."""
    return [
        sample(name, due, (model_ms(kind, factor) + tools_ms + 30) / 1000, stages_ms=stages, **changed)
        for due in (0.0, 1.0)
        for name, kind in KINDS.items()
        for stages in [{"model": model_ms(kind, factor), "tools": tools_ms, "overhead": 6.0, "gateway": 4.0}]
    ]


def test_the_scenarios_that_are_read_are_those_that_the_load_tests_have():
    scenarios = {one["name"]: one for one in yaml.safe_load(Path("loadtests/slo.yaml").read_text())["scenarios"]}
    assert set(KINDS.values()) == set(QUESTIONS)
    for name, kind in KINDS.items():
        assert scenarios[name]["turns"] == QUESTIONS[kind].turns


@pytest.mark.parametrize("factor", [0.5, 1.0, 1.7])
def test_the_model_s_times_are_the_profile_s_by_the_factor_that_was_measured(tmp_path, factor):
    measured = read(written(tmp_path, answers(factor)))
    assert measured.model_factor(POOL) == pytest.approx(factor)
    pool = measured_plan(PLAN, measured).pool
    assert pool.first_token == pytest.approx([factor * one for one in POOL.first_token])
    assert (pool.call, pool.answer) == pytest.approx((factor * POOL.call, factor * POOL.answer))
    assert (pool.gpus, pool.kv_tokens) == (POOL.gpus, POOL.kv_tokens)


def test_tools_take_what_was_measured_and_our_own_work_in_them_is_not_counted_twice(tmp_path):
    plan = measured_plan(PLAN, read(written(tmp_path, answers(tools_ms=90))))
    rag = plan.questions["rag"]
    assert rag.tool_seconds == pytest.approx(0.090 - 0.010 - 0.012)
    assert rag.cpu_seconds == QUESTIONS["rag"].cpu_seconds
    quick = measured_plan(PLAN, read(written(tmp_path, answers(tools_ms=1))))
    assert quick.questions["rag"].tool_seconds == 0


def test_kinds_that_were_not_measured_keep_what_they_had(tmp_path):
    plan = measured_plan(PLAN, read(written(tmp_path, [one for one in answers() if one["scenario"] == "naive RAG"])))
    assert {kind for kind, one in plan.questions.items() if one != QUESTIONS[kind]} == {"rag"}


@pytest.mark.parametrize(
    "spoilt", [{"problem": "wrong"}, {"refused": True}, {"degraded": True}, {"warm_up": True}, {"stages_ms": {}}]
)
def test_only_right_and_whole_answers_that_say_where_their_time_went_count(tmp_path, spoilt):
    good = [one for one in answers() if one["scenario"] == "naive RAG"]
    bad = [one | {"ended": one["due"] + 60, "stages_ms": {"model": 50_000.0}} | spoilt for one in good]
    found = read(written(tmp_path / "both", good + bad)).kinds["rag"]
    assert found.answer_count == 2
    with pytest.raises(NoRun, match="no answer tells where its time went"):
        read(written(tmp_path / "bad", bad))


def test_a_mix_is_not_read_as_its_answers_waited_for_each_other(tmp_path):
    with pytest.raises(NoRun):
        read(written(tmp_path, [sample("naive RAG, mixed")]))


def test_formula_and_simulation_agree_on_what_was_measured_too(tmp_path):
    plan = measured_plan(PLAN, read(written(tmp_path, answers(1.4, 60))))
    users = plan.users(0.5)
    simulated = simulate(plan, users, answers=3000, spread=exponential)
    rate = plan.answers_per_second(users)
    assert simulated.answers_per_second == pytest.approx(rate, rel=0.08)
    assert simulated.mean == pytest.approx(plan.answer_seconds(rate), rel=0.15)
    assert plan.users(0.7) < replace(PLAN).users(0.7)


def call(*words):
    return CliRunner().invoke(app, ["capacity", *words])


def test_the_command_shows_what_was_measured_beside_what_it_makes_of_it(tmp_path):
    folder = str(written(tmp_path, answers(1.2), profile="h100-tp4"))
    told = json.loads(call("--from", folder, "--json").stdout)
    rag = told["measured"]["kinds"]["rag"]
    assert told["measured"]["model_times_the_profile"] == pytest.approx(1.2)
    assert (rag["answers"], rag["seconds"]) == (2, pytest.approx((model_ms("rag", 1.2) + 120) / 1000, abs=0.001))
    # The formula counts our CPU time as if nobody could work meanwhile.
    assert rag["reckoned_seconds"] == pytest.approx(rag["seconds"], abs=0.05)
    shown = call("--from", folder).stdout
    assert "The model took 1.2 times what its profile says." in shown
    assert "not measured here" not in shown


@pytest.mark.slow
def test_the_run_says_which_profile_and_the_command_line_may_say_another(tmp_path):
    folder = str(written(tmp_path, answers(), profile="h100-tp2"))
    assert json.loads(call("--from", folder, "--json").stdout)["gpus_needed"] == 2
    folder = str(written(tmp_path, answers(), profile="instant"))
    assert json.loads(call("--from", folder, "--profile", "h100-tp2", "--json").stdout)["gpus_needed"] == 2
    assert json.loads(call("--from", folder, "--json").stdout)["gpus_needed"] == 4


@pytest.mark.parametrize("spoil", ["no folder", "no json", "a list", "no numbers"])
def test_a_folder_that_holds_no_run_is_refused_with_a_sentence(tmp_path, spoil):
    folder = written(tmp_path / "run", answers())
    match spoil:
        case "no folder":
            folder = tmp_path / "none"
        case "no json":
            (folder / "run.json").write_text("{")
        case "a list":
            (folder / "run.json").write_text("[]")
        case _:
            (folder / "samples.jsonl").write_text('{"scenario": "naive RAG", "due": "soon", "ended": 1}\n')
    done = call("--from", str(folder))
    assert done.exit_code == 2
    assert "Traceback" not in done.output
    with pytest.raises(NoRun):
        read(folder)
