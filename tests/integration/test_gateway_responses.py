"""POST /v1/responses with the stock client, and as it is on the wire."""

import asyncio
import json

import openai
import pytest
import pytest_asyncio
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter
from starlette.applications import Starlette
from starlette.responses import JSONResponse, StreamingResponse
from starlette.routing import Route

from services.gateway.pools.pool import pool_at
from tests.integration.gateway_stack import gateway_stack, key_of, serving

pytestmark = pytest.mark.asyncio(loop_scope="module")

ANSWER = "Firmamos 47 contratos [1]. Penalización del 2 % [2][3]."


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stack(tmp_path_factory):
    async with gateway_stack(tmp_path_factory.mktemp("tenants"), tmp_path_factory.mktemp("web")) as stack:
        yield stack


@pytest_asyncio.fixture(loop_scope="module")
async def client(stack):
    async with openai.AsyncOpenAI(base_url=f"{stack.url}/v1", api_key=key_of("demo"), max_retries=0) as client:
        yield client


async def post(stack, tenant="demo", **fields):
    body = {"model": "sabueso", "input": "¿Cuántos contratos?", **fields}
    return await stack.http.post("/v1/responses", json=body, headers=stack.headers(tenant))


def events_of(text):
    events = []
    for block in text.strip().split("\n\n"):
        if block.startswith(":"):
            continue
        name, data = block.split("\n")
        events.append(json.loads(data.removeprefix("data: ")))
        assert name == f"event: {events[-1]['type']}"
    return events


async def test_the_stock_client_gets_a_cited_response(client):
    response = await client.responses.create(
        model="sabueso", input="¿Cuántos contratos?", instructions="Be brief.", metadata={"case": "7"}, store=False
    )
    assert response.output_text == ANSWER
    assert (response.status, response.metadata, response.instructions) == ("completed", {"case": "7"}, "Be brief.")
    call, message = response.output
    assert (call.type, call.name, call.status, call.output) == ("mcp_call", "sql_query", "completed", "1 row")
    assert json.loads(call.arguments) == {"query": "SELECT 1"}
    sql, file, url = message.content[0].annotations
    assert (sql.type, sql.file_id, sql.sql_citation["statement"]) == ("file_citation", "sql", "SELECT count(*)")
    assert (file.type, file.file_id, file.index) == ("file_citation", "legal/contract:7", 2)
    assert (url.type, ANSWER[url.start_index : url.end_index]) == ("url_citation", "[3]")
    assert (response.usage.input_tokens, response.usage.output_tokens, response.usage.total_tokens) == (120, 30, 150)
    assert response.sabueso["answer_id"] == "ans-1"


async def test_the_stock_client_streams_and_puts_the_same_response_together(client):
    kinds, texts, snapshot = [], [], ""
    async with client.responses.stream(model="sabueso", input="¿Cuántos contratos?") as stream:
        async for event in stream:
            kinds.append(event.type)
            if event.type == "response.output_text.delta":
                texts.append(event.delta)
                snapshot = event.snapshot
        final = await stream.get_final_response()
    assert "".join(texts) == snapshot == final.output_text == ANSWER
    assert kinds == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.mcp_call.in_progress",
        "response.mcp_call_arguments.delta",
        "response.mcp_call_arguments.done",
        "response.mcp_call.completed",
        "response.output_item.done",
        "response.output_item.added",
        "response.content_part.added",
        *["response.output_text.delta"] * 3,
        *["response.output_text.annotation.added"] * 3,
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ]
    assert [item.type for item in final.output] == ["mcp_call", "message"]


async def test_a_stream_ends_with_the_response_that_comes_without_it(stack):
    whole = (await post(stack)).json()
    streamed = await post(stack, stream=True)
    assert streamed.headers["content-type"] == "text/event-stream; charset=utf-8"
    events = events_of(streamed.text)
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    last = events[-1]["response"]
    for response in (whole, last):
        for item in response["output"]:
            del item["id"]
        for name in ("id", "created_at", "completed_at"):
            del response[name]
    assert last == whole
    assert "[DONE]" not in streamed.text


async def test_steps_are_events_that_the_stock_client_passes_over(stack, client):
    seen = []
    async with client.responses.stream(
        model="sabueso", input="¿Cuántos contratos?", extra_body={"sabueso": {"include_steps": True}}
    ) as stream:
        async for event in stream:
            if event.type == "sabueso.step":
                seen.append(event.step["event"])
        assert (await stream.get_final_response()).output_text == ANSWER
    assert seen == ["thought", "tool_call_started", "tool_call_finished", "degraded"]


async def test_a_conversation_goes_on_with_the_items_of_the_response(stack, client):
    items = [{"role": "user", "content": "¿Cuántos contratos?"}]
    first = await client.responses.create(model="sabueso", input=items)
    items += [item.model_dump() for item in first.output]
    items.append({"role": "user", "content": "¿Y en 2024?"})
    await client.responses.create(model="sabueso", input=items)
    run = stack.agent.requests[-1]
    assert run.question == "¿Y en 2024?"
    assert [(turn.role, turn.text) for turn in run.history] == [("user", "¿Cuántos contratos?"), ("assistant", ANSWER)]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("question", "status", "code", "param"),
    [("refuse", 400, "invalid_field", "max_output_tokens"), ("model is down", 503, "dependency_failed", None)],
)
async def test_an_early_failure_has_its_own_status(stack, question, status, code, param, stream):
    response = await post(stack, input=question, stream=stream)
    error = response.json()["error"]
    assert (response.status_code, error["code"], error["param"]) == (status, code, param)


async def test_a_late_failure_raises_in_the_stock_client(stack, client):
    failed, error = events_of((await post(stack, input="fail half-way", stream=True)).text)[-2:]
    assert (failed["type"], failed["response"]["status"]) == ("response.failed", "failed")
    assert failed["response"]["output"][0]["status"] == "in_progress"
    assert error["code"] == "dependency_failed"
    stream = await client.responses.create(model="sabueso", input="fail half-way", stream=True)
    kinds = []

    async def read():
        async for event in stream:
            kinds.append(event.type)

    with pytest.raises(openai.APIError):
        await read()
    assert kinds[-1] == "response.failed"


async def test_refusals_name_the_parameter(stack, client):
    with pytest.raises(openai.BadRequestError) as refused:
        await client.responses.create(model="sabueso", input="x", background=True)
    assert (refused.value.code, refused.value.param) == ("unsupported_parameter", "background")
    nothing = await post(stack, input=[])
    assert nothing.json()["error"]["param"].startswith("input")
    body = {"model": "sabueso", "input": "x"}
    lacking = await stack.http.post("/v1/responses", json=body, headers=stack.headers(key="reader"))
    assert (lacking.status_code, lacking.json()["error"]["code"]) == (403, "insufficient_scope")


async def test_a_silent_run_shows_signs_of_life(stack):
    stack.agent.go_on.clear()
    body = {"model": "sabueso", "stream": True, "input": "wait"}
    async with stack.http.stream("POST", "/v1/responses", json=body, headers=stack.headers()) as response:
        lines = response.aiter_lines()
        assert await anext(lines) == "event: response.created"
        while await anext(lines) != ": keep-alive":
            pass
        stack.agent.go_on.set()
        rest = [line async for line in lines]
    assert rest.count("event: response.completed") == 1


async def test_a_client_who_hangs_up_ends_the_run(stack):
    stack.agent.cancelled.clear()
    body = {"model": "sabueso", "stream": True, "input": "hang"}
    async with stack.http.stream("POST", "/v1/responses", json=body, headers=stack.headers()) as response:
        await anext(response.aiter_lines())
    async with asyncio.timeout(20):
        await stack.agent.cancelled.wait()


async def test_a_model_that_nobody_serves_is_not_found(stack):
    response = await post(stack, model="nope")
    assert (response.status_code, response.json()["error"]["code"]) == (404, "model_not_found")


async def test_responses_and_events_are_valid_by_the_types_of_openais_client(stack):
    response = (await post(stack, instructions="x", metadata={"a": "b"}, temperature=0.5)).json()
    Response.model_validate(response)
    event_type = TypeAdapter(ResponseStreamEvent)
    for question in ("¿Cuántos contratos?", "fail half-way"):
        events = events_of((await post(stack, input=question, stream=True)).text)
        for event in events:
            event_type.validate_python(event)


# Other models

STREAM = (
    b'event: response.created\ndata: {"type":"response.created","response":{"id":"r"}}\n\n'
    b'event: response.output_text.delta\ndata: {"type":"response.output_text.delta","delta":"a\xc3\xb1o"}\n\n'
    b'event: response.completed\ndata: {"type":"response.completed","response":{"id":"r","usage":'
    b'{"input_tokens":5,"output_tokens":2,"total_tokens":7}}}\n\n'
)


async def served(request):
    body = await request.json()
    if body.get("stream"):
        return StreamingResponse(iter([STREAM[:50], STREAM[50:]]), media_type="text/event-stream")
    return JSONResponse({"id": "r", "object": "response", "asked": body, "usage": {"input_tokens": 5}})


async def test_another_models_responses_pass_through_untouched(tmp_path):
    upstream = Starlette(
        routes=[
            Route("/v1/models", lambda _: JSONResponse({"data": [{"id": "qwen"}]})),
            Route("/v1/responses", served, methods=["POST"]),
        ]
    )
    (tmp_path / "tenants").mkdir()
    async with (
        serving(upstream) as url,
        gateway_stack(tmp_path / "tenants", tmp_path, models=pool_at(f"{url}/v1")) as stack,
    ):
        asked = {"model": "qwen", "tools": [{"type": "web_search"}], "input": "x", "odd": {"z": 1.5}}
        whole = await stack.http.post("/v1/responses", json=asked, headers=stack.headers())
        assert (whole.status_code, whole.json()["asked"]) == (200, asked)
        streamed = await stack.http.post("/v1/responses", json={**asked, "stream": True}, headers=stack.headers())
        assert streamed.content == STREAM
