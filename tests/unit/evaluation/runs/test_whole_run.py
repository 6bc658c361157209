"""A run from the set to the report, against a gateway over HTTP."""

import asyncio
from dataclasses import replace

import pytest

from services.cli.evals_shown import facts
from services.evaluation.golden import lock, sets
from services.evaluation.golden.item import Stratum
from services.evaluation.report.thresholds import alarms, hidden
from services.evaluation.report.view import WorstAnswer, view_of
from services.evaluation.report.write import html, markdown, write
from services.evaluation.runs import command
from services.evaluation.runs.command import JudgeChoice, Wanted, WrongOrder
from services.evaluation.runs.gateway_asker import Stack, StackFailed
from services.evaluation.runs.store import MemoryRunStore, RunStatus
from services.evaluation.runs.variant import Variant
from services.evaluation.score import Mean
from tests.unit.evaluation.runs.gateway_server import (
    KEY,
    GatewayServer,
    agent_body,
    is_about_the_warranty,
    listening,
    refusal,
)
from tests.unit.evaluation.runs.world import ITEMS, golden

UNSAFE = '<img src=x onerror=alert(1)> & "quotes" | pipes'


def answer(question, options):
    if "canteen" in question:
        return agent_body("I do not know.", finish="refused", evidence=())
    if "morning" in question:
        return agent_body("Hello!", evidence=())
    if is_about_the_warranty(question):
        return agent_body(f"The warranty runs for 24 months [1]. {UNSAFE}.")
    return agent_body("It is blue.")


@pytest.fixture
def small(tmp_path):
    folder = tmp_path / "small"
    set_ = golden()
    sets.write_about(folder, set_.about)
    sets.write_half(folder, "dev", [one for one in ITEMS if one.family == ""])
    sets.write_half(folder, "test", [one for one in ITEMS if one.family])
    lock.lock(folder)
    return folder


@pytest.fixture
def whole(tmp_path):
    folder = tmp_path / "whole"
    sets.write_about(folder, golden().about)
    sets.write_half(folder, "dev", ITEMS)
    return folder


def wanted(golden_folder, tmp_path, url, **changes):
    return replace(Wanted(golden_folder, tmp_path / "run", Stack(url, KEY), command="the command"), **changes)


async def test_a_run_measures_what_needs_no_judge_and_says_what_is_not_measured(whole, tmp_path):
    async with listening(GatewayServer(answer)) as url:
        found = await command.run(wanted(whole, tmp_path, url))
    means = found.summary.of("agent").means
    assert means["refusal_accuracy"].mean == 1
    assert means["reference_facts"].mean == 0.5
    assert means["tool_selection_accuracy"].mean == 1
    assert means["no_tool_accuracy"].mean == 1
    assert means["recall@10"].mean == 1
    assert "faithfulness" not in means
    assert found.folder.manifest.scoring["not_measured"]["faithfulness"] == "no judge is set"
    assert [one.variant for one in found.summary.variants] == [
        *("agent", "constant answer", "no retrieval", "single-shot RAG"),
    ]
    assert found.summary.of("no retrieval").means["refusal_accuracy"].mean == pytest.approx(1 / 3)
    assert found.tools.descriptions == {"vector_search": "Searches documents."}


async def test_a_report_shows_what_choosing_tools_without_looking_would_score(whole, tmp_path):
    async with listening(GatewayServer(answer)) as url:
        found = await command.run(wanted(whole, tmp_path, url, with_baselines=False))
    shares = {name: (one.accuracy.value, one.no_tool.value) for name, one in found.tools.trivial.items()}
    assert shares["always vector_search"] == (1, 0)
    assert shares["no tool"] == (0, 1)
    for written in (html(view_of(found)), markdown(view_of(found))):
        assert "always vector_search" in written


def test_what_is_expected_is_a_refusal_only_where_nothing_answers():
    asked = replace(ITEMS[0], reference=None)
    hello = replace(asked, stratum=Stratum.NO_TOOL, calls=())
    found = [WorstAnswer(one, 0, "", "", {}, [], [], [], []).expected for one in (ITEMS[0], ITEMS[2], asked, hello)]
    assert found == [
        "The warranty runs for 24 months.",
        "a refusal",
        "vector_search; the set does not say which text",
        "no tool; the set does not say which text",
    ]


async def test_with_a_stand_in_for_the_judge_the_whole_path_runs_and_every_report_names_it(whole, tmp_path):
    async with listening(GatewayServer(answer)) as url:
        found = await command.run(wanted(whole, tmp_path, url, judge=JudgeChoice("lexical"), noise=1))
    assert found.judge == "lexical-stand-in"
    assert (
        {"claims.en", "support.es"}
        <= found.prompts.keys()
        == found.current.prompts.keys()
        == found.origin.prompts.keys()
    )
    assert {"faithfulness", "answer_relevance", "context_recall", "noise_sensitivity"} <= set(found.summary.metrics)
    page, text = html(view_of(found)), markdown(view_of(found))
    for written in (page, text):
        assert "not figures of a judge" in " ".join(written.split())


@pytest.mark.parametrize("reviewed", [1, len(ITEMS)])
async def test_every_report_says_how_many_questions_a_person_has_reviewed(tmp_path, reviewed):
    items = [replace(one, reviewer="ana" * (place < reviewed)) for place, one in enumerate(ITEMS)]
    folder = tmp_path / "set"
    sets.write_about(folder, golden().about)
    sets.write_half(folder, "dev", items)
    async with listening(GatewayServer(answer)) as url:
        found = await command.run(wanted(folder, tmp_path, url, with_baselines=False))
    for form in (html, markdown):
        written = " ".join(form(view_of(found)).split())
        assert f"{reviewed} of 4 questions by a person" in written
        assert ("Nobody has reviewed" in written) == (reviewed < 4)
    assert facts(found)["questions"] == {"count": 4, "reviewed": reviewed}


async def test_a_report_shows_texts_and_never_renders_them(whole, tmp_path):
    async with listening(GatewayServer(answer)) as url:
        found = await command.run(wanted(whole, tmp_path, url, with_baselines=False))
    paths = write(view_of(found), found.folder.path)
    page, text = (path.read_text(encoding="utf-8") for path in paths)
    assert "<img" not in page
    assert "&lt;img" in page
    assert "http" not in page.split("</head>")[0].replace('http-equiv="', "")
    assert "default-src &#39;none&#39;" not in page
    assert "default-src 'none'" in page
    assert "How long is the warranty?" in text or "¿Cuánto dura la garantía?" in text


async def test_a_run_that_is_kept_is_opened_with_the_same_figures(whole, tmp_path):
    async with listening(GatewayServer(answer)) as url:
        found = await command.run(wanted(whole, tmp_path, url))
    again = command.opened(found.folder.path, whole)
    assert markdown(view_of(again)) == markdown(view_of(found))
    assert again.current == found.current
    assert again.origin == found.origin


async def test_a_run_that_is_called_again_asks_nothing_twice(whole, tmp_path):
    server = GatewayServer(answer)
    async with listening(server) as url:
        await command.run(wanted(whole, tmp_path, url))
        count = len(server.bodies)
        await command.run(wanted(whole, tmp_path, url))
    assert len(server.bodies) == count


async def test_a_test_half_is_read_for_a_reason_only_and_shows_no_single_question(small, tmp_path):
    async with listening(GatewayServer(answer)) as url:
        with pytest.raises(lock.ReadingRefused):
            await command.run(wanted(small, tmp_path, url, half="test"))
        found = await command.run(wanted(small, tmp_path, url, half="test", reason="release", reader="ana"))
    assert len(lock.readings(small)) == 1
    view = view_of(found)
    assert view.worst == []
    assert view.failures == []
    assert "warranty" not in markdown(view).replace("the warranty", "")


async def test_what_cannot_be_run_is_said_before_anything_is_asked(whole, tmp_path):
    server = GatewayServer(answer)
    async with listening(server) as url:
        for changes, error in (
            ({"variants": [Variant("a", key_variable="NO_SUCH_KEY")], "keys": {}}, WrongOrder),
            ({"judge": JudgeChoice("model")}, WrongOrder),
            ({"stack": Stack("http://127.0.0.1:1", KEY)}, StackFailed),
        ):
            with pytest.raises(error):
                await command.run(wanted(whole, tmp_path / error.__name__ / str(len(changes)), url, **changes))
    assert server.bodies == []


async def test_a_run_made_by_hand_is_kept_in_a_store_once(whole, tmp_path):
    async with listening(GatewayServer(answer)) as url:
        found = await command.run(wanted(whole, tmp_path, url))
    store = MemoryRunStore()
    for _ in range(2):
        await command.keep(store, "acme", found)
    (kept,) = await store.list_runs("acme", 10)
    assert (kept.status, kept.done_count, kept.wanted_count) == (RunStatus.DONE, 16, 16)
    measured = await store.measurements(kept.run_id)
    assert any(one.metric == "tool_selection_accuracy" and one.mean == 1 for one in measured)


async def test_a_run_that_went_on_is_kept_as_it_is_now(whole, tmp_path):
    server, store = GatewayServer(answer), MemoryRunStore()
    server.agent = lambda question, options: refusal(422, "broken", "broken today")
    async with listening(server) as url:
        await command.keep(store, "acme", await command.run(wanted(whole, tmp_path, url)))
        (before,) = await store.list_runs("acme", 10)
        server.agent = answer
        await command.keep(store, "acme", await command.run(wanted(whole, tmp_path, url)))
    (after,) = await store.list_runs("acme", 10)
    assert before.done_count < after.done_count == after.wanted_count
    measured = await store.measurements(after.run_id)
    assert any(one.metric == "tool_selection_accuracy" and one.mean == 1 for one in measured)


async def test_stopping_a_run_keeps_what_was_answered(whole, tmp_path):
    begun = asyncio.Event()

    def told(what, done, of):
        begun.set()

    async with listening(GatewayServer(answer)) as url:
        running = asyncio.create_task(command.run(wanted(whole, tmp_path, url, concurrency=1), told))
        await begun.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        found = await command.run(wanted(whole, tmp_path, url))
    assert len(found.records) == 16


def mean(value):
    return Mean("m", value, value - 0.01, value + 0.01, 10, {})


def test_the_three_failures_that_one_number_hides_are_told_apart():
    inventing = {"faithfulness": mean(0.6), "context_recall": mean(0.95), "context_precision": mean(0.9)}
    masked = {"faithfulness": mean(0.9), "context_recall": mean(0.5), "reference_facts": mean(0.9)}
    elsewhere = {"faithfulness": mean(0.95), "context_recall": mean(0.95), "answer_relevance": mean(0.5)}
    assert "invents" in hidden(inventing)[0]
    assert "knows them by itself" in hidden(masked)[0]
    assert "another question" in hidden(elsewhere)[0]
    assert hidden({"faithfulness": mean(0.95), "context_recall": mean(0.95), "answer_relevance": mean(0.9)}) == []


def test_a_broken_bound_says_what_to_look_at_and_whether_it_is_sure():
    found = alarms({"context_precision": mean(0.595), "noise_sensitivity": mean(0.3), "context_recall": mean(0.9)})
    assert [(one.metric, one.is_sure) for one in found] == [("context_precision", False), ("noise_sensitivity", True)]
    assert "reranker" in found[0].advice
