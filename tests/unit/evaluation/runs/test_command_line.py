"""`sabueso evals` as a person or CI calls it, against a gateway over HTTP."""

import asyncio
import json

import pytest
from typer.testing import CliRunner

from services.cli.evals import app
from services.evaluation.golden import sets
from tests.unit.evaluation.runs.gateway_server import KEY, GatewayServer, agent_body, listening, refusal
from tests.unit.evaluation.runs.test_whole_run import answer
from tests.unit.evaluation.runs.world import ITEMS, golden


class Shell:
    """Calls the command beside the gateway."""

    def __init__(self, url, folder):
        self.env = {"SABUESO_URL": url, "SABUESO_API_KEY": KEY, "COLUMNS": "200"}
        self.golden, self.run, self.other = str(folder / "whole"), str(folder / "run"), str(folder / "other")
        self.baseline = str(folder / "baseline.json")

    async def __call__(self, *words):
        return await asyncio.to_thread(CliRunner().invoke, app, words, env=self.env)


def said(done):
    """What was printed, however wide the terminal was taken to be."""
    return " ".join(done.output.split())


@pytest.fixture
async def gateway():
    server = GatewayServer(answer)
    async with listening(server) as url:
        server.url = url
        yield server


@pytest.fixture
def shell(gateway, tmp_path):
    folder = tmp_path / "whole"
    sets.write_about(folder, golden().about)
    sets.write_half(folder, "dev", ITEMS)
    return Shell(gateway.url, tmp_path)


async def test_a_run_shows_its_figures_says_what_is_missing_and_writes_a_report(shell, tmp_path):
    done = await shell("run", shell.golden, "--out", shell.run)
    assert done.exit_code == 0, done.output
    assert "tool_selection_accuracy" in said(done)
    assert "not measured: faithfulness (no judge is set)" in said(done)
    assert (tmp_path / "run" / "report.html").exists()
    (tmp_path / "run" / "report.md").unlink()
    assert (await shell("report", shell.run, "--set", shell.golden)).exit_code == 0
    assert (tmp_path / "run" / "report.md").exists()


async def test_for_scripts_a_run_is_json(shell):
    done = await shell("run", shell.golden, "--out", shell.run, "--no-baselines", "--json")
    found = json.loads(done.stdout)
    (agent,) = found["variants"]
    assert agent["metrics"]["refusal_accuracy"]["mean"] == 1
    assert found["plan"]["golden_set"] == "small"


async def test_the_gate_is_open_for_the_run_that_made_the_baseline_and_shut_for_a_worse_one(shell, gateway):
    await shell("run", shell.golden, "--out", shell.run, "--no-baselines")
    made = await shell("baseline", shell.run, "--set", shell.golden, "--to", shell.baseline)
    assert made.exit_code == 0
    same = await shell("gate", shell.run, "--set", shell.golden, "--baseline", shell.baseline)
    assert (same.exit_code, "Nothing is worse" in said(same)) == (0, True)
    again = await shell("run", shell.golden, "--out", shell.run, "--no-baselines", "--gate", shell.baseline)
    assert (again.exit_code, "Nothing is worse" in said(again)) == (0, True)
    gateway.agent = lambda question, options: refusal(422, "broken", "broken today")
    worse = await shell("run", shell.golden, "--out", shell.other, "--no-baselines")
    assert worse.exit_code == 2
    shut = await shell("gate", shell.other, "--set", shell.golden, "--baseline", shell.baseline)
    assert shut.exit_code == 1
    assert "agent" in said(shut)
    told = await shell("gate", shell.other, "--set", shell.golden, "--baseline", shell.baseline, "--json")
    assert json.loads(told.stdout)["open"] is False


async def test_two_variants_and_two_runs_are_compared(shell, gateway):
    words = ("--variant", "agent:", "--variant", "rag: strategy=rag", "--no-baselines")
    await shell("run", shell.golden, "--out", shell.run, *words)
    inside = await shell("compare", shell.run, "--set", shell.golden, "--json")
    assert json.loads(inside.stdout)["second"] == "rag"
    gateway.agent = lambda question, options: agent_body("Nothing.", evidence=())
    await shell("run", shell.golden, "--out", shell.other, *words)
    across = await shell("compare", shell.run, "--set", shell.golden, "--other", shell.other)
    assert across.exit_code == 0
    assert "not shown" in said(across)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--variant", "a: kind=magic"], "no kind is called magic"),
        (["--half", "test"], "for a reason"),
        (["--judge", "model"], "SABUESO_JUDGE_URL"),
        (["--judge-url", "http://[::1", "--judge-name", "m"], "http://[::1 is no URL"),
        (["--database", "postgresql://127.0.0.1:1/nothing"], "the database cannot be asked (ConnectionRefusedError)"),
        (["--database", "postgresql://127.0.0.1:99999/nothing"], "the database cannot be asked"),
        (["--database", "nonsense"], "the database cannot be asked (ClientConfigurationError)"),
        (["--variant", "plan: strategy=rag top_k=3"], "takes no top_k"),
    ],
)
async def test_what_cannot_be_run_is_one_line_and_status_1(shell, words, told):
    done = await shell("run", shell.golden, "--out", shell.run, *words)
    assert done.exit_code == 1
    assert told in said(done)


async def test_a_run_that_is_not_there_is_one_line_and_status_1(shell):
    done = await shell("report", shell.run, "--set", shell.golden)
    assert done.exit_code == 1
    assert "holds no run" in said(done)


async def test_the_stand_in_is_named_before_it_judges(shell):
    done = await shell("run", shell.golden, "--out", shell.run, "--no-baselines", "--judge", "lexical")
    assert done.exit_code == 0, done.output
    assert "not those of a judge" in said(done)


async def test_a_judge_that_fails_is_told_and_status_2_however_good_the_rest_is(shell, gateway):
    words = ("--no-baselines", "--metric", "faithfulness", "--judge-url", f"{gateway.url}/v1", "--judge-name", "nobody")
    done = await shell("run", shell.golden, "--out", shell.run, *words)
    assert done.exit_code == 2, done.output
    assert "agent: faithfulness: 2 of 2 values were lost by the judge" in said(done)


async def test_a_judge_is_shown_to_be_right_or_biased_by_the_same_cases_in_two_languages(shell):
    done = await shell("bias", "--judge", "lexical", "--json")
    found = json.loads(done.stdout)
    assert found["right"]["pair_count"] == 120
    assert set(found["accuracy"]) == {"en", "es"}
    table = await shell("bias", "--judge", "lexical")
    assert "says supported" in said(table)
    nobody = await shell("bias")
    assert (nobody.exit_code, "SABUESO_JUDGE_URL" in said(nobody)) == (1, True)


async def test_halves_of_several_sets_are_checked_together(shell, tmp_path):
    other = tmp_path / "second"
    sets.write_about(other, golden().about)
    sets.write_half(other, "dev", [ITEMS[2]])
    sets.write_half(other, "test", ITEMS[:1])
    alone = await shell("check", str(other))
    assert alone.exit_code == 0, alone.output
    both = await shell("check", shell.golden, str(other))
    assert both.exit_code == 1
    assert "document warranty is behind `whole/warranty-en` (dev) and `second/warranty-en` (test)" in said(both)
