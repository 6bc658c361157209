"""How an answer came about, and conversations that are kept, over HTTP in both of OpenAI's APIs."""

import json

import openai
import pytest
import pytest_asyncio

from tests.integration.gateway_stack import events_of, gateway_stack, key_of

pytestmark = pytest.mark.asyncio(loop_scope="module")

PLAN = {
    "revision": 1,
    "steps": [
        {"id": "s1", "question": "Which contracts?", "specialist": "documents", "depends_on": []},
        {"id": "s2", "question": "How much?", "specialist": None, "depends_on": ["s1"]},
    ],
}
SECOND_PLAN = {
    "revision": 2, "steps": [{"id": "s3", "question": "Where?", "specialist": None, "depends_on": []}]
}  # fmt: skip
CHOSEN = {"strategy": "plan", "reason": "two questions in one", "confidence": 0.75}
FINDING = {"kind": "number", "text": "48", "mark": 2, "reason": "it is nowhere in the evidence"}
SUSPICION = {
    "tool": "crm__find", "call_id": "b", "action": "redacted", "score": 0.5, "reason": "orders in a reply"
}  # fmt: skip


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stack(tmp_path_factory):
    async with gateway_stack(tmp_path_factory.mktemp("tenants"), tmp_path_factory.mktemp("web")) as stack:
        yield stack


@pytest_asyncio.fixture(loop_scope="module")
async def client(stack):
    async with openai.AsyncOpenAI(base_url=f"{stack.url}/v1", api_key=key_of("demo"), max_retries=0) as client:
        yield client


def without_outcome(plan):
    """The plan as it was made."""
    made = [{name: step[name] for name in step if name not in ("found", "reason")} for step in plan["steps"]]
    return {**plan, "steps": made}


async def test_an_answer_says_how_it_came_about(stack):
    told = (await stack.ask("plan it")).json()
    extras = told["sabueso"]
    first, second = extras["plans"]
    assert extras["plan"] == second
    assert [without_outcome(one) for one in (first, second)] == [PLAN, SECOND_PLAN]
    outcomes = [(one["id"], one["found"], one["reason"]) for plan in (first, second) for one in plan["steps"]]
    assert outcomes == [("s1", None, None), ("s2", False, "nothing was found"), ("s3", True, None)]
    assert extras["chosen"] == [CHOSEN]
    assert extras["findings"] == [FINDING]
    assert extras["suspicions"] == [SUSPICION]
    assert [(one["iteration"], one.get("step_id")) for one in extras["steps"]] == [(1, None), (2, "s1")]
    assert extras["checking"] == {"tokens": {"prompt": 20, "completion": 5}, "duration_ms": 40}
    (said,) = [one for one in told["choices"][0]["message"]["annotations"] if one["type"] == "tool_citation"]
    assert said["tool_citation"] == {
        "index": 4,
        "start_index": len(told["choices"][0]["message"]["content"]),
        "end_index": len(told["choices"][0]["message"]["content"]),
        "tool": "crm__find",
        "arguments": {"query": "Müller"},
        "quote": "One customer.",
    }


async def test_an_answer_without_any_of_it_says_so(stack):
    extras = (await stack.ask("¿Cuántos?")).json()["sabueso"]
    assert (extras["plan"], extras["plans"], extras["chosen"]) == (None, [], [])
    assert (extras["findings"], extras["suspicions"], extras["estimated_tokens"]) == ([], [], 0)
    assert "step_id" not in extras["steps"][0]


async def test_it_can_be_watched_as_it_happens(stack):
    response = await stack.ask("plan it", stream=True, sabueso={"include_steps": True})
    chunks = [one for one in events_of(response.text) if one != "[DONE]"]
    steps = [one["sabueso"]["step"] for one in chunks if "step" in one.get("sabueso", {})]
    assert [one["event"] for one in steps[:9]] == [
        "chosen", "plan", "step_finished", "plan", "step_finished", "thought", "tool_call_started", "suspicion",
        "finding",
    ]  # fmt: skip
    assert steps[0] == {"event": "chosen", **CHOSEN}
    assert steps[1] == {"event": "plan", **PLAN}
    assert steps[2] == {"event": "step_finished", "step_id": "s2", "found": False, "reason": "nothing was found"}
    assert steps[3:5] == [
        {"event": "plan", **SECOND_PLAN},
        {"event": "step_finished", "step_id": "s3", "found": True, "reason": None},
    ]
    assert steps[6]["step_id"] == "s1"
    assert steps[7:9] == [{"event": "suspicion", **SUSPICION}, {"event": "finding", **FINDING}]


async def test_the_responses_api_tells_the_same(stack, client):
    response = await client.responses.create(model="sabueso", input="plan it")
    assert [without_outcome(one) for one in response.sabueso["plans"]] == [PLAN, SECOND_PLAN]
    (said,) = [one for one in response.output[-1].content[0].annotations if one.index == 4]
    assert said.file_id == "crm__find"
    assert (said.type, said.index, said.tool_citation["quote"]) == ("file_citation", 4, "One customer.")


async def test_what_the_model_was_shown_is_told_where_that_is_asked_for(stack, client):
    told = (await stack.ask("¿Cuántos?", sabueso={"include_evidence": True})).json()["sabueso"]["evidence"]
    sql, document, web, other = told
    assert sql == {
        "mark": 1, "source": "sql", "title": "", "text": '{"columns": ["count"], "rows": [[47]]}',
        "statement": "SELECT count(*)", "score": None, "cited": True,
    }  # fmt: skip
    assert (document["document_id"], document["chunk_id"], document["text"]) == (
        "legal/contract:7",
        "c9",
        "A penalty of 2 %",
    )
    assert (web["url"], web["title"]) == ("https://example.org/cpi", "CPI")
    assert other == {
        "mark": 5, "source": "o.pdf", "title": "Other", "text": "Not cited", "document_id": "d9", "chunk_id": "c1",
        "score": 0.5, "cited": False,
    }  # fmt: skip
    extras = {"extra_body": {"sabueso": {"include_evidence": True}}}
    response = await client.responses.create(model="sabueso", input="¿Cuántos?", **extras)
    assert response.sabueso["evidence"] == told
    assert (await client.responses.retrieve(response.id)).sabueso["evidence"] == told
    streamed = await stack.ask("¿Cuántos?", stream=True, sabueso={"include_evidence": True})
    last = [one for one in events_of(streamed.text) if one != "[DONE]"][-1]
    assert last["sabueso"]["evidence"] == told
    assert "evidence" not in (await stack.ask("¿Cuántos?")).json()["sabueso"]


async def test_chat_can_belong_to_a_session_or_follow_an_answer(stack):
    await stack.ask("x", sabueso={"session_id": "s-1", "reflection": "mark"})
    options = stack.agent.requests[-1].options
    assert (options.session_id, options.reflection, options.store) == ("s-1", "mark", False)
    assert options.answer_id.startswith("ans_")
    await stack.ask("x", store=True, sabueso={"previous_answer_id": "ans_1"})
    options = stack.agent.requests[-1].options
    assert (options.previous_answer_id, options.store) == ("ans_1", True)
    await stack.ask("x", sabueso={"previous_answer_id": "resp_1"})
    assert stack.agent.requests[-1].options.previous_answer_id == "ans_1"  # the same answer, by its other name
    wrong = await stack.ask("x", sabueso={"session_id": "a b"})
    assert wrong.json()["error"]["param"] == "sabueso.session_id"


async def test_responses_follow_one_another_by_their_ids(stack, client):
    first = await client.responses.create(model="sabueso", input="x")
    assert (first.store, first.previous_response_id) == (True, None)
    assert stack.agent.requests[-1].options.answer_id == first.id.replace("resp_", "ans_")
    second = await client.responses.create(model="sabueso", input="y", previous_response_id=first.id)
    assert second.previous_response_id == first.id
    assert stack.agent.requests[-1].options.previous_answer_id == first.id.replace("resp_", "ans_")
    third = await client.responses.create(model="sabueso", input="y", conversation="conv_1", store=False)
    assert (third.conversation.id, third.store) == ("conv_1", False)
    assert stack.agent.requests[-1].options.session_id == "conv_1"


@pytest.mark.parametrize("stream", [False, True])
async def test_what_is_not_kept_cannot_be_followed(stack, client, stream):
    with pytest.raises(openai.NotFoundError) as refused:
        await client.responses.create(
            model="sabueso", input="go on", previous_response_id="resp_nowhere", stream=stream
        )
    assert (refused.value.code, refused.value.param) == ("previous_answer_not_found", "previous_response_id")
    lost = await stack.ask("go on", sabueso={"previous_answer_id": "ans_nowhere"}, stream=stream)
    assert lost.status_code == 404
    assert lost.json()["error"]["param"] == "sabueso.previous_answer_id"


async def test_conversations_can_be_deleted_by_their_own_caller(stack, client):
    await client.responses.delete("resp_7")
    assert stack.agent.requests[-1].answer_id == "ans_7"
    await client.conversations.delete("conv_1")
    assert stack.agent.requests[-1].session_id == "conv_1"
    gone = await stack.http.delete("/v1/conversations", headers=stack.headers())
    assert gone.json() == {"object": "conversation.deleted", "deleted": True, "answer_count": 2}
    assert stack.agent.requests[-1].everything
    identity, _ = stack.agent.callers[-1]
    assert (identity.tenant, identity.principal) == ("demo", "all")
    unknown = await stack.http.delete("/v1/conversations/nowhere", headers=stack.headers())
    assert (unknown.status_code, unknown.json()["error"]["code"]) == (404, "not_found")
    lacking = await stack.http.delete("/v1/conversations", headers=stack.headers(key="reader"))
    assert lacking.status_code == 403
    odd = await stack.http.delete("/v1/conversations/a%20b", headers=stack.headers())
    assert odd.status_code == 400


async def test_server_timing_repeats_the_timings(stack):
    answer = await stack.ask("x")
    timings = answer.json()["sabueso"]["timings_ms"]
    said = dict(one.split(";dur=") for one in answer.headers["server-timing"].split(", "))
    assert {name: float(ms) for name, ms in said.items()} == timings
    assert timings.pop("gateway") >= 0
    assert timings == {"model": 300, "tools": 12.5, "cache": 1, "overhead": 4, "total": 317.5}
    assert json.loads(answer.text)["usage"]["total_tokens"] == 150


async def test_an_answers_id_is_good_for_feedback(stack):
    answer = (await stack.ask("call it ans-77")).json()["sabueso"]["answer_id"]
    kept = await stack.http.post("/v1/feedback", json={"answer_id": answer, "rating": "up"}, headers=stack.headers())
    assert (kept.status_code, kept.json()["answer_id"]) == (201, "ans-77")
