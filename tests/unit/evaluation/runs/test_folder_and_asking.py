"""A run's folder, and the loop that fills it."""

import asyncio
import json
from dataclasses import replace

import pytest

from services.evaluation.runs.asking import ask_all
from services.evaluation.runs.folder import ANSWERS, BrokenRun, Manifest, RunFolder
from services.evaluation.runs.record import (
    Scored,
    read_record,
    read_scored,
    read_selection,
    record_line,
    scored_line,
    selection_line,
)
from services.evaluation.runs.variant import Variant
from services.evaluation.score import Score, Status
from services.evaluation.tools.accuracy import NONE, OfTool, Selection, Share
from tests.unit.evaluation.runs.world import ITEMS, WARRANTY, TableStack, record, right

VARIANTS = [Variant("agent"), Variant("rag")]


@pytest.fixture
def folder(tmp_path):
    return RunFolder.start(tmp_path / "run", Manifest("r1", "2026-01-01T00:00:00Z", {"seed": 7}))


def test_a_record_and_a_score_are_what_they_were_after_a_round_trip():
    kept = record(WARRANTY, right(WARRANTY))
    assert read_record(json.loads(json.dumps(record_line(kept)))) == kept
    failed = replace(kept, answered=None, failure="overloaded: later", cited=())
    assert read_record(json.loads(json.dumps(record_line(failed)))) == failed
    for score in (Score("m", 0.5, details={"claims": [1]}), Score("m", None, Status.NO_CLAIMS, "empty")):
        scored = Scored("i", "v", score)
        assert read_scored(json.loads(json.dumps(scored_line(scored)))) == scored


def test_figures_of_tool_selection_are_what_they_were_after_a_round_trip():
    kept = Selection(
        Share(1, 2), valid=Share(3, 3), tools={"a": OfTool(1, 2, 1)}, confusion={("a", NONE): 1}, question_count=2
    )
    assert read_selection(json.loads(json.dumps(selection_line(kept)))) == kept


async def test_every_question_is_put_to_every_variant_in_a_fixed_order(folder):
    stack = TableStack()
    records = await ask_all(ITEMS, VARIANTS, stack, folder, concurrency=3)
    wanted = [(item.id, variant.name) for item in ITEMS for variant in VARIANTS]
    assert [one.key for one in records] == wanted
    assert stack.asked == wanted
    assert {one.key for one in folder.records()} == set(wanted)


async def test_no_more_questions_are_asked_at_a_time_than_was_said(folder):
    class Counting(TableStack):
        now = most = 0

        async def ask(self, item, variant):
            self.now += 1
            self.most = max(self.most, self.now)
            await asyncio.sleep(0)
            self.now -= 1
            return await super().ask(item, variant)

    stack = Counting()
    await ask_all(ITEMS, VARIANTS, stack, folder, concurrency=2)
    assert stack.most == 2


async def test_an_interrupted_run_goes_on_where_it_was(folder):
    hanging = asyncio.Event()

    class Hanging(TableStack):
        async def ask(self, item, variant):
            if len(self.asked) == 3:
                hanging.set()
                await asyncio.Event().wait()
            return await super().ask(item, variant)

    running = asyncio.create_task(ask_all(ITEMS, VARIANTS, Hanging(), folder, concurrency=1))
    await hanging.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert len(folder.records()) == 3
    later = TableStack()
    records = await ask_all(ITEMS, VARIANTS, later, RunFolder.open(folder.path), concurrency=1)
    assert len(later.asked) == len(ITEMS) * 2 - 3
    assert len(records) == len(ITEMS) * 2


async def test_a_question_that_failed_is_kept_and_asked_again_next_time(folder):
    records = await ask_all(ITEMS, VARIANTS[:1], TableStack(lambda item, _: "overloaded: later"), folder)
    assert [one.failure for one in records] == ["overloaded: later"] * len(ITEMS)
    again = TableStack()
    records = await ask_all(ITEMS, VARIANTS[:1], again, folder)
    assert len(again.asked) == len(ITEMS)
    assert all(one.answered is not None for one in records)
    assert len(folder.records()) == len(ITEMS)


async def test_a_line_that_a_killed_run_left_half_written_harms_no_other(folder):
    await ask_all(ITEMS[:2], VARIANTS[:1], TableStack(), folder)
    path = folder.path / ANSWERS
    path.write_bytes(path.read_bytes()[:-20])
    assert len(folder.records()) == 1
    records = await ask_all(ITEMS, VARIANTS[:1], TableStack(), folder)
    assert len(records) == len(ITEMS)
    assert len(folder.records()) == len(ITEMS)


def test_a_folder_with_another_run_is_refused_by_what_differs(folder):
    with pytest.raises(BrokenRun, match="another seed"):
        RunFolder.start(folder.path, Manifest("r2", "2026-01-02T00:00:00Z", {"seed": 8}))
    assert RunFolder.start(folder.path, Manifest("r2", "", {"seed": 7})).manifest.run_id == "r1"


def test_a_folder_without_a_run_says_so(tmp_path, folder):
    with pytest.raises(BrokenRun, match="holds no run"):
        RunFolder.open(tmp_path / "nothing")
    with pytest.raises(BrokenRun, match="not scored yet"):
        folder.scores()
