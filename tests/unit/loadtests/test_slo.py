import asyncio
import json
import time
from itertools import pairwise

import httpx2
import pytest

from loadtests.answers import StreamedAnswer, questions
from loadtests.measuring import NotMeasured
from loadtests.slo import Outcome, Scenario, Served, ask_once, gaps, offer, read_plan, table

BUDGETS = {"answer": 100.0, "first_event": 20.0}


def scenario(rate=50.0, **more):
    fields = {"name": "one", "questions": ("contracts-2024",), "strategy": "react", "turns": 2, "p95_ms": BUDGETS}
    return Scenario(**fields | {"arrivals_per_second": rate} | more)


def outcome(times, in_time_count=None, problems=(), **more):
    served = [Served(answer, answer / 10) for answer in times] + [Served(problem=problem) for problem in problems]
    planned_count = len(served)
    return Outcome(scenario(**more), planned_count, planned_count if in_time_count is None else in_time_count, served)


def answers_after(seconds):
    async def ask(question):
        answer = StreamedAnswer(time.perf_counter())
        await asyncio.sleep(seconds)
        answer.first_event = time.perf_counter()
        return answer

    return ask


def test_a_budget_holds_when_one_answer_in_twenty_is_late():
    assert outcome([50.0] * 19 + [900.0]).broken() == []
    assert outcome([50.0] * 18 + [900.0, 800.0]).broken() == [
        "p95 of answer is 800 ms, over its 100 ms",
        "p95 of first_event is 80 ms, over its 20 ms",
    ]


def test_one_failure_breaks_it_whatever_the_times():
    assert outcome([50.0] * 99, problems=["status 503"]).broken() == ["1 of 100 failed: status 503"]


def test_no_answer_at_all_breaks_every_budget():
    found = outcome([], problems=["no answer"]).broken()
    assert len(found) == 3
    assert "inf" in table([outcome([], problems=["no answer"])])


def test_the_table_says_when_the_rate_was_not_reached():
    assert "planned rate" not in table([outcome([50.0] * 100, in_time_count=98)])
    assert "only 97% of the planned rate" in table([outcome([50.0] * 100, in_time_count=97)])


def test_the_table_has_a_line_a_budget_and_names_what_is_broken():
    lines = table([outcome([50.0] * 10 + [500.0] * 10)]).splitlines()
    assert [line.split()[1] for line in lines[1:3]] == ["answer", "first_event"]
    assert lines[1].split()[2:5] == ["50", "500", "100"]
    assert sum(line.startswith("✗") for line in lines) == 2


def test_a_median_can_be_measured_by_that_of_another_scenario():
    other = outcome([80.0] * 20, name="uncached")
    by_name = {"uncached": other}
    fast, slow = (outcome([time] * 20, median={"of": "uncached", "times": 0.8}) for time in (60.0, 70.0))
    assert fast.broken(by_name) == []
    assert slow.broken(by_name) == ["its median is 70 ms, over 0.8 × the 80 ms of uncached"]
    assert slow.broken() == []  # the other was not measured
    assert "over 0.8" in table([other, slow])


async def test_an_answer_that_came_about_in_another_way_is_not_what_is_measured():
    (question,) = questions("contracts-2024")
    asked = []

    async def app(scope, receive, send):
        asked.append(json.loads((await receive())["body"]))
        told = [
            {"choices": [{"delta": {"content": "60 [1]."}}]},
            {"choices": [{"delta": {}}], "sabueso": {"finish": "answered", "iterations": 1}},
        ]
        body = "".join(f"data: {json.dumps(one)}\n\n" for one in told) + "data: [DONE]\n\n"
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": body.encode()})

    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://here") as http:
        answer = await ask_once(http, scenario(strategy="router", turns=1, cache="use"), question)
        assert answer.summary["iterations"] == 1
        assert asked[0]["sabueso"] == {"cache": "use", "include_steps": True, "strategy": "router"}
        with pytest.raises(NotMeasured, match="it took 1 turns of the model, not 2"):
            await ask_once(http, scenario(), question)


def test_arrivals_are_at_random_gaps_with_the_planned_rate_and_the_same_each_time():
    due = gaps(50, 60)
    assert due == gaps(50, 60)
    assert due == sorted(due)
    assert due[-1] < 60
    assert 0.9 < len(due) / 3000 < 1.1
    steps = [b - a for a, b in pairwise(due)]
    assert min(steps) < 0.002 < 0.08 < max(steps)


async def test_arrivals_do_not_wait_for_answers():
    began = time.perf_counter()
    found = await offer(scenario(), 0.4, answers_after(0.3))
    assert time.perf_counter() - began < 20
    assert len(found.served) == found.planned_count == len(gaps(50, 0.4))
    assert all(290 < one.answer < 1500 for one in found.served)


async def test_a_time_counts_from_when_the_question_was_due():
    line = asyncio.Lock()

    async def one_at_a_time(question):
        async with line:
            return await answers_after(0.05)(question)

    found = await offer(scenario(rate=60.0), 0.5, one_at_a_time)
    assert max(one.answer for one in found.served) > 500
    assert found.achieved() < 0.98
    assert found.broken()


async def test_a_wrong_answer_is_counted_and_named():
    async def wrong(question):
        raise NotMeasured("contracts-2024: the answer does not say 60")

    found = await offer(scenario(), 0.2, wrong)
    assert found.broken()[-1] == (
        f"{found.planned_count} of {found.planned_count} failed: contracts-2024: the answer does not say 60"
    )


def test_the_plan_in_the_repository_can_be_read():
    plan = read_plan()
    assert plan.profile == "h100-tp4"
    assert {what for one in plan.scenarios for what in one.p95_ms} == {"answer", "first_event"}
    assert sum(plan.seconds for _ in plan.scenarios) <= 120
    names = {one.name for one in plan.scenarios}
    assert len(names) == len(plan.scenarios)
    assert {one.median.of for one in plan.scenarios if one.median} <= names
    for one in plan.scenarios:
        assert questions(*one.questions)
