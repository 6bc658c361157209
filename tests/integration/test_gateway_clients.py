"""The gateway with the clients that people have: OpenAI's, LangChain's, and bare HTTP."""

import asyncio
import http.client
import json
import shutil
import warnings
from urllib.parse import urlsplit

import httpx
import openai
import pytest
import pytest_asyncio

from services.gateway.pools.pool import pool_at
from services.understudy.faults import Script, faulty
from tests.integration.gateway_stack import gateway_stack, key_of

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from langchain_core.messages import AIMessage, HumanMessage
    from langchain_openai import ChatOpenAI, OpenAIEmbeddings

pytestmark = pytest.mark.asyncio(loop_scope="module")

QUESTION = "¿Cuántos contratos?"
ANSWER = "Firmamos 47 contratos [1]. Penalización del 2 % [2][3]."
WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "The weather.",
        "strict": True,
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
            "additionalProperties": False,
        },
    },
}
CALL = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Oslo"}'}}
# The same in pieces, as vLLM streams it.
CALLS = (
    ({"index": 0, "id": "call_1", "type": "function", "function": {"name": "weather", "arguments": ""}},),
    ({"index": 0, "function": {"arguments": '{"city":'}},),
    ({"index": 0, "function": {"arguments": ' "Oslo"}'}},),
)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def mock():
    async with faulty(Script(text="Hola, qué tal.", prompt_tokens=7)) as mock:
        yield mock


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stack(mock, tmp_path_factory):
    pool = pool_at(f"{mock.url}/v1")
    async with gateway_stack(tmp_path_factory.mktemp("tenants"), tmp_path_factory.mktemp("web"), models=pool) as stack:
        yield stack


@pytest_asyncio.fixture(loop_scope="module")
async def client(stack):
    async with openai.AsyncOpenAI(base_url=f"{stack.url}/v1", api_key=key_of("demo"), max_retries=0) as client:
        yield client


async def in_thread(work):
    return await asyncio.wait_for(asyncio.to_thread(work), 60)


def messages(text=QUESTION):
    return [{"role": "user", "content": text}]


# OpenAI for Python


async def test_the_blocking_client_does_what_the_other_does(stack):
    def ask():
        with openai.OpenAI(base_url=f"{stack.url}/v1", api_key=key_of("demo"), max_retries=0) as client:
            whole = client.chat.completions.create(model="sabueso", messages=messages())
            with client.chat.completions.stream(model="sabueso", messages=messages()) as stream:
                streamed = stream.get_final_completion()
            response = client.responses.create(model="sabueso", input=QUESTION)
            return whole, streamed, response, [model.id for model in client.models.list()]

    whole, streamed, response, models = await in_thread(ask)
    assert whole.choices[0].message.content == streamed.choices[0].message.content == response.output_text == ANSWER
    assert {"sabueso", "mini-1", "small@1"} <= set(models)


async def test_a_models_stream_is_put_together_with_its_usage(client):
    stream = await client.chat.completions.create(
        model="mini-1", messages=messages(), stream=True, stream_options={"include_usage": True}
    )
    chunks = [chunk async for chunk in stream]
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == "Hola, qué tal."
    assert chunks[-1].usage.prompt_tokens == 7


async def test_who_did_not_ask_for_usage_gets_none(client, mock):
    stream = await client.chat.completions.create(model="mini-1", messages=messages(), stream=True)
    assert all(chunk.choices and chunk.usage is None for chunk in [chunk async for chunk in stream])
    assert mock.requests[-1].asked["stream_options"] == {"include_usage": True}


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_models_tool_calls_pass_through(client, mock, streamed):
    mock.queue(Script(text="", tool_deltas=CALLS if streamed else ((CALL,),), finish_reason="tool_calls"))
    asked = {"model": "mini-1", "messages": messages(), "tools": [WEATHER], "tool_choice": "auto"}
    if streamed:
        async with client.chat.completions.stream(**asked) as stream:
            completion = await stream.get_final_completion()
    else:
        completion = await client.chat.completions.create(**asked)
    (call,) = completion.choices[0].message.tool_calls
    assert (call.id, call.function.name, json.loads(call.function.arguments)) == ("call_1", "weather", {"city": "Oslo"})
    assert completion.choices[0].finish_reason == "tool_calls"
    assert mock.requests[-1].asked["tools"] == [WEATHER]


async def test_a_bare_completion_goes_to_the_pool(client):
    completion = await client.completions.create(model="mini-1", prompt="Hola", max_tokens=5)
    assert completion.choices[0].text == "Hola, qué tal."
    with pytest.raises(openai.BadRequestError) as refused:
        await client.completions.create(model="sabueso", prompt="Hola")
    assert "/v1/responses" in refused.value.message


async def test_embeddings_come_from_our_own_service_or_from_a_pool(client, mock):
    own = await client.embeddings.create(model="small", input="abc")
    assert own.data[0].embedding == pytest.approx([3, 2, 0.1])
    pooled = await client.embeddings.create(model="big-1", input=["a", "b"], dimensions=4)
    assert [len(one.embedding) for one in pooled.data] == [8, 8]
    assert mock.requests[-1].path == "/v1/embeddings"
    assert (mock.requests[-1].asked["dimensions"], mock.requests[-1].asked["encoding_format"]) == (4, "base64")


@pytest.mark.parametrize(
    ("asking", "error", "code"),
    [
        ({"api_key": "nobody"}, openai.AuthenticationError, "invalid_api_key"),
        ({"api_key": key_of("demo", "reader")}, openai.PermissionDeniedError, "insufficient_scope"),
        ({"model": "nope"}, openai.NotFoundError, "model_not_found"),
        ({"temperature": 9}, openai.BadRequestError, "invalid_field"),
        ({"content": "model is down"}, openai.InternalServerError, "dependency_failed"),
        ({"api_key": key_of("small"), "content": "x" * 3000}, openai.APIStatusError, "request_too_large"),
    ],
)
async def test_errors_are_those_of_the_clients_own_types(stack, asking, error, code):
    asking = {"model": "sabueso", "api_key": key_of("demo"), "content": QUESTION, **asking}
    key, content = asking.pop("api_key"), asking.pop("content")
    async with openai.AsyncOpenAI(base_url=f"{stack.url}/v1", api_key=key, max_retries=0) as client:
        with pytest.raises(error) as refused:
            await client.chat.completions.create(messages=messages(content), **asking)
    assert (refused.value.code, refused.value.request_id) == (code, refused.value.response.headers["x-request-id"])


async def list_models(client, times):
    for _ in range(times):
        await client.models.list()


async def test_a_client_that_waits_as_it_is_told_gets_through_its_limit(stack):
    async with openai.AsyncOpenAI(base_url=f"{stack.url}/v1", api_key=key_of("sixty"), max_retries=0) as eager:
        with pytest.raises(openai.RateLimitError) as refused:
            await list_models(eager, 300)
        assert refused.value.code == "rate_limit_exceeded"
    async with openai.AsyncOpenAI(base_url=f"{stack.url}/v1", api_key=key_of("sixty"), max_retries=5) as patient:
        assert (await patient.models.list()).data


async def test_a_busy_pool_is_asked_again_after_the_time_that_it_names(stack, mock):
    mock.by_model["big-1"] = Script(status=429, headers={"retry-after": "1"})
    async with openai.AsyncOpenAI(base_url=f"{stack.url}/v1", api_key=key_of("demo"), max_retries=0) as eager:
        with pytest.raises(openai.RateLimitError) as refused:
            await eager.chat.completions.create(model="big-1", messages=messages())
    del mock.by_model["big-1"]
    assert (refused.value.code, refused.value.response.headers["retry-after"]) == ("upstream_overloaded", "1")
    async with openai.AsyncOpenAI(base_url=f"{stack.url}/v1", api_key=key_of("demo"), max_retries=8) as patient:
        answer = await patient.chat.completions.create(model="big-1", messages=messages())
    assert answer.choices[0].message.content == "Hola, qué tal."


async def test_a_stream_that_breaks_off_raises(client, mock):
    mock.queue(Script(text="uno dos tres cuatro", ending="reset", after_chunks=2))
    stream = await client.chat.completions.create(model="mini-1", messages=messages(), stream=True)
    texts = []

    async def read():
        async for chunk in stream:
            texts.append(chunk.choices[0].delta.content or "")

    with pytest.raises(openai.APIError):
        await read()
    assert "".join(texts) == "uno dos "


@pytest.mark.parametrize(("top_n", "count"), [(1, 1), (11, 10), (None, 10)])
async def test_a_ranking_of_a_pool_is_in_order_and_cut_whatever_its_server_does(stack, mock, top_n, count):
    documents = [f"document {number}" for number in range(10)]
    body = {"model": "big-1", "query": "q", "documents": documents, **({"top_n": top_n} if top_n else {})}
    answer = (await stack.http.post("/v1/rerank", json=body, headers=stack.headers())).json()
    scores = [one["relevance_score"] for one in answer["results"]]
    assert (len(scores), scores) == (count, sorted(scores, reverse=True))
    assert len({one["index"] for one in answer["results"]}) == count
    assert answer["usage"] == {"total_tokens": 7}
    assert mock.requests[-1].asked == body


@pytest.mark.parametrize("top_n", [0, -1, 1.5, True, "2"])
async def test_a_ranking_of_nothing_is_refused_before_the_pool_is_asked(stack, mock, top_n):
    asked = len(mock.requests)
    body = {"model": "big-1", "query": "q", "documents": ["a"], "top_n": top_n}
    refused = await stack.http.post("/v1/rerank", json=body, headers=stack.headers())
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "top_n")
    assert len(mock.requests) == asked


async def test_tokens_of_embeddings_and_rankings_are_charged(stack):
    async def spent():
        return (await stack.get("/v1/usage", "narrow")).json()["daily_tokens"]["used"]

    texts = ["x" * 400] * 100
    for path, body in (
        ("embeddings", {"model": "small", "input": texts}),
        ("rerank", {"query": "q", "documents": texts}),
    ):
        before = await spent()
        answer = await stack.http.post(f"/v1/{path}", json=body, headers=stack.headers("narrow"))
        tokens = answer.json()["usage"]["total_tokens"]
        assert tokens >= 200
        assert await spent() == before + tokens


# LangChain


@pytest_asyncio.fixture(loop_scope="module")
async def connections():
    """The library leaves its connections to the garbage collector; these are closed."""
    async with httpx.AsyncClient(timeout=60) as awaiting:
        with httpx.Client(timeout=60) as blocking:
            yield {"http_client": blocking, "http_async_client": awaiting}


@pytest.fixture
def langchain(stack, connections):
    fields = {"model": "sabueso", "base_url": f"{stack.url}/v1", "api_key": key_of("demo"), "max_retries": 0}
    return lambda **options: ChatOpenAI(**{**fields, **connections, **options})


async def test_langchain_asks_the_agent(langchain):
    model = langchain()
    assert (await model.ainvoke(QUESTION)).content == ANSWER
    chunks = [chunk async for chunk in model.astream([HumanMessage(QUESTION)], stream_usage=True)]
    assert "".join(chunk.text for chunk in chunks) == ANSWER
    assert sum(chunk.usage_metadata["total_tokens"] for chunk in chunks if chunk.usage_metadata) == 150
    assert (await in_thread(lambda: model.invoke(QUESTION))).content == ANSWER


async def test_langchain_asks_the_agent_in_the_responses_api(stack, langchain):
    model = langchain(use_responses_api=True)
    first = await model.ainvoke(QUESTION)
    assert first.text == ANSWER
    (text,) = [block for block in first.content if block["type"] == "text"]
    assert [one["type"] for one in text["annotations"]] == ["file_citation", "file_citation", "url_citation"]
    chunks = [chunk async for chunk in model.astream(QUESTION)]
    assert "".join(chunk.text for chunk in chunks) == ANSWER
    again = await model.ainvoke([HumanMessage(QUESTION), first, HumanMessage("¿Y en 2024?")])
    assert isinstance(again, AIMessage)
    run = stack.agent.requests[-1]
    assert (run.question, run.history[-1].text) == ("¿Y en 2024?", ANSWER)


async def test_langchain_binds_tools_to_a_model(langchain, mock):
    mock.queue(Script(text="", tool_deltas=((CALL,),), finish_reason="tool_calls"))
    answer = await langchain(model="mini-1").bind_tools([WEATHER]).ainvoke("Weather in Oslo?")
    (call,) = answer.tool_calls
    assert (call["name"], call["args"]) == ("weather", {"city": "Oslo"})


async def test_langchain_embeds_texts(stack, connections):
    embedder = OpenAIEmbeddings(
        model="small",
        base_url=f"{stack.url}/v1",
        api_key=key_of("demo"),
        check_embedding_ctx_length=False,  # else it sends the tokens of another model in place of the text
        **connections,
    )
    assert await embedder.aembed_documents(["a", "abc"]) == [pytest.approx([1, 2, 0.1]), pytest.approx([3, 2, 0.1])]


# Without a library


async def test_bare_http_gets_an_answer_and_its_headers(stack):
    def ask():
        connection = http.client.HTTPConnection(urlsplit(stack.url).netloc, timeout=60)
        body = json.dumps({"model": "sabueso", "messages": messages()})
        connection.request("POST", "/v1/chat/completions", body, stack.headers())
        response = connection.getresponse()
        answered = response.status, response.headers, json.loads(response.read())
        connection.close()
        return answered

    status, headers, body = await in_thread(ask)
    assert (status, body["choices"][0]["message"]["content"]) == (200, ANSWER)
    assert headers["content-type"] == "application/json"
    assert headers["x-request-id"]


async def test_curl_prints_a_stream_as_it_comes(stack):
    body = json.dumps({"model": "sabueso", "input": QUESTION, "stream": True})
    if curl := shutil.which("curl"):
        command = [curl, "-sN", "--max-time", "60", f"{stack.url}/v1/responses", "-d", body]
        command += ["-H", f"Authorization: Bearer {key_of('demo')}", "-H", "Content-Type: application/json"]
        process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
        text = (await process.communicate())[0].decode()
    else:  # a machine without it sends the same by hand
        text = (await stack.http.post("/v1/responses", content=body, headers=stack.headers())).text
    assert text.startswith("event: response.created\ndata: {")
    assert text.rstrip().splitlines()[-2] == "event: response.completed"


async def test_a_form_where_json_belongs_is_refused_in_words(stack):
    """What curl sends when its user forgets the header is read all the same, if it is JSON."""
    headers = {**stack.headers(), "content-type": "application/x-www-form-urlencoded"}
    body = json.dumps({"model": "sabueso", "messages": messages()})
    answered = await stack.http.post("/v1/chat/completions", content=body, headers=headers)
    assert answered.status_code == 200
    refused = await stack.http.post("/v1/chat/completions", content="model=sabueso", headers=headers)
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "invalid_json")
