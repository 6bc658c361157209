"""The gateway as its clients see it: real HTTP and gRPC on loopback, stock OpenAI client."""

import asyncio
import base64
import json
import os
import struct
import sys

import httpx2
import openai
import pytest
import pytest_asyncio

from local import ports
from sabueso.ingestion.v1 import ingestion_pb2
from sabueso.orchestrator.v1 import orchestrator_pb2 as orchestrator
from sabueso.retrieval.v1 import retrieval_pb2
from services.gateway.answer import Answer
from services.gateway.clients import DESCRIPTORS
from services.runtime import errors
from services.runtime.context import Identity
from services.runtime.tenants import SCOPES
from services.runtime.testing import SECRET, SIGNER
from tests.integration.gateway_stack import Pool, events_of, gateway_stack, key_of, write_tenants

pytestmark = pytest.mark.asyncio(loop_scope="module")

# For what merely has to happen, on a machine that may be busy.
PATIENCE_SECONDS = 60

ANSWER = "Firmamos 47 contratos [1]. Penalización del 2 % [2][3]."


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stack(tmp_path_factory):
    web = tmp_path_factory.mktemp("web")
    (web / "index.html").write_text("<!doctype html><title>sabueso</title>")
    (web / "app.js").write_text("export {}")
    async with gateway_stack(tmp_path_factory.mktemp("tenants"), web) as stack:
        yield stack


@pytest_asyncio.fixture(loop_scope="module")
async def client(stack):
    async with openai.AsyncOpenAI(base_url=f"{stack.url}/v1", api_key=key_of("demo"), max_retries=0) as client:
        yield client


def code_of(response):
    error = response.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    return response.status_code, error["code"]


# The agent


async def test_the_stock_client_gets_a_cited_answer(client):
    answer = await client.chat.completions.create(
        model="sabueso", messages=[{"role": "user", "content": "¿Cuántos contratos?"}]
    )
    message = answer.choices[0].message
    assert message.content == ANSWER
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage.total_tokens == 150
    assert [annotation.type for annotation in message.annotations] == ["sql_citation", "file_citation", "url_citation"]
    web = message.annotations[2].url_citation
    assert (web.url, ANSWER[web.start_index : web.end_index]) == ("https://example.org/cpi", "[3]")
    assert answer.sabueso["answer_id"] == "ans-1"


async def test_an_answer_says_what_was_done_and_how_long_it_took(stack):
    response = await stack.ask("¿Cuántos contratos?")
    said = response.json()["sabueso"]
    assert said["finish"] == "answered"
    assert said["degraded"] == [{"service": "reranking", "reason": "timeout"}]
    assert said["cache"] == {"mode": "use", "hits": 1, "oldest_age_s": 61.2}
    call = {"tool": "sql_query", "arguments": {"query": "SELECT 1"}, "status": "ok", "from_cache": True}
    call |= {"duration_ms": 12.5, "summary": "1 row", "cache": {"kind": "exact", "age_s": 61.2}}
    assert said["steps"] == [{"iteration": 1, "thought": "Count first.", "calls": [call]}]
    assert said["timings_ms"].pop("gateway") >= 0
    assert said["timings_ms"] == {"model": 300, "tools": 12.5, "cache": 1, "overhead": 4, "total": 317.5}
    assert response.headers["server-timing"].startswith("model;dur=300, tools;dur=12.5")


async def test_a_document_source_leads_to_its_chunks(stack):
    response = await stack.ask("¿Cuántos contratos?")
    source = response.json()["choices"][0]["message"]["annotations"][1]["file_citation"]
    assert source["quote"] == "A penalty of 2 %"
    chunks = await stack.get(source["url"])
    assert chunks.json()["document"]["document_id"] == "legal/contract:7"
    assert chunks.json()["data"][0]["text"] == "A penalty of 2 %"


async def test_the_conversation_and_the_options_reach_the_agent(stack):
    messages = [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": "Hello"},
        {"role": "assistant", "content": "Hi"},
        {"role": "user", "content": [{"type": "text", "text": "And "}, {"type": "text", "text": "now?"}]},
    ]
    extras = {"collections": ["legal"], "max_iterations": 3, "deadline_ms": 9000, "cache": "refresh"}
    body = {"model": "sabueso", "messages": messages, "max_tokens": 77, "temperature": 0.5, "sabueso": extras}
    response = await stack.http.post("/v1/chat/completions", json=body, headers=stack.headers())
    assert response.status_code == 200
    asked = stack.agent.requests[-1]
    assert asked.question == "And \nnow?"
    assert [(turn.role, turn.text) for turn in asked.history] == [
        ("system", "Be brief."),
        ("user", "Hello"),
        ("assistant", "Hi"),
    ]
    options = asked.options
    assert (options.max_iterations, options.max_output_tokens, options.temperature) == (3, 77, 0.5)
    assert options.cache == orchestrator.CACHE_MODE_REFRESH
    assert options.deadline.ToMilliseconds() == 9000
    identity, seconds_left = stack.agent.callers[-1]
    assert identity == Identity("demo", "all", SCOPES, ("*",))
    assert 9 < seconds_left < 12


async def test_the_stock_client_streams(client):
    stream = await client.chat.completions.create(
        model="sabueso",
        messages=[{"role": "user", "content": "¿Cuántos contratos?"}],
        stream=True,
        stream_options={"include_usage": True},
        extra_body={"sabueso": {"include_steps": True}},
    )
    chunks = [chunk async for chunk in stream]
    assert chunks[0].choices[0].delta.role == "assistant"
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == ANSWER
    assert [c.choices[0].finish_reason for c in chunks if c.choices and c.choices[0].finish_reason] == ["stop"]
    assert chunks[-1].choices == []
    assert chunks[-1].usage.total_tokens == 150


async def test_a_stream_has_its_pieces_in_order(stack):
    fields = {"stream": True, "stream_options": {"include_usage": True}, "sabueso": {"include_steps": True}}
    response = await stack.ask("¿Cuántos contratos?", **fields)
    assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert response.headers["x-accel-buffering"] == "no"
    *chunks, done = events_of(response.text)
    assert done == "[DONE]"
    steps = [chunk["sabueso"]["step"]["event"] for chunk in chunks if "step" in chunk.get("sabueso", {})]
    assert steps == ["thought", "tool_call_started", "tool_call_finished", "degraded"]
    annotated, finish, usage = chunks[-3:]
    assert annotated["choices"][0]["delta"]["annotations"] == annotated["sabueso"]["annotations"]
    assert finish["choices"][0]["finish_reason"] == "stop"
    assert finish["sabueso"]["timings_ms"]["total"] == 317.5
    assert usage["choices"] == []
    assert all(chunk["usage"] is None for chunk in chunks[:-1])
    assert len({chunk["id"] for chunk in chunks}) == 1


async def test_a_stream_without_extras_has_no_steps_and_no_usage(stack):
    response = await stack.ask("¿Cuántos contratos?", stream=True)
    *chunks, done = events_of(response.text)
    assert done == "[DONE]"
    assert not any("usage" in chunk or "step" in chunk.get("sabueso", {}) for chunk in chunks)


async def test_the_role_comes_before_the_model_answers_and_then_signs_of_life(stack):
    stack.agent.go_on.clear()
    body = {"model": "sabueso", "stream": True, "messages": [{"role": "user", "content": "wait"}]}
    async with stack.http.stream("POST", "/v1/chat/completions", json=body, headers=stack.headers()) as response:
        lines = response.aiter_lines()
        first = json.loads((await anext(lines)).removeprefix("data: "))
        assert first["choices"][0]["delta"]["role"] == "assistant"
        while await anext(lines) != ": keep-alive":
            pass
        stack.agent.go_on.set()
        rest = [line async for line in lines]
    assert rest.count("data: [DONE]") == 1


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("question", "status", "code", "param"),
    [
        ("refuse", 400, "invalid_field", "max_completion_tokens"),
        ("model is down", 503, "dependency_failed", None),
        ("bug", 500, "internal_error", None),
    ],
)
async def test_an_early_failure_has_its_own_status(stack, question, status, code, param, stream):
    response = await stack.ask(question, stream=stream)
    assert code_of(response) == (status, code)
    assert response.json()["error"]["param"] == param
    assert "postgres" not in response.text


@pytest.mark.parametrize("question", ["fail half-way", "stop half-way"])
async def test_a_late_failure_is_an_error_event_and_no_success(stack, client, question):
    response = await stack.ask(question, stream=True)
    events = events_of(response.text)
    assert events[-1]["error"]["code"] == "dependency_failed"
    assert "[DONE]" not in events
    assert not any(event["choices"][0]["finish_reason"] for event in events[:-1])
    stream = await client.chat.completions.create(
        model="sabueso", messages=[{"role": "user", "content": question}], stream=True
    )
    with pytest.raises(openai.APIError):
        [chunk async for chunk in stream]


async def test_a_run_that_stops_half_way_is_no_answer(stack):
    assert code_of(await stack.ask("stop half-way")) == (503, "dependency_failed")


@pytest.mark.parametrize("stream", [False, True])
async def test_a_client_who_hangs_up_ends_the_run_and_frees_its_place(stack, stream):
    stack.agent.started.clear()
    stack.agent.cancelled.clear()
    body = {"model": "sabueso", "stream": stream, "messages": [{"role": "user", "content": "hang"}]}
    begun = asyncio.Event()

    async def ask():
        sent = stack.http.stream("POST", "/v1/chat/completions", json=body, headers=stack.headers("single"))
        async with sent as response:
            async for _ in response.aiter_raw():
                begun.set()

    asking = asyncio.create_task(ask())
    await asyncio.wait_for((begun if stream else stack.agent.started).wait(), PATIENCE_SECONDS)
    asking.cancel()
    await asyncio.wait_for(stack.agent.cancelled.wait(), PATIENCE_SECONDS)
    # The tenant may have one request at a time.
    async with asyncio.timeout(PATIENCE_SECONDS):
        while (await stack.ask("¿Cuántos contratos?", tenant="single")).status_code != 200:
            await asyncio.sleep(0.05)


@pytest.mark.parametrize(
    ("fields", "code", "param"),
    [
        ({"sabueso": {"strategi": "react"}}, "invalid_field", "sabueso.strategi"),
        ({"sabueso": {"max_iterations": 11}}, "invalid_field", "sabueso.max_iterations"),
        ({"n": 2}, "invalid_field", "n"),
        ({"temperature": 3}, "invalid_field", "temperature"),
        ({"messages": []}, "invalid_field", "messages"),
        ({"messages": [{"role": "system", "content": "x"}]}, "invalid_field", "messages"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "unsupported_parameter", "messages.0.role"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]},
            "unsupported_parameter",
            "messages.0.content",
        ),
        ({"tools": [{"type": "function"}]}, "unsupported_parameter", "tools"),
        ({"logprobs": True}, "unsupported_parameter", "logprobs"),
        ({"response_format": {"type": "json_object"}}, "unsupported_parameter", "response_format"),
        ({"max_tokns": 5}, "unknown_parameter", "max_tokns"),
    ],
)
async def test_what_the_agent_does_not_do_is_refused_by_name(stack, fields, code, param):
    response = await stack.ask("¿Cuántos contratos?", **fields)
    assert code_of(response) == (400, code)
    assert response.json()["error"]["param"] == param


async def test_parameters_that_change_nothing_are_accepted(stack):
    idle = {"user": "u", "seed": 1, "top_p": 1, "tools": [], "tool_choice": "auto", "n": 1, "logprobs": None}
    assert (await stack.ask("¿Cuántos contratos?", **idle)).status_code == 200


# Keys, scopes, addresses


@pytest.mark.parametrize("header", [None, "Bearer", "Bearer wrong-key-canary", "Basic abc", "Bearer ñ"])
async def test_without_a_valid_key_nobody_comes_in(stack, header):
    headers = {} if header is None else {"authorization": header.encode()}
    response = await stack.http.get("/v1/models", headers=headers)
    assert code_of(response) == (401, "invalid_api_key")
    assert "canary" not in response.text
    assert response.headers["x-request-id"]


async def test_the_stock_client_understands_refusals(stack):
    async with openai.AsyncOpenAI(base_url=f"{stack.url}/v1", api_key="nobody", max_retries=0) as client:
        with pytest.raises(openai.AuthenticationError):
            await client.models.list()


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/v1/chat/completions", {"model": "sabueso", "messages": [{"role": "user", "content": "x"}]}),
        ("POST", "/v1/chat/completions", {"model": "mini-1", "messages": []}),
        ("POST", "/v1/embeddings", {"model": "small", "input": "x"}),
        ("POST", "/v1/rerank", {"query": "x", "documents": ["y"]}),
        ("GET", "/v1/documents", None),
        ("PUT", "/v1/collections/legal", {}),
    ],
)
async def test_a_key_without_the_scope_is_refused(stack, method, path, body):
    response = await stack.http.request(method, path, json=body, headers=stack.headers(key="reader"))
    assert code_of(response) == (403, "insufficient_scope")


async def test_an_unknown_address_and_a_wrong_method_have_the_same_shape(stack):
    assert code_of(await stack.get("/v1/nothing")) == (404, "unknown_url")
    response = await stack.http.post("/v1/nothing", headers=stack.headers())
    assert code_of(response) == (404, "unknown_url")
    response = await stack.get("/v1/chat/completions")
    assert code_of(response) == (405, "method_not_allowed")
    assert response.headers["allow"] == "POST"


async def test_a_sane_request_id_is_kept_and_another_is_replaced(stack):
    for given, kept in [("trace-12345678", True), ("x" * 500, False), ("a b c d e f g", False)]:
        response = await stack.http.get("/healthz", headers={"x-request-id": given})
        assert (response.headers["x-request-id"] == given) is kept


@pytest.mark.parametrize("body", [b"{", b"[1]", b"\xff\xfe", b'{"model": 3}', b"{}", b"", b"[" * 100_000])
async def test_a_chat_body_that_is_no_request_is_refused(stack, body):
    headers = {**stack.headers(), "content-type": "application/json"}
    response = await stack.http.post("/v1/chat/completions", content=body, headers=headers)
    assert response.status_code == 400
    assert response.json()["error"]["code"] in ("invalid_json", "missing_model")


async def test_bad_json_is_refused_where_fastapi_reads_it(stack):
    headers = {**stack.headers(), "content-type": "application/json"}
    response = await stack.http.post("/v1/search", content=b'{"query": ', headers=headers)
    assert code_of(response) == (400, "invalid_json")


# Limits


async def test_waiting_out_retry_after_succeeds(stack):
    for _ in range(500):
        response = await stack.get("/v1/usage", "sixty")
        if response.status_code == 429:
            break
        assert response.headers["x-ratelimit-limit-requests"] == "60"
    assert code_of(response) == (429, "rate_limit_exceeded")
    assert response.headers["retry-after"] == "1"
    assert response.headers["x-ratelimit-remaining-requests"] == "0"
    assert response.headers["x-ratelimit-reset-requests"]
    await asyncio.sleep(1)
    assert (await stack.get("/v1/usage", "sixty")).status_code == 200


async def test_every_kind_of_answer_carries_the_limit(stack):
    for response in [
        await stack.ask("¿Cuántos contratos?"),
        await stack.ask("¿Cuántos contratos?", stream=True),
        await stack.ask("bug"),
        await stack.get("/v1/nothing"),
        await stack.ask("x", temperature=9),
    ]:
        assert response.headers["x-ratelimit-limit-requests"] == "60000"
        assert 0 <= int(response.headers["x-ratelimit-remaining-requests"]) < 60_000


async def test_usage_says_what_is_left(stack):
    usage = (await stack.get("/v1/usage")).json()
    assert usage["tenant"] == "demo"
    asked = usage["requests_per_minute"]
    assert asked["limit"] == 60_000
    assert asked["used"] + asked["remaining"] == 60_000
    assert asked["used"] >= 0


async def test_a_second_request_at_the_same_time_is_refused(stack):
    stack.agent.started.clear()
    stack.agent.go_on.clear()
    first = asyncio.create_task(stack.ask("wait", tenant="single"))
    await asyncio.wait_for(stack.agent.started.wait(), PATIENCE_SECONDS)
    second = await stack.get("/v1/usage", "single")
    stack.agent.go_on.set()
    assert code_of(second) == (429, "concurrency_limit_exceeded")
    assert second.headers["retry-after"] == "1"
    assert (await first).status_code == 200
    # A client that has read an answer to its end may ask again at once.
    for _ in range(20):
        assert (await stack.get("/v1/usage", "single")).status_code == 200


@pytest.mark.parametrize("size", [1_990, 2_001, 300_000])
@pytest.mark.parametrize("announced", [True, False])
async def test_a_body_above_the_limit_is_refused_and_the_client_hears_why(stack, size, announced):
    body = json.dumps({"query": "x", "pad": ""}).encode()
    body = body[:-2] + b"y" * (size - len(body)) + b'"}'

    async def pieces():
        for start in range(0, len(body), 1000):
            yield body[start : start + 1000]

    headers = {**stack.headers("small"), "content-type": "application/json"}
    response = await stack.http.post("/v1/search", content=body if announced else pieces(), headers=headers)
    expected = (413, "request_too_large") if size > 2_000 else (400, "invalid_field")
    assert code_of(response) == expected


# Models behind the gateway


async def relay(stack, body=b'{"model":"mini-1","messages":[]}', tenant="demo", **headers):
    sent = {**stack.headers(tenant), "content-type": "application/json", **headers}
    return await stack.http.post("/v1/chat/completions", content=body, headers=sent)


async def test_a_model_gets_and_gives_the_very_bytes(stack):
    stack.pool.mode = "answer"
    body = '{ "model":"mini-1",\n "unknown": {"z":1.0, "a":1E5}, "messages":[{"content":"año"}] }'.encode()
    response = await relay(stack, body, **{"x-tenant-id": "other", "x-api-key": "k", "cookie": "c=1"})
    assert stack.pool.bodies[-1] == body
    assert response.content == b'{ "id" : "x",  "choices": [] }'
    assert response.headers["x-vllm"] == "1"
    assert response.headers["x-ratelimit-limit-requests"] == "60000"
    seen = stack.pool.headers[-1]
    assert seen["authorization"] == "Bearer pool-key"
    assert seen["x-request-id"] == response.headers["x-request-id"]
    assert not {"x-tenant-id", "x-api-key", "cookie"} & set(seen)
    assert key_of("demo") not in str(seen)


async def test_a_model_gets_the_clients_trace_where_we_trace_nothing(stack):
    stack.pool.mode = "answer"
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    await relay(stack, traceparent=trace)
    assert stack.pool.headers[-1]["traceparent"] == trace
    await relay(stack)
    assert "traceparent" not in stack.pool.headers[-1]


async def test_a_model_streams_byte_for_byte(stack):
    stack.pool.mode = "stream"
    response = await relay(stack)
    assert response.content == Pool.STREAM
    assert response.headers["content-type"].startswith("text/event-stream")


async def test_a_models_error_is_passed_on_but_not_its_limits(stack):
    stack.pool.mode = "overloaded"
    response = await relay(stack)
    assert code_of(response) == (429, "upstream_overloaded")
    assert response.headers["retry-after"] == "7"
    assert response.headers["x-ratelimit-limit-requests"] == "60000"


async def test_a_pool_that_refuses_our_key_is_not_the_clients_fault(stack):
    stack.pool.mode = "refuse us"
    assert code_of(await relay(stack)) == (503, "dependency_failed")


async def test_a_stream_that_breaks_off_ends_with_an_error_and_no_done(stack):
    stack.pool.mode = "truncated"
    response = await relay(stack)
    assert response.text.splitlines()[0] == 'data: {"choices":[{"delta":{"content":"half"}}]}'
    assert (
        json.loads(response.text.strip().splitlines()[-1].removeprefix("data: "))["error"]["code"]
        == "dependency_failed"
    )
    assert "[DONE]" not in response.text


async def test_a_client_who_hangs_up_frees_the_model(stack):
    stack.pool.mode = "hang"
    stack.pool.closed.clear()
    body = {"model": "mini-1", "messages": []}
    async with stack.http.stream("POST", "/v1/chat/completions", json=body, headers=stack.headers()) as response:
        await anext(response.aiter_raw())
    await asyncio.wait_for(stack.pool.closed.wait(), PATIENCE_SECONDS)


async def test_an_unknown_model_is_named_with_those_there_are(stack):
    for tenant, model, known in [("demo", "nope", "sabueso, mini-1, big-1"), ("narrow", "big-1", "sabueso, mini-1")]:
        response = await relay(stack, json.dumps({"model": model}).encode(), tenant)
        assert code_of(response) == (404, "model_not_found")
        assert response.json()["error"]["message"].endswith(f"You may call: {known}.")


async def test_a_second_model_cannot_hide_behind_the_first(stack):
    asked = len(stack.pool.bodies)
    response = await relay(stack, b'{"model":"big-1","messages":[],"mod\\u0065l":"mini-1"}', "narrow")
    assert code_of(response) == (400, "invalid_field")
    assert len(stack.pool.bodies) == asked


async def test_our_own_services_come_in_with_a_signed_identity(stack):
    stack.pool.mode = "answer"
    token = SIGNER.sign(Identity("sixty", "all", ("agent",)))
    before = (await stack.get("/v1/usage", "sixty")).headers["x-ratelimit-remaining-requests"]
    response = await relay(stack, authorization=f"Bearer {token}")
    assert response.status_code == 200
    assert "x-ratelimit-limit-requests" not in response.headers
    assert int((await stack.get("/v1/usage", "sixty")).headers["x-ratelimit-remaining-requests"]) >= int(before) - 1
    headers = {"authorization": f"Bearer {token}"}
    embedded = await stack.http.post("/v1/embeddings", json={"model": "small", "input": "x"}, headers=headers)
    assert embedded.status_code == 200
    assert code_of(await stack.http.get("/v1/models", headers=headers)) == (401, "invalid_api_key")
    agent = await relay(stack, b'{"model":"sabueso","messages":[]}', authorization=f"Bearer {token}")
    assert code_of(agent) == (403, "not_permitted")
    forged = await relay(stack, authorization=f"Bearer {token[:-3]}abc")
    assert code_of(forged) == (401, "invalid_api_key")


async def test_models_are_exactly_what_the_key_may_call(stack, client):
    assert [model.id async for model in await client.models.list()] == [
        "sabueso",
        "mini-1",
        "big-1",
        "small@1",
        "length@1",
    ]
    narrow = (await stack.get("/v1/models", "narrow")).json()["data"]
    assert [model["id"] for model in narrow] == ["sabueso", "mini-1", "small@1", "length@1"]
    assert (await stack.get("/v1/models", key="reader")).json()["data"] == []
    assert (await client.models.retrieve("mini-1")).id == "mini-1"
    assert code_of(await stack.get("/v1/models/nope")) == (404, "model_not_found")


# Embeddings, reranking, search


async def test_embeddings_for_the_stock_client(client):
    answer = await client.embeddings.create(model="small", input=["a", "año"])
    assert [pytest.approx(one.embedding) for one in answer.data] == [[1, 2, 0.1], [3, 2, 0.1]]
    assert answer.usage.total_tokens == 4


async def test_embeddings_in_both_forms_are_the_same(stack):
    body = {"model": "small", "input": "abc", "input_type": "query"}
    plain = (await stack.http.post("/v1/embeddings", json=body, headers=stack.headers())).json()
    body["encoding_format"] = "base64"
    packed = (await stack.http.post("/v1/embeddings", json=body, headers=stack.headers())).json()
    vector = struct.unpack("<3f", base64.b64decode(packed["data"][0]["embedding"]))
    assert list(vector) == plain["data"][0]["embedding"] == pytest.approx([3, 1, 0.1])


async def test_many_texts_are_embedded_in_order(stack):
    texts = ["x" * (1 + n % 300) for n in range(600)]
    answer = await stack.http.post("/v1/embeddings", json={"model": "small", "input": texts}, headers=stack.headers())
    data = answer.json()["data"]
    assert [(one["index"], one["embedding"][0]) for one in data] == [(n, len(text)) for n, text in enumerate(texts)]


@pytest.mark.parametrize(
    ("fields", "status", "param"),
    [
        ({"input": [1, 2]}, 400, "input"),
        ({"input": [[1, 2]]}, 400, "input"),
        ({"input": ""}, 400, "input"),
        ({"input": []}, 400, "input"),
        ({"input": ["x"] * 2049}, 400, "input"),
        ({"dimensions": 8}, 400, "dimensions"),
        ({"encoding_format": "hex"}, 400, "encoding_format"),
        ({"input_type": "title"}, 400, "input_type"),
        ({"model": "other"}, 404, "model"),
    ],
)
async def test_embeddings_refuse_what_they_cannot_do_by_name(stack, fields, status, param):
    body = {"model": "small", "input": "x", **fields}
    response = await stack.http.post("/v1/embeddings", json=body, headers=stack.headers())
    assert (response.status_code, response.json()["error"]["param"]) == (status, param)


@pytest.mark.parametrize(("top_n", "indices"), [(None, [1, 2, 0]), (1, [1]), (11, [1, 2, 0])])
async def test_rerank_answers_indices_best_first(stack, top_n, indices):
    body = {"query": "q", "documents": ["a", {"text": "aaa"}, "aa"], "top_n": top_n, "return_documents": True}
    response = await stack.http.post("/v1/rerank", json=body, headers=stack.headers())
    results = response.json()["results"]
    assert [result["index"] for result in results] == indices
    assert results[0]["document"] == {"text": "aaa"}
    assert results[0]["relevance_score"] == 3


async def test_rerank_refuses_zero_results(stack):
    body = {"query": "q", "documents": ["a"], "top_n": 0}
    response = await stack.http.post("/v1/rerank", json=body, headers=stack.headers())
    assert response.json()["error"]["param"] == "top_n"


async def test_search_passes_its_conditions_on(stack):
    body = {
        "query": "penalty",
        "collections": ["legal"],
        "top_k": 2,
        "mode": "dense",
        "rerank": False,
        "filter": {"metadata": {"year": "2025", "kind": ["a", "b"]}, "language": "en"},
    }
    response = await stack.http.post("/v1/search", json=body, headers=stack.headers(key="reader"))
    found = response.json()
    assert found["results"][0]["scores"] == {"dense": 0.25, "sparse": 0, "fused": 0, "rerank": 0}
    assert found["results"][0]["page"] is None
    assert found["stages"] == {"embed": 3.0}
    assert found["degraded"] == ["reranking"]
    asked = stack.library.searches[-1]
    assert (asked.top_k, asked.mode, asked.skip_rerank, asked.filter.language) == (2, 1, True, "en")
    assert [(one.key, list(one.any_of)) for one in asked.filter.conditions] == [
        ("year", ["2025"]),
        ("kind", ["a", "b"]),
    ]


# Documents and collections


async def upload(stack, files, tenant="demo", **fields):
    return await stack.http.post("/v1/documents", files=files, data=fields, headers=stack.headers(tenant))


async def test_a_file_is_handed_over_whole(stack):
    content = bytes(range(256)) * 5000
    response = await upload(
        stack,
        {"file": ("año.pdf", content, "application/pdf")},
        collection="legal",
        document_id="up/1",
        metadata='{"year": 2025, "draft": false}',
    )
    assert response.status_code == 202
    accepted = response.json()
    assert (accepted["document_id"], accepted["status"]) == ("up/1", "queued")
    header = stack.desk.headers[-1]
    assert (header.filename, header.content_type) == ("año.pdf", "application/pdf")
    assert dict(header.metadata) == {"year": "2025", "draft": "false"}
    assert stack.desk.contents[-1] == content


async def test_several_files_are_answered_one_by_one(stack):
    files = [("file", ("a.txt", b"A")), ("file", ("empty.txt", b"")), ("file", ("b.txt", b"B"))]
    response = await upload(stack, files, collection="legal")
    assert response.status_code == 202
    first, refused, third = response.json()["data"]
    assert (first["status"], third["status"]) == ("queued", "queued")
    assert (refused["filename"], refused["error"]["code"]) == ("empty.txt", "invalid_field")
    with_id = await upload(stack, files, collection="legal", document_id="one")
    assert with_id.json()["error"]["param"] == "document_id"


@pytest.mark.parametrize(
    ("files", "fields", "status", "param"),
    [
        ({"file": ("a.txt", b"A")}, {}, 400, "collection"),
        ({"file": ("a.txt", b"A")}, {"collection": "missing"}, 404, None),
        ({"file": ("a.txt", b"A")}, {"collection": "c", "metadata": "{"}, 400, "metadata"),
        ({"file": ("a.txt", b"A")}, {"collection": "c", "metadata": '{"a": {}}'}, 400, "metadata"),
        ({"file": ("a.txt", b"A")}, {"collection": "c", "colour": "red"}, 400, "colour"),
        ({"file": (None, b"A")}, {"collection": "c"}, 400, "file"),
    ],
)
async def test_an_upload_is_refused_by_name(stack, files, fields, status, param):
    response = await upload(stack, files, **fields)
    assert (response.status_code, response.json()["error"]["param"]) == (status, param)


async def test_text_and_pages_are_documents_too(stack):
    for fields in ({"text": "Hola", "title": "Saludo"}, {"url": "https://example.org/a.html"}):
        response = await stack.http.post("/v1/documents", json={"collection": "c", **fields}, headers=stack.headers())
        assert response.status_code == 202
    text, page = stack.desk.headers[-2:]
    assert (text.title, text.filename, stack.desk.contents[-2]) == ("Saludo", "Saludo.txt", b"Hola")
    assert (page.title, page.source, stack.desk.contents[-1]) == (
        "A page",
        "https://example.org/a.html",
        b"Text of the page",
    )


@pytest.mark.parametrize(
    ("fields", "status", "code"),
    [
        ({"url": "http://169.254.169.254/"}, 403, "not_permitted"),
        ({"url": "https://a.example", "text": "x"}, 400, "invalid_field"),
        ({}, 400, "invalid_field"),
        ({"text": "x", "labels": "[a"}, 400, "invalid_field"),
        ({"text": "x", "unknown": 1}, 400, "invalid_field"),
    ],
)
async def test_a_document_in_json_is_refused(stack, fields, status, code):
    response = await stack.http.post("/v1/documents", json={"collection": "c", **fields}, headers=stack.headers())
    assert code_of(response) == (status, code)


async def test_another_media_type_is_refused(stack):
    response = await stack.http.post("/v1/documents", content=b"x", headers=stack.headers())
    assert code_of(response) == (415, "unsupported_media_type")


async def test_documents_are_listed_with_their_state(stack):
    stack.library.documents["narrow"] = {
        name: type(stack.library.documents["demo"]["legal/contract:7"])(document_id=name, collection="c", chunk_count=3)
        for name in ("a", "b", "c")
    }
    for name, status in [("b", "FAILED"), ("new", "PARSING"), ("c", "READY"), ("gone", "READY"), ("x", "CANCELLED")]:
        accepted = (await upload(stack, {"file": ("f.txt", b"A")}, "narrow", collection="c", document_id=name)).json()
        stack.desk.jobs[accepted["job_id"]][1].status = getattr(ingestion_pb2, f"JOB_STATUS_{status}")
    seen, after = [], ""
    while after is not None:
        page = (await stack.get(f"/v1/documents?limit=2&after={after}", "narrow")).json()
        seen += [(document["id"], document["status"]) for document in page["data"]]
        after = page["after"]
    assert sorted(seen) == [("a", "ready"), ("b", "failed"), ("c", "ready"), ("new", "parsing")]
    assert (await stack.get("/v1/documents/new", "narrow")).json()["status"] == "parsing"
    assert (await stack.get("/v1/documents/a", "narrow")).json()["chunk_count"] == 3
    assert code_of(await stack.get("/v1/documents/gone", "narrow")) == (404, "not_found")
    assert code_of(await stack.get("/v1/documents/a", "demo")) == (404, "not_found")
    assert (await stack.get("/v1/documents?limit=0")).json()["error"]["param"] == "limit"


async def test_deleting_a_document_stops_what_is_coming_in(stack):
    accepted = (await upload(stack, {"file": ("f.txt", b"A")}, collection="c", document_id="going")).json()
    response = await stack.http.delete("/v1/documents/going", headers=stack.headers())
    assert response.json()["deleted"] is True
    assert stack.desk.jobs[accepted["job_id"]][1].status == ingestion_pb2.JOB_STATUS_CANCELLED
    again = await stack.http.delete("/v1/documents/going", headers=stack.headers())
    assert code_of(again) == (404, "not_found")


async def test_a_failed_document_can_be_deleted(stack):
    accepted = (await upload(stack, {"file": ("f.txt", b"A")}, collection="c", document_id="broken")).json()
    stack.desk.jobs[accepted["job_id"]][1].status = ingestion_pb2.JOB_STATUS_FAILED
    response = await stack.http.delete("/v1/documents/broken", headers=stack.headers())
    assert response.json()["deleted"] is True
    assert "broken" not in [one["id"] for one in (await stack.get("/v1/documents")).json()["data"]]


@pytest.mark.parametrize(
    ("key", "asked", "effective"),
    [
        ("all", None, ("*",)),
        ("all", ["hr", "*"], ("hr",)),
        ("all", [], ()),
        ("hr", None, ("hr", "staff")),
        ("hr", ["staff", "board"], ("staff",)),
        ("hr", ["*"], ()),
        ("reader", ["hr"], ()),
    ],
)
async def test_a_search_for_a_person_never_opens_more_than_the_key(stack, key, asked, effective):
    body = {"query": "penalty"} | ({} if asked is None else {"labels": asked})
    await stack.http.post("/v1/search", json=body, headers=stack.headers(key=key))
    assert stack.library.labels[-1] == effective


async def test_an_answer_can_be_for_a_person_too(stack):
    body = {"model": "sabueso", "messages": [{"role": "user", "content": "how many?"}], "sabueso": {"labels": ["hr"]}}
    await stack.http.post("/v1/chat/completions", json=body, headers=stack.headers())
    identity, _ = stack.agent.callers[-1]
    assert identity.labels == ("hr",)


async def test_an_answer_can_be_by_another_model_of_the_callers(stack):
    asked = {"model": "sabueso", "input": "¿Cuántos contratos?", "sabueso": {"model": "mini-1"}}
    for response in (
        await stack.ask("¿Cuántos contratos?", sabueso={"model": "big-1"}),
        await stack.http.post("/v1/responses", json=asked, headers=stack.headers()),
    ):
        assert response.status_code == 200
    assert [one.options.model for one in stack.agent.requests[-2:]] == ["big-1", "mini-1"]
    await stack.ask("¿Cuántos contratos?")
    assert stack.agent.requests[-1].options.model == ""


@pytest.mark.parametrize(
    ("tenant", "key", "model", "status", "code"),
    [
        ("narrow", "all", "big-1", 404, "model_not_found"),
        ("demo", "all", "sabueso", 404, "model_not_found"),
        ("demo", "asker", "big-1", 403, "insufficient_scope"),
    ],
)
async def test_an_answer_by_a_model_that_is_not_the_callers_is_refused(stack, tenant, key, model, status, code):
    before = len(stack.agent.requests)
    body = {"model": "sabueso", "messages": [{"role": "user", "content": "¿?"}], "sabueso": {"model": model}}
    response = await stack.http.post("/v1/chat/completions", json=body, headers=stack.headers(tenant, key))
    assert code_of(response) == (status, code)
    assert len(stack.agent.requests) == before


async def test_search_can_be_tuned(stack):
    body = {"query": "q", "fusion": "rrf", "score_threshold": 0.5, "diversity": 0.3, "max_per_document": 2}
    found = await stack.http.post("/v1/search", json={**body, "route": True}, headers=stack.headers())
    assert found.json()["routed"] == [{"name": "legal", "score": 0.5, "chosen": True}]
    asked = stack.library.searches[-1]
    assert (asked.fusion, asked.score_threshold, asked.max_per_document, asked.route) == (1, 0.5, 2, True)
    assert asked.diversity == pytest.approx(0.3)
    for field, value in (("fusion", "sum"), ("diversity", 2), ("max_per_document", -1), ("score_threshold", "x")):
        refused = await stack.http.post("/v1/search", json={"query": "q", field: value}, headers=stack.headers())
        assert (refused.status_code, refused.json()["error"]["param"]) == (400, field)


async def test_passages_of_a_document_come_in_pages(stack):
    first = (await stack.get("/v1/documents/legal%2Fcontract%3A7/chunks")).json()
    assert (first["has_more"], first["after"]) == (True, "next")
    last = (await stack.get("/v1/documents/legal%2Fcontract%3A7/chunks?after=next&limit=1")).json()
    assert (last["has_more"], last["after"]) == (False, None)
    assert (await stack.get("/v1/documents/legal%2Fcontract%3A7/chunks?limit=0")).status_code == 400


@pytest.mark.parametrize("labels", ["hr, board", '["hr","board"]'])
async def test_a_document_can_be_closed(stack, labels):
    files = {"file": ("a.txt", b"text", "text/plain")}
    await upload(stack, files, collection="c", labels=labels)
    assert list(stack.desk.headers[-1].labels) == ["hr", "board"]
    body = {"collection": "c", "text": "x", "labels": ["hr"]}
    await stack.http.post("/v1/documents", json=body, headers=stack.headers())
    assert list(stack.desk.headers[-1].labels) == ["hr"]


async def test_a_collection_has_its_settings(stack):
    chunking = {"strategy": "sentences", "max_tokens": 200, "overlap_tokens": 0, "parent_tokens": 800}
    body = {"chunking": chunking, "index": {"quantization": "scalar", "hnsw_m": 8}}
    made = (await stack.http.put("/v1/collections/cut", json=body, headers=stack.headers())).json()
    assert made["chunking"] == {**chunking, "min_tokens": 0}
    assert (made["index"]["quantization"], made["index"]["hnsw_m"]) == ("scalar", 8)
    # Another description leaves the index as it is.
    changed = (await stack.http.put("/v1/collections/cut", json={"description": "d"}, headers=stack.headers())).json()
    assert (changed["description"], changed["index"]["quantization"]) == ("d", "scalar")
    for body, param in (
        ({"chunking": {"strategy": "magic"}}, "chunking.strategy"),
        ({"index": {"hnsw_m": 65}}, "index.hnsw_m"),
    ):
        refused = await stack.http.put("/v1/collections/cut", json=body, headers=stack.headers())
        assert (refused.status_code, refused.json()["error"]["param"]) == (400, param)


async def test_collections_are_migrated(stack):
    begun = await stack.http.post("/v1/collections/legal/migrate", headers=stack.headers())
    assert (begun.status_code, begun.json()["migration"]["state"]) == (202, "running")
    assert begun.json()["migration"]["total_count"] == 7
    body = {"index": {"quantization": "binary"}}
    await stack.http.post("/v1/collections/legal/migrate", json=body, headers=stack.headers())
    assert stack.library.migrations[-1].index.quantization == 2
    stopped = await stack.http.delete("/v1/collections/legal/migrate", headers=stack.headers())
    assert stopped.json()["migration"]["state"] == "cancelled"


async def test_a_step_says_how_documents_were_searched():
    started = orchestrator.ToolCallStarted(iteration=1, call_id="a", tool="vector_search", arguments_json="{}")
    finished = orchestrator.ToolCallFinished(
        iteration=1, call_id="a", tool="vector_search", queries=["a", "b"], query_transform="decompose"
    )
    answer = Answer("use")
    answer.add(orchestrator.RunResponse(tool_call_started=started))
    answer.add(orchestrator.RunResponse(tool_call_finished=finished))
    (step,) = answer.completion()["sabueso"]["steps"]
    assert step["calls"][0]["queries"] == ["a", "b"]
    assert step["calls"][0]["query_transform"] == "decompose"


async def test_an_unknown_query_transform_is_refused_by_name(stack):
    body = {"model": "sabueso", "messages": [{"role": "user", "content": "x"}], "sabueso": {"query_transform": "guess"}}
    refused = await stack.http.post("/v1/chat/completions", json=body, headers=stack.headers())
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "sabueso.query_transform")


async def test_collections_come_and_go(stack):
    body = {"description": "Contracts", "language": "es"}
    made = await stack.http.put("/v1/collections/legal", json=body, headers=stack.headers())
    assert made.json()["description"] == "Contracts"
    names = [one["name"] for one in (await stack.get("/v1/collections")).json()["data"]]
    assert "legal" in names
    page = (await stack.get("/v1/collections?limit=1")).json()
    assert page["data"][0]["name"] == names[0]
    assert (await stack.get("/v1/collections/legal")).json()["language"] == "es"
    assert code_of(await stack.get("/v1/collections/nope")) == (404, "not_found")
    bad = await stack.http.put("/v1/collections/Bad%20Name", json={}, headers=stack.headers())
    assert (bad.status_code, bad.json()["error"]["param"]) == (400, "name")
    gone = await stack.http.delete("/v1/collections/legal", headers=stack.headers())
    assert gone.json() == {"name": "legal", "object": "collection", "deleted": True, "document_count": 2}


# What was answered before


async def test_what_goes_away_is_no_longer_answered_from(stack):
    stack.cache.forgotten.clear()
    stack.library.documents["demo"]["brief"] = retrieval_pb2.Document(document_id="brief", collection="legal")
    await stack.http.delete("/v1/documents/brief", headers=stack.headers())
    await stack.http.put("/v1/collections/legal", json={"description": "d"}, headers=stack.headers())
    await stack.http.delete("/v1/collections/legal", headers=stack.headers())
    assert stack.cache.forgotten == [
        ("demo", "vector_search", []),
        ("demo", "", ["collection:legal", "collection:*"]),
        ("demo", "", ["collection:legal", "collection:*"]),
    ]


async def test_nothing_is_forgotten_where_nothing_went_away(stack):
    stack.cache.forgotten.clear()
    assert (await stack.http.delete("/v1/documents/nope", headers=stack.headers())).status_code == 404
    assert (await stack.http.delete("/v1/collections/nope", headers=stack.headers())).status_code == 404
    assert stack.cache.forgotten == []


@pytest.mark.parametrize("error", [errors.DependencyFailed("Down."), RuntimeError("secret")])
async def test_a_lost_cache_keeps_no_document(stack, error):
    stack.library.documents["demo"]["brief"] = retrieval_pb2.Document(document_id="brief", collection="legal")
    stack.cache.failing = error
    response = await stack.http.delete("/v1/documents/brief", headers=stack.headers())
    stack.cache.failing = None
    assert response.json()["deleted"] is True


async def load(stack, key="loader", tenant="demo", **body):
    return await stack.http.post("/v1/data-loads", json=body, headers=stack.headers(tenant, key))


@pytest.mark.parametrize(
    ("body", "sources"),
    [
        ({"tables": ["public.contracts"]}, ["table:main/public.contracts"]),
        ({"tables": ["contracts", "public.contracts"]}, ["table:main/public.contracts"]),
        ({"source": "archive", "tables": ["old.contracts"]}, ["table:archive/old.contracts"]),
        ({"tables": "*"}, ["source:main"]),
        ({"source": "archive", "tables": "*"}, ["source:archive"]),
    ],
)
async def test_loaded_tables_are_answered_from_anew(stack, body, sources):
    stack.cache.forgotten.clear()
    response = await load(stack, **body)
    assert (response.status_code, response.content) == (204, b"")
    assert stack.cache.forgotten == [("demo", "", sources)]


@pytest.mark.parametrize(
    ("body", "param", "says"),
    [
        ({"tables": ["contracts", "payroll"]}, "tables.1", "there are: public.contracts."),
        ({"source": "archive", "tables": ["public.contracts"]}, "tables.0", "there are: old.contracts."),
        ({"source": "nope", "tables": "*"}, "source", "there are: main, archive."),
        ({"tables": []}, "tables", "at least 1"),
        ({"tables": "all"}, "tables", "or `*` for all"),
        ({}, "tables", "required"),
        ({"tables": "*", "table": "x"}, "table", "not permitted"),
    ],
)
async def test_a_load_of_what_there_is_not_is_refused_by_name(stack, body, param, says):
    stack.cache.forgotten.clear()
    response = await load(stack, **body)
    assert code_of(response) == (400, "invalid_field")
    assert response.json()["error"]["param"].startswith(param)
    assert says in response.json()["error"]["message"]
    assert stack.cache.forgotten == []


async def test_a_load_needs_a_database_and_a_key_of_its_own_scope(stack):
    assert code_of(await load(stack, key="all", tables="*")) == (403, "insufficient_scope")
    assert code_of(await load(stack, tenant="narrow", key="all", tables="*")) == (403, "insufficient_scope")


async def test_whoever_loads_data_learns_that_the_cache_is_lost(stack):
    stack.cache.failing = errors.DependencyFailed("The store does not answer.", dependency="store")
    response = await load(stack, tables="*")
    stack.cache.failing = None
    assert code_of(response) == (503, "dependency_failed")


# The page, health, metrics


async def test_the_page_is_served_with_guards(stack):
    page = await stack.http.get("/")
    assert page.headers["content-type"].startswith("text/html")
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'; script-src 'self'" in policy
    assert "require-trusted-types-for 'script'; trusted-types 'none'" in policy
    assert page.headers["cache-control"] == "no-cache"
    again = await stack.http.get("/", headers={"if-none-match": page.headers["etag"]})
    assert again.status_code == 304
    assert page.headers["x-content-type-options"] == "nosniff"
    script = await stack.http.get("/app.js")
    assert script.headers["content-type"].startswith("text/javascript")
    for path in ("/nothing.js", "/../conftest.py", "/%2e%2e/conftest.py"):
        assert (await stack.http.get(path)).status_code == 404


async def test_health_and_readiness(stack):
    assert (await stack.http.get("/healthz")).json() == {"status": "ok"}
    ready = await stack.http.get("/readyz")
    assert ready.status_code == 200
    assert set(ready.json()["services"].values()) == {"ok"}
    stack.readiness.draining = True
    assert (await stack.http.get("/readyz")).status_code == 503
    assert (await stack.http.get("/healthz")).status_code == 200
    stack.readiness.draining = False


async def test_metrics_have_no_labels_that_clients_invent(stack):
    for number in range(20):
        await stack.get(f"/v1/invented-{number}")
    text = (await stack.http.get("/metrics")).text
    assert 'sabueso_gateway_request_duration_seconds_count{route="/v1/chat/completions",status="200"}' in text
    assert "invented" not in text
    assert "demo" not in text


async def test_the_interface_is_described_and_loads_nothing_from_elsewhere(stack):
    described = (await stack.http.get("/openapi.json")).json()
    assert described["info"]["title"] == "sabueso"
    assert "/v1/chat/completions" in described["paths"]
    assert set(described["paths"]["/v1/data-loads"]["post"]["responses"]) >= {"204"}
    tables = described["components"]["schemas"]["DataLoadRequest"]["properties"]["tables"]
    assert [one["type"] for one in tables["anyOf"]] == ["array", "string"]
    assert (await stack.http.get("/docs")).status_code == 404


async def test_a_request_without_a_reader_ends_within_its_deadline(stack):
    stack.agent.go_on.clear()
    response = await stack.ask("wait", sabueso={"deadline_ms": 100})
    stack.agent.go_on.set()
    assert code_of(response) == (504, "deadline_exceeded")


# The process


async def start_process(stack, tenants_dir, valkey_url, **settings):
    port = ports.pick(1, ports.random_start())[0]
    environment = {f"SABUESO_{service.upper()}_ADDRESS": stack.grpc_address for service in DESCRIPTORS}
    environment |= {
        "SABUESO_HOST": "127.0.0.1",
        "SABUESO_PORT": str(port),
        "SABUESO_METRICS_PORT": "0",
        "SABUESO_IDENTITY_SECRET": SECRET,
        "SABUESO_TENANTS_DIR": str(tenants_dir),
        "SABUESO_VALKEY_URL": valkey_url,
        "SABUESO_MODEL_URL": "http://127.0.0.1:1/v1",
        **settings,
    }
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("SABUESO_")}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "services.gateway.server", env=inherited | environment, stderr=asyncio.subprocess.PIPE
    )
    return process, f"http://127.0.0.1:{port}"


async def until_draining_and_closed(url):
    """First the process says that it is going, then nobody new comes in."""
    states = []
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            try:
                async with httpx2.AsyncClient(trust_env=False, timeout=PATIENCE_SECONDS) as another:
                    states.append((await another.get(f"{url}/readyz")).json()["status"])
            except httpx2.TransportError:
                break
            await asyncio.sleep(0.05)
    assert states[-1] == "draining"


async def test_the_process_drains_when_it_is_told_to_end(stack, tmp_path, valkey_url):
    patient = {"SABUESO_SHUTDOWN_NOTICE_SECONDS": "3", "SABUESO_SHUTDOWN_GRACE_SECONDS": "60"}
    process, url = await start_process(stack, write_tenants(tmp_path), valkey_url, **patient)
    body = {"model": "sabueso", "stream": True, "messages": [{"role": "user", "content": "wait"}]}
    stack.agent.go_on.clear()
    stack.agent.started.clear()
    try:
        async with httpx2.AsyncClient(base_url=url, trust_env=False, headers=stack.headers(), timeout=60) as http:
            async with asyncio.timeout(60):
                while True:
                    try:
                        if (await http.get("/readyz")).status_code == 200:
                            break
                    except httpx2.ConnectError:
                        await asyncio.sleep(0.1)
            # The pool is down: what does not need it goes on.
            models = (await http.get("/v1/models")).json()["data"]
            assert [model["id"] for model in models] == ["sabueso", "small@1", "length@1"]
            lost = await http.post("/v1/chat/completions", json={"model": "mini-1", "messages": []})
            assert code_of(lost) == (503, "dependency_failed")
            async with http.stream("POST", "/v1/chat/completions", json=body) as response:
                await asyncio.wait_for(stack.agent.started.wait(), PATIENCE_SECONDS)
                process.terminate()
                await until_draining_and_closed(url)
                stack.agent.go_on.set()
                assert events_of((await response.aread()).decode())[-1] == "[DONE]"
        assert await asyncio.wait_for(process.wait(), PATIENCE_SECONDS) == 0
    finally:
        if process.returncode is None:
            process.kill()
        log = (await process.communicate())[1].decode()
    assert key_of("demo") not in log
    assert "Traceback" not in log


async def test_wrong_tenant_files_end_the_process_with_their_reason(stack, tmp_path, valkey_url):
    (tmp_path / "bad.yaml").write_text("id: BAD NAME")
    process, _ = await start_process(stack, tmp_path, valkey_url)
    log = (await asyncio.wait_for(process.communicate(), PATIENCE_SECONDS))[1].decode()
    assert process.returncode == 78
    assert "bad.yaml: id" in log


@pytest.mark.parametrize("body", [{"query": ""}, {"qury": "a"}, {"query": 1}])
async def test_a_field_that_is_called_like_a_place_is_named(stack, body):
    response = await stack.http.post("/v1/search", json=body, headers=stack.headers())
    assert response.status_code == 400
    assert response.json()["error"]["param"] in ("query", "qury")
