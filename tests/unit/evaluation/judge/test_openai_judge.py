"""The judge over HTTP, against a real server on loopback that answers by a script."""

import asyncio
import json
from contextlib import asynccontextmanager

import pytest

from services.evaluation.judge.budget import Budget
from services.evaluation.judge.judge import JudgeFailed, OverBudget
from services.evaluation.judge.openai_judge import OpenAIJudge
from services.evaluation.judge.prompts import Prompts
from tests.unit.evaluation.judge.judge_server import JudgeServer, listening

SCHEMA = {
    "type": "object",
    "properties": {"claims": {"type": "array", "items": {"type": "string"}}},
    "required": ["claims"],
    "additionalProperties": False,
}
FACTS = {"question": "¿Cuándo?", "text": "El 3 de mayo."}
GOOD = json.dumps({"claims": ["Fue el 3 de mayo."]})


@asynccontextmanager
async def judging(server, **options):
    async with listening(server) as url:
        judge = OpenAIJudge(url, "a-judge", Prompts.shipped(), **options)
        try:
            yield judge
        finally:
            await judge.close()


def ask(judge, task="claims", language="es", check=lambda _: ""):
    return judge.ask(task, language, FACTS, SCHEMA, check)


async def test_the_model_gets_the_prompt_in_the_language_of_the_question_the_facts_as_json_and_the_schema():
    server = JudgeServer(first=[GOOD])
    async with judging(server) as judge:
        assert await ask(judge) == {"claims": ["Fue el 3 de mayo."]}
    (sent,) = server.requests
    assert sent["messages"][0] == {"role": "system", "content": Prompts.shipped().text("claims", "es")}
    assert json.loads(sent["messages"][1]["content"]) == FACTS
    assert sent["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "claims", "schema": SCHEMA, "strict": True},
    }
    assert (sent["model"], sent["temperature"], sent["seed"]) == ("a-judge", 0, 7)


@pytest.mark.parametrize(
    "wrong", ["", "no", '{"claims": ["broken off', '{"claims": "x"}', '{"claims": [], "more": 1}', '{"claims": [NaN]}']
)
async def test_an_answer_that_does_not_fit_is_asked_for_once_more_and_told_why(wrong):
    server = JudgeServer(first=[wrong, GOOD])
    async with judging(server) as judge:
        assert await ask(judge) == json.loads(GOOD)
        assert (judge.usage.calls, judge.usage.repeated, judge.usage.failed) == (2, 1, 0)
    told = server.requests[1]["messages"]
    assert [one["role"] for one in told] == ["system", "user", "assistant", "user"]
    assert told[2]["content"] == wrong
    assert told[3]["content"].startswith("Tu respuesta no encaja: ")


async def test_what_the_check_complains_of_is_told_and_asked_for_once_more():
    server = JudgeServer(first=['{"claims": []}', GOOD])
    async with judging(server) as judge:
        found = await ask(judge, check=lambda answer: "" if answer["claims"] else "claim 1 is missing")
        assert found == json.loads(GOOD)
    assert "claim 1 is missing" in server.requests[1]["messages"][3]["content"]


async def test_two_answers_that_do_not_fit_are_a_failure_and_there_is_no_third_try():
    server = JudgeServer(first=["no", "no", GOOD])
    async with judging(server) as judge:
        with pytest.raises(JudgeFailed, match="nor did the second"):
            await ask(judge)
        assert (judge.usage.calls, judge.usage.repeated, judge.usage.failed) == (2, 1, 1)


@pytest.mark.parametrize("around", ["```json\n{}\n```", "<think>It is {{easy}}.</think>\n{}", "\n {} \n"])
async def test_what_models_put_around_json_is_no_fault(around):
    server = JudgeServer(first=[around.replace("{}", GOOD)])
    async with judging(server) as judge:
        assert await ask(judge) == json.loads(GOOD)
        assert judge.usage.repeated == 0


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_a_server_that_is_busy_is_tried_again_by_the_client_library(status):
    server = JudgeServer(first=[status, status, GOOD])
    async with judging(server) as judge:
        assert await ask(judge) == json.loads(GOOD)
        assert judge.usage.calls == 1
    assert len(server.requests) == 3


async def test_a_server_that_stays_down_is_a_failure_that_names_the_status():
    server = JudgeServer(first=[503] * 9)
    async with judging(server, retries=1) as judge:
        with pytest.raises(JudgeFailed, match="HTTP 503"):
            await ask(judge)
        assert judge.usage.failed == 1
    assert len(server.requests) == 2


@pytest.mark.parametrize("status", [400, 401, 404, 422])
async def test_a_request_that_is_refused_is_not_sent_again(status):
    server = JudgeServer(first=[status, GOOD])
    async with judging(server) as judge:
        with pytest.raises(JudgeFailed, match=f"HTTP {status}"):
            await ask(judge)
    assert len(server.requests) == 1


async def test_a_server_that_is_not_there_is_a_failure():
    async with listening(JudgeServer()) as url:
        pass
    judge = OpenAIJudge(url, "m", Prompts.shipped(), retries=0)
    with pytest.raises(JudgeFailed, match="did not answer"):
        await ask(judge)
    await judge.close()


async def test_a_server_that_falls_silent_is_a_failure():
    server = JudgeServer(first=[GOOD])
    server.gate.clear()
    budget = Budget()
    async with judging(server, retries=0, timeout_seconds=0.2, budget=budget, max_tokens=500) as judge:
        with pytest.raises(JudgeFailed, match="did not answer"):
            await ask(judge)
    # It may have written all of it.
    assert budget.tokens > 500


async def test_a_request_that_is_refused_uses_no_tokens():
    budget = Budget()
    async with judging(JudgeServer(first=[400]), budget=budget) as judge:
        with pytest.raises(JudgeFailed):
            await ask(judge)
    assert (budget.calls, budget.tokens) == (1, 0)


@pytest.mark.parametrize("body", [{}, [], {"choices": []}, {"choices": [{}]}, {"choices": None}])
async def test_what_is_no_completion_is_a_failure(body):
    async with judging(JudgeServer(first=[body])) as judge:
        with pytest.raises(JudgeFailed):
            await ask(judge)


async def test_tokens_are_counted_as_the_server_says_and_estimated_where_it_does_not():
    silent = {"choices": [{"index": 0, "message": {"role": "assistant", "content": GOOD}}]}
    async with judging(JudgeServer(first=[GOOD, silent])) as judge:
        await ask(judge)
        assert (judge.usage.prompt_tokens, judge.usage.completion_tokens) == (100, 10)
        await ask(judge)
        assert judge.usage.prompt_tokens > 300
        assert judge.usage.completion_tokens > 20


async def test_calls_beyond_the_budget_are_not_made():
    server = JudgeServer(first=[GOOD] * 9)
    async with judging(server, budget=Budget(max_calls=2)) as judge:
        await ask(judge)
        await ask(judge)
        with pytest.raises(OverBudget):
            await ask(judge)
    assert len(server.requests) == 2


async def test_the_budget_of_tokens_is_never_exceeded_however_many_ask_at_once():
    server = JudgeServer(answer=lambda task, facts: GOOD)
    budget = Budget(max_tokens=5_000)
    async with judging(server, budget=budget, max_tokens=500, concurrency=8) as judge:
        found = await asyncio.gather(*(ask(judge) for _ in range(60)), return_exceptions=True)
    assert any(isinstance(one, OverBudget) for one in found)
    assert {type(one) for one in found} <= {dict, OverBudget}
    assert budget.tokens == 110 * len(server.requests) <= 5_000


async def test_no_more_than_the_bound_are_under_way_at_once():
    server = JudgeServer(answer=lambda task, facts: GOOD)
    server.gate.clear()
    async with judging(server, concurrency=3) as judge:
        asked = [asyncio.create_task(ask(judge)) for _ in range(10)]
        async with asyncio.timeout(60):
            while server.at_once < 3:
                await asyncio.sleep(0.01)
        server.gate.set()
        await asyncio.gather(*asked)
    assert server.most_at_once == 3


async def test_failures_quote_neither_prompt_nor_answer():
    server = JudgeServer(first=["a secret answer", "a secret answer"])
    async with judging(server) as judge:
        with pytest.raises(JudgeFailed) as failed:
            await ask(judge)
    assert "secret" not in str(failed.value)
    assert "mayo" not in str(failed.value)
