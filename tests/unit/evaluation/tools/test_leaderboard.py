"""A model on the leaderboard's questions, behind OpenAI's API over HTTP: right and wrong calls, failures, going on."""

import asyncio
import json
from contextlib import asynccontextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from services.cli.evals import app
from services.evaluation.runs.folder import BrokenRun, RunFolder
from services.evaluation.tools import bfcl, leaderboard
from services.evaluation.tools.function_calls import sendable
from services.evaluation.tools.leaderboard import ALL, Questions
from services.evaluation.tools.leaderboard_run import NobodyThere, Wanted, run
from tests.unit.evaluation.judge.judge_server import listening
from tests.unit.evaluation.tools.replaying_model import SAMPLE, ReplayingModel, shuffled

WITH_CALLS = ["simple_python", "multiple", "parallel", "parallel_multiple"]


@asynccontextmanager
async def serving(model):
    model.gate = asyncio.Event()
    async with listening(model) as url:
        yield url


async def ran(model, folder, categories=(), limit=0, name="m"):
    async with serving(model) as url:
        return await run(Wanted(Questions.read(SAMPLE, categories, limit), folder, url, "", name))


async def figures_of(model, folder, categories=(), limit=0):
    return {one.category: one for one in (await ran(model, folder, categories, limit)).figures}


async def test_who_calls_what_the_files_accept_is_right_in_every_question_of_every_category(tmp_path):
    model = ReplayingModel(spoil=shuffled)
    found = await figures_of(model, tmp_path)
    assert set(found) == {*bfcl.CATEGORIES, ALL}
    assert {name: one.right.mean for name, one in found.items()} == dict.fromkeys(found, 1.0)
    assert leaderboard.macro(list(found.values())) == 1
    # One of the accepted answers of the live questions is no integer where their function wants one.
    assert {name for name, one in found.items() if one.selection.valid.value not in (None, 1)} <= {"live_multiple", ALL}
    assert found["irrelevance"].selection.no_tool.value == 1
    assert (found[ALL].asked_count, len(model.requests)) == (90, 90)


def no_call(case, calls):
    return []


def a_call_less(case, calls):
    return calls[1:]


def a_call_more(case, calls):
    return [*calls, calls[0]]


def a_function_that_nobody_has(case, calls):
    return [("nonsense", arguments) for _, arguments in calls]


def an_argument_more(case, calls):
    return [(name, {**arguments, "nonsense": 1}) for name, arguments in calls]


def what_is_no_json(case, calls):
    return [(name, json.dumps(arguments)[:-1]) for name, arguments in calls]


@pytest.mark.parametrize(
    ("spoil", "fault", "valid"),
    [
        (no_call, {"no call"}, None),
        (a_call_less, {"no call", "a call too few"}, 1),
        (a_call_more, {"a call too many"}, 1),
        (a_function_that_nobody_has, {"another function"}, 0),
        (an_argument_more, {"an argument"}, 1),
        (what_is_no_json, {"an argument"}, 0),
    ],
)
async def test_who_spoils_the_calls_is_right_in_none_and_the_report_says_what_was_wrong(tmp_path, spoil, fault, valid):
    found = await ran(ReplayingModel(spoil=spoil), tmp_path, WITH_CALLS, 2)
    total = found.figures[-1]
    assert total.right.mean == 0
    assert set(total.faults) == fault
    assert total.selection.valid.value == valid
    for what in fault:
        assert f"| {what} |" in found.report.read_text()


async def test_a_call_where_no_function_fits_is_wrong_and_silence_is_right(tmp_path):
    eager = ReplayingModel(spoil=lambda case, calls: [(case.functions[0].name, {})])
    found = (await figures_of(eager, tmp_path, ["irrelevance"]))["irrelevance"]
    assert (found.right.mean, found.selection.no_tool.value, found.silent, found.first) == (0, 0, 1, 0)
    assert found.faults == {"a call where no function fits": 12}


async def test_what_half_of_the_questions_get_wrong_is_told_by_category_with_an_interval(tmp_path):
    def every_other(case, calls):
        return calls if int(case.item.id.rpartition("_")[2]) % 2 else []

    found = await figures_of(ReplayingModel(spoil=every_other), tmp_path, ["simple_python", "irrelevance"])
    right = found["simple_python"].right
    assert 0 < right.low < right.mean < right.high < 1
    assert right.scored_count == 12
    assert found["irrelevance"].right.mean == 1


async def test_a_question_that_fails_is_in_no_share_and_the_same_command_asks_it_alone_again(tmp_path):
    # The client tries each again several times; a refusal of what is asked is final at once.
    model = ReplayingModel(first=[400, 400])
    found = await ran(model, tmp_path, ["multiple"])
    assert (found.figures[0].failed_count, found.figures[0].right.scored_count) == (2, 10)
    assert found.figures[0].right.mean == 1
    assert all(reason == "http_400: no" for _, reason in found.failed)
    asked = len(model.requests)
    async with serving(model) as url:
        # Another port is another server: it may be another model.
        with pytest.raises(BrokenRun, match="another url"):
            await run(Wanted(Questions.read(SAMPLE, ["multiple"]), tmp_path, url, "", "m"))
    plan = json.loads((tmp_path / "run.json").read_text())["plan"]
    async with serving(model) as url:
        plan["url"] = url
        manifest = json.loads((tmp_path / "run.json").read_text()) | {"plan": plan}
        (tmp_path / "run.json").write_text(json.dumps(manifest))
        again = await run(Wanted(Questions.read(SAMPLE, ["multiple"]), tmp_path, url, "", "m"))
    assert len(model.requests) == asked + 2
    assert (again.failed, again.figures[0].right.scored_count) == ([], 12)


async def test_a_server_that_is_not_there_ends_the_run_after_the_first_eight_questions(tmp_path):
    wanted = Wanted(Questions.read(SAMPLE), tmp_path, "http://127.0.0.1:1/v1", "", "m", concurrency=2, retries=0)
    with pytest.raises(NobodyThere, match=r"first 8 questions failed, unreachable: APIConnectionError"):
        await run(wanted)
    assert 8 <= len(RunFolder.open(tmp_path).records()) < 12


async def test_a_server_that_refuses_all_questions_is_there(tmp_path):
    found = await ran(ReplayingModel(first=[400] * 12), tmp_path, ["multiple"])
    assert len(found.failed) == 12


async def test_a_run_with_longer_answers_is_another_one(tmp_path):
    async with serving(ReplayingModel()) as url:
        questions = Questions.read(SAMPLE, ["multiple"], 1)
        await run(Wanted(questions, tmp_path, url, "", "m"))
        with pytest.raises(BrokenRun, match="another max_tokens"):
            await run(Wanted(questions, tmp_path, url, "", "m", max_tokens=2048))


@pytest.mark.slow
async def test_the_command_says_in_one_line_that_nobody_is_there_and_exits_with_1(tmp_path):
    words = ["--model", "m", "--model-url", "http://127.0.0.1:1/v1", "--concurrency", "8", "--out", str(tmp_path)]
    done = await asyncio.to_thread(
        CliRunner().invoke, app, ["tools", "--bfcl", str(SAMPLE), *words], env={"COLUMNS": "200"}
    )
    assert (done.exit_code, "the first 8 questions failed" in " ".join(done.output.split())) == (1, True)


async def test_the_model_reads_the_whole_conversation_and_names_that_the_api_takes(tmp_path):
    model = ReplayingModel()
    await ran(model, tmp_path, ["simple_python", "live_irrelevance", "live_simple"])
    names = [one["function"]["name"] for body in model.requests for one in body["tools"]]
    assert all(name.replace("_", "").replace("-", "").isalnum() for name in names)
    assert {body["temperature"] for body in model.requests} == {0}
    roles = {one["role"] for body in model.requests for one in body["messages"]}
    assert roles >= {"user"}


@given(st.lists(st.text(min_size=1, max_size=90), unique=True, max_size=12))
def test_names_that_are_sent_are_taken_by_the_api_and_told_apart(names):
    sent = sendable(names)
    assert len(set(sent.values())) == len(names)
    for name in sent.values():
        assert 1 <= len(name) <= 64
        assert all(one.isascii() and (one.isalnum() or one in "_-") for one in name)


async def test_the_command_shows_a_table_and_exits_with_2_where_questions_failed(tmp_path):
    model = ReplayingModel(first=[400])
    words = ["tools", "--bfcl", str(SAMPLE), "--model", "m", "--category", "parallel", "--out", str(tmp_path / "run")]
    async with serving(model) as url:
        done = await asyncio.to_thread(
            CliRunner().invoke, app, [*words, "--model-url", url, "--json"], env={"COLUMNS": "200"}
        )
        assert done.exit_code == 2, done.output
        said = json.loads(done.stdout)
        assert [one["category"] for one in said["categories"]] == ["parallel", "all"]
        assert (said["categories"][0]["right"], said["categories"][0]["failed"]) == (1.0, 1)
        done = await asyncio.to_thread(CliRunner().invoke, app, [*words, "--model-url", url], env={"COLUMNS": "200"})
    assert done.exit_code == 0, done.output
    assert "parallel" in done.output


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--category", "nonsense"], "There is no category nonsense"),
        (["--model-url", "http://127.0.0.1:1/v1"], "needs a --model"),
        (["--model", "m", "--model-url", "http://[::1"], "`http://[::1` is no URL"),
        (["--model", "m", "--model-url", "localhost:8000/v1"], "no URL that can be asked"),
        (["--model", "m", "--model-url", "http://127.0.0.1:99999/v1"], "no URL that can be asked"),
    ],
)
def test_what_cannot_be_run_is_said(words, told):
    done = CliRunner().invoke(app, ["tools", "--bfcl", str(SAMPLE), *words], env={"COLUMNS": "200"})
    assert done.exit_code == 1
    assert told in " ".join(done.output.split())


def test_a_folder_without_the_leaderboards_files_is_said(tmp_path):
    done = CliRunner().invoke(app, ["tools", "--bfcl", str(tmp_path)], env={"COLUMNS": "200"})
    assert (done.exit_code, "has no file" in done.output) == (1, True)
