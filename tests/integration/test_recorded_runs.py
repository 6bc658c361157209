"""Whole runs as a real model once answered them, played back over the wire: what it wrote is read as it was then."""

import json
import re
from collections import Counter
from pathlib import Path

import pytest

from services.orchestrator.citing.reviewer import EvidenceReviewer
from services.orchestrator.events import CallFinished, CallStarted, Cited, Finish, Finished
from services.orchestrator.shield.tenant_shield import TenantShield
from services.runtime.tenants import GuardTools
from tests.record_replies import Player
from tests.recorded_runs import Case, noted, play, serving, unpacked
from tests.unit.orchestrator.agent_world import of, text_of

FILES = sorted(Path("tests/data/recorded").glob("*.jsonl"))
RUNS = [
    pytest.param(model, run, id=f"{model['name']}-{Case(**run['case']).name}")
    for file in FILES
    for model, *runs in [[json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]]
    for run in runs
]


async def played(model, run, **care):
    player = Player(run["turns"])
    async with serving(player.complete) as url:
        events = await play(Case(**run["case"]), url, model["name"], model["family"], **care)
    return events, player.asked


@pytest.mark.parametrize(("model", "run"), RUNS)
async def test_what_a_model_wrote_is_read_as_it_was_and_the_rules_of_the_loop_hold(model, run):
    events, asked = await played(model, run)
    assert noted(events) == {"events": run["events"], "text": run["text"]}
    assert len(asked) == len(run["turns"])
    for now, then in zip(asked, run["turns"], strict=True):
        roles = [one["role"] for one in then["request"]["messages"]]
        assert [one["role"] for one in now["messages"]] == roles
        assert ("response_format" in now) == ("form" in then["request"])
    calls_have_one_observation_each_and_budgets_are_kept(run, events, asked)


def calls_have_one_observation_each_and_budgets_are_kept(run, events, asked):
    started, ended = of(events, CallStarted), of(events, CallFinished)
    assert Counter(one.call_id for one in started) == Counter(one.call_id for one in ended)
    assert len(started) <= 12
    for request in asked:
        expected = []
        for message in request["messages"]:
            if message["role"] == "tool":
                assert message["tool_call_id"] == expected.pop(0)
            else:
                assert expected == []
                expected = [one["id"] for one in message.get("tool_calls", ())]
        assert expected == []
    read = [usage for turn in run["turns"] for usage in _usages(turn)]
    assert events[-1].usage.total == sum(one["total_tokens"] for one in read) <= 40_000
    assert events[-1].usage.estimated == 0


@pytest.mark.parametrize(("model", "run"), RUNS)
async def test_with_shield_and_review_there_is_one_answer_whose_marks_have_sources(model, run):
    reviewer = EvidenceReviewer()

    def shield(tools, question):
        return TenantShield("acme", GuardTools(), tools.toolset.tools, question)

    events, _ = await played(model, run, shield=shield, reviewer=reviewer)
    assert of(events, Finished) == events[-1:]
    assert text_of(events).strip()
    marks = {int(mark) for mark in re.findall(r"\[(\d+)\]", text_of(events))}
    assert marks == {one.mark for one in of(events, Cited)}


@pytest.mark.parametrize(
    ("model", "run"),
    [one for one in RUNS if "tools can be called" in one.values[1]["text"] or "no text" in one.values[1]["text"]],
)
async def test_what_a_model_only_repeats_of_what_it_was_told_is_no_answer(model, run):
    def shield(tools, question):
        return TenantShield("acme", GuardTools(), tools.toolset.tools, question)

    events, _ = await played(model, run, shield=shield)
    (end,) = of(events, Finished)
    assert end.finish is not Finish.ANSWERED
    assert text_of(events).strip()
    assert "no text" not in text_of(events)
    assert "tools can be called" not in text_of(events)


def test_recordings_say_where_they_come_from():
    assert FILES
    for file in FILES:
        about = json.loads(file.read_text(encoding="utf-8").splitlines()[0])
        assert {"model", "revision", "licence", "server", "recorded", "name", "family"} <= about.keys()


def _usages(turn):
    return [one["usage"] for one in unpacked(turn["reply"]) if one.get("usage")]
