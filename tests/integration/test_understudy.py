"""The understudy over real HTTP: the openai client, vLLM's stream and metrics, timing, and its SQL on PostgreSQL."""

import asyncio
import json
import os
import re
import signal
import sys
from contextlib import asynccontextmanager
from datetime import date

import asyncpg
import httpx2
import openai
import pytest

from local import ports
from services.understudy.config import Settings
from services.understudy.schema_reader import read_schema
from services.understudy.server import build, listen
from services.understudy.sql_writer import write_sql
from tests.unit.understudy.schemas import CONTRACTS

MODEL = "meta-llama/Llama-3.1-70B-Instruct"
QUESTION = "How many contracts above 100k€ did we sign in 2025 with EU providers, and which special conditions recur?"
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": description,
            "parameters": {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]},
            "strict": True,
        },
    }
    for name, description in (("vector_search", "Documents."), ("sql_query", CONTRACTS), ("web_search", "The web."))
]


@asynccontextmanager
async def serving(**fields):
    """A server on loopback; yields its address."""
    settings = Settings(host="127.0.0.1", port=0, **fields)
    server = build(settings)
    with listen(settings) as listener:
        running = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            await running


@asynccontextmanager
async def client(**fields):
    async with (
        serving(**fields) as url,
        # Without certificates to load: the connection is plain.
        openai.DefaultAsyncHttpxClient(verify=False) as http,
        openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0, http_client=http) as one,
    ):
        yield one


def ask(one, question=QUESTION, **fields):
    fields = {"model": MODEL, "messages": [{"role": "user", "content": question}]} | fields
    return one.chat.completions.create(**fields)


async def metrics_of(url):
    async with httpx2.AsyncClient(verify=False) as http:
        text = (await http.get(f"{url}/metrics")).text
    return {
        m[1]: float(m[2]) for m in re.finditer(rf'^(vllm:\w+)\{{engine="0",model_name="{MODEL}"\}} (\S+)$', text, re.M)
    }


async def test_the_openai_client_gets_parallel_tool_calls_and_then_a_cited_answer():
    async with client() as one:
        first = await ask(one, tools=TOOLS)
        choice = first.choices[0]
        assert choice.finish_reason == "tool_calls"
        assert [call.function.name for call in choice.message.tool_calls] == ["sql_query", "vector_search"]
        assert first.usage.total_tokens == first.usage.prompt_tokens + first.usage.completion_tokens
        rows = {"n": 1, "columns": ["contracts_count"], "rows": [[5]], "row_count": 1, "truncated": False}
        texts = [
            "3.1 Audit. The company may audit the provider twice a year.",
            "3.1 Audit. Two audits a year: 2 visits.",
        ]
        passages = [
            {"n": 2 + n, "document_id": f"d{n}", "title": f"T{n}", "language": "en", "text": texts[0]} for n in range(3)
        ]
        contents = [json.dumps(rows), json.dumps({"passages": passages})]
        results = [
            {"role": "tool", "tool_call_id": call.id, "content": content}
            for call, content in zip(choice.message.tool_calls, contents, strict=True)
        ]
        messages = [{"role": "user", "content": QUESTION}, choice.message.model_dump(exclude_none=True), *results]
        answer = await ask(one, messages=messages, tools=TOOLS)
    text = answer.choices[0].message.content
    assert answer.choices[0].finish_reason == "stop"
    assert "5 contracts [1]" in text
    assert "Clause 3.1 (in 3 of the 3 documents found)" in text
    assert "[2][3][4]" in text


async def test_a_stream_of_tool_calls_adds_up_to_the_whole():
    async with client() as one:
        whole = await ask(one, tools=TOOLS)
        stream = await ask(one, tools=TOOLS, stream=True, stream_options={"include_usage": True})
        chunks = [chunk async for chunk in stream]
    calls = {}
    for chunk in chunks:
        for delta in chunk.choices[0].delta.tool_calls or () if chunk.choices else ():
            call = calls.setdefault(delta.index, {"id": delta.id, "name": delta.function.name, "arguments": ""})
            call["arguments"] += delta.function.arguments or ""
    expected = [(call.function.name, call.function.arguments) for call in whole.choices[0].message.tool_calls]
    assert [(call["name"], call["arguments"]) for _, call in sorted(calls.items())] == expected
    assert all(call["id"] for call in calls.values())
    assert chunks[0].choices[0].delta.role == "assistant"
    assert chunks[-2].choices[0].finish_reason == "tool_calls"
    assert chunks[-1].choices == []
    assert chunks[-1].usage.completion_tokens == whole.usage.completion_tokens
    assert {chunk.id for chunk in chunks} == {chunks[0].id}


async def test_a_stream_of_text_is_sent_in_the_form_of_vllm():
    body = {
        "model": MODEL,
        "messages": [{"role": "user", "content": [{"type": "text", "text": "hola"}]}],
        "stream": True,
    }
    async with serving() as url, httpx2.AsyncClient(verify=False) as http:
        response = await http.post(f"{url}/v1/chat/completions", json=body)
    assert response.headers["content-type"].startswith("text/event-stream")
    assert response.headers["x-sabueso-stand-in"] == "understudy"
    events = response.text.strip().split("\n\n")
    assert events[-1] == "data: [DONE]"
    chunks = [json.loads(event.removeprefix("data: ")) for event in events[:-1]]
    assert chunks[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert len(chunks) > 10
    assert "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks).startswith("¡Hola!")
    assert chunks[-1]["choices"][0]["finish_reason"] == "stop"
    assert all("usage" not in chunk for chunk in chunks)


async def test_a_limit_of_tokens_cuts_the_answer():
    async with client() as one:
        answer = await ask(one, "¿Quién eres?", max_completion_tokens=5)
    assert answer.choices[0].finish_reason == "length"
    assert answer.usage.completion_tokens <= 5


@pytest.mark.parametrize(
    ("fields", "status", "field"),
    [
        ({"model": "gpt-9"}, 404, "model"),
        ({"n": 2}, 400, "n"),
        ({"messages": []}, 400, "messages"),
        ({"max_tokens": 0}, 400, "max_tokens"),
        ({"tool_choice": {"type": "function", "function": {"name": "x"}}}, 400, "tool_choice"),
        ({"tool_choice": "required"}, 400, "tool_choice"),
        ({"max_tokens": 10_000_000}, 400, "messages"),
        ({"messages": [{"role": "wizard", "content": "x"}]}, 400, "messages.0.role"),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": {"$ref": "#/b"}}}},
            400,
            "response_format",
        ),
    ],
)
async def test_a_bad_request_gets_an_error_object_that_names_the_field(fields, status, field):
    async with client() as one:
        with pytest.raises(openai.APIStatusError) as caught:
            await ask(one, "hi", **fields)
    assert caught.value.status_code == status
    assert caught.value.body["param"] == field
    assert caught.value.body["message"]


async def test_bad_json_gets_an_error_object():
    async with serving() as url, httpx2.AsyncClient(verify=False) as http:
        response = await http.post(f"{url}/v1/chat/completions", content=b"{")
    assert response.status_code == 400
    assert response.json()["error"]["type"] == "BadRequestError"


async def test_models_and_health_say_what_it_is():
    async with client() as one:
        (model,) = (await one.models.list()).data
    assert model.id == MODEL
    assert model.owned_by == "sabueso-understudy"
    async with serving() as url, httpx2.AsyncClient(verify=False) as http:
        assert (await http.get(f"{url}/health")).status_code == 200


async def test_the_profile_sets_the_time_of_an_answer():
    async with client(latency_profile="h100-tp4") as one:
        loop = asyncio.get_running_loop()
        started = loop.time()
        first = None
        async for _ in await ask(one, "¿Quién eres?", stream=True):
            first = first or loop.time() - started
        took = loop.time() - started
    # The machine may be busy: only the lower bounds are sharp.
    assert 0.148 <= first < 10
    assert 0.245 <= took < 20


async def test_waiting_requests_are_counted_and_too_many_refused():
    async with client(latency_profile="h100-tp2", max_running=1, max_waiting=1) as one:
        url = str(one.base_url).removesuffix("/v1/")
        asked = [asyncio.create_task(ask(one, "hola")) for _ in range(2)]
        for _ in range(100):
            seen = await metrics_of(url)
            if seen["vllm:num_requests_waiting"] == 1:
                break
            await asyncio.sleep(0.005)
        assert (seen["vllm:num_requests_running"], seen["vllm:num_requests_waiting"]) == (1, 1)
        with pytest.raises(openai.InternalServerError) as caught:
            await ask(one, "hola")
        assert caught.value.status_code == 503
        await asyncio.gather(*asked)
        seen = await metrics_of(url)
    assert (seen["vllm:num_requests_running"], seen["vllm:num_requests_waiting"]) == (0, 0)
    assert seen["vllm:e2e_request_latency_seconds_count"] == 2
    assert seen["vllm:time_to_first_token_seconds_count"] == 2
    assert seen["vllm:prompt_tokens_total"] > 0
    assert seen["vllm:generation_tokens_total"] > 0


@pytest.mark.parametrize("stream", [False, True])
async def test_a_client_who_goes_frees_its_place(stream):
    # So long a prompt that the first token takes more than a second.
    messages = [{"role": "system", "content": "word " * 80_000}, {"role": "user", "content": "hola"}]
    async with client(latency_profile="h100-tp2", max_running=1) as one:
        url = str(one.base_url).removesuffix("/v1/")

        async def first():
            answer = await ask(one.with_options(timeout=0.4), messages=messages, stream=stream)
            return await anext(aiter(answer))  # a stream has begun, and says nothing yet

        with pytest.raises(openai.APITimeoutError):
            await first()
        for _ in range(50):
            seen = await metrics_of(url)
            if seen["vllm:num_requests_running"] == 0:
                break
            await asyncio.sleep(0.01)
    assert seen["vllm:num_requests_running"] == 0
    assert seen["vllm:prompt_tokens_total"] > 80_000
    assert seen["vllm:generation_tokens_total"] == 0
    assert seen["vllm:time_to_first_token_seconds_count"] == 0


async def test_a_stream_that_is_left_stops():
    async with client(latency_profile="h100-tp2") as one:
        url = str(one.base_url).removesuffix("/v1/")
        stream = await ask(one, "¿Quién eres?", stream=True)
        await anext(aiter(stream))
        await stream.close()
        for _ in range(100):
            if (await metrics_of(url))["vllm:num_requests_running"] == 0:
                break
            await asyncio.sleep(0.01)
        seen = await metrics_of(url)
    assert seen["vllm:num_requests_running"] == 0


async def test_sigterm_lets_a_running_answer_finish():
    (port,) = ports.pick(1, ports.random_start())
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SABUESO_")}
    environment |= {"SABUESO_HOST": "127.0.0.1", "SABUESO_PORT": str(port), "SABUESO_LATENCY_PROFILE": "h100-tp2"}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "services.understudy.server", env=environment, stderr=asyncio.subprocess.PIPE
    )
    try:
        async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=10, verify=False) as http:
            for _ in range(400):
                try:
                    await http.get("/health")
                    break
                except httpx2.TransportError:
                    await asyncio.sleep(0.05)
            body = {"model": MODEL, "messages": [{"role": "user", "content": "hola"}]}
            asked = asyncio.create_task(http.post("/v1/chat/completions", json=body))
            while (await metrics_of(f"http://127.0.0.1:{port}"))["vllm:num_requests_running"] == 0:
                await asyncio.sleep(0.005)
            process.send_signal(signal.SIGTERM)
            response = await asked
        assert response.status_code == 200
        assert "Hola" in response.json()["choices"][0]["message"]["content"]
        _, log = await asyncio.wait_for(process.communicate(), 10)
        assert process.returncode == 0
        assert b"hola" not in log
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


TODAY = date(2026, 7, 29)
FILL = """
CREATE TABLE regions (code text PRIMARY KEY, name text);
CREATE TABLE providers (id int PRIMARY KEY, name text, country text, region_code text REFERENCES regions (code));
CREATE TABLE contracts (id text PRIMARY KEY, title text, provider_id int REFERENCES providers (id), amount numeric,
  signed_on date, status text, category text);
CREATE TABLE payments (id int PRIMARY KEY, contract_id text REFERENCES contracts (id), amount numeric, paid_on date,
  status text);
INSERT INTO regions VALUES ('EU', 'Europe'), ('LATAM', 'Latin America');
INSERT INTO providers VALUES (1, 'Norte S.L.', 'ES', 'EU'), (2, 'Lyon SARL', 'FR', 'EU'), (3, 'Andes', 'CL', 'LATAM');
INSERT INTO contracts VALUES
  ('AB-2025-1', 'Uno', 1, 150000, '2025-01-01', 'active', 'services'),
  ('AB-2025-2', 'Dos', 2, 100000, '2025-06-30', 'active', 'supplies'),
  ('AB-2025-3', 'Tres', 2, 250000.50, '2025-12-31', 'ended', 'services'),
  ('AB-2025-4', 'Cuatro', 3, 900000, '2025-05-05', 'active', 'services'),
  ('AB-2026-5', 'Cinco', 1, 400000, '2026-01-01', 'active', 'supplies');
INSERT INTO payments VALUES
  (1, 'AB-2025-1', 50000, '2026-03-31', 'paid'), (2, 'AB-2025-1', 100000, NULL, 'pending'),
  (3, 'AB-2025-4', 10, '2025-02-02', 'paid');
"""


@pytest.fixture(scope="module")
def database(postgres_server):
    async def fill():
        connection = await asyncpg.connect(postgres_server.dsn())
        await connection.execute("DROP DATABASE IF EXISTS understudy")
        await connection.execute("CREATE DATABASE understudy")
        await connection.close()
        connection = await asyncpg.connect(postgres_server.dsn("understudy"))
        await connection.execute(FILL)
        await connection.close()

    asyncio.run(fill())
    return postgres_server.dsn("understudy")


@pytest.mark.parametrize(
    ("question", "rows"),
    [
        ("¿Cuántos contratos de más de 100k€ firmamos en 2025 con proveedores de la UE?", [(2, "400000.50")]),
        ("How many contracts of at least 100k€ did we sign in 2025 with EU providers?", [(3, "500000.50")]),
        ("¿Cuántos contratos firmamos en el primer trimestre de 2025?", [(1,)]),
        ("importe total de los pagos pendientes", [("100000",)]),
        ("total value of contracts that are not active", [("250000.50",)]),
        ("how many payments in March?", [(1,)]),
        ("average amount of contracts per region", [("Latin America", "900000"), ("Europe", "225000.12")]),
        ("¿Qué proveedor tiene más contratos?", None),
        ("Which region has the highest total amount?", [("Europe", "900000.50")]),
        ("top 2 contracts by amount", [("AB-2025-4",), ("AB-2026-5",)]),
        ("What is the largest contract of services in 2025?", [("AB-2025-4",)]),
        ("último contrato firmado", [("AB-2026-5",)]),
        ("¿Cuántos contratos tenemos con Andes?", [(1,)]),
        ("How many contracts with the provider 'Norte S.L.'?", [(2,)]),
        ("Which providers have more than 1 contracts?", [(1,), (2,)]),
        ("¿Cuántos proveedores firmaron contratos en 2026?", [(1,)]),
        ("número de contratos por año", [("2025", 4), ("2026", 1)]),
        ("pagos del contrato AB-2025-1", [(1,), (2,)]),
        ("contratos entre 100.000 y 250.000 €", [(2, "250000")]),
        ("How many categories are there?", [(2,)]),
        ("cuántos proveedores hay en España o Francia", [(2,)]),
    ],
)
async def test_statements_give_the_right_rows_on_postgresql(database, question, rows):
    statement = write_sql(question, read_schema(CONTRACTS), TODAY)
    connection = await asyncpg.connect(database)
    try:
        prepared = await connection.prepare(statement.sql)
        values = [
            date.fromisoformat(value) if kind.name == "date" else value
            for value, kind in zip(statement.params, prepared.get_parameters(), strict=True)
        ]
        found = await prepared.fetch(*values)
    finally:
        await connection.close()
    plain = [tuple(_plain(value) for value in row) for row in found]
    if rows is None:
        assert len(plain) == 1
        assert plain[0][1] == 2
    else:
        assert [row[: len(want)] for row, want in zip(plain, rows, strict=True)] == rows


def _plain(value):
    if isinstance(value, int | str | type(None)):
        return value
    return str(value) if isinstance(value, date) else f"{round(value, 2):f}".removesuffix(".00").removesuffix("000000")
