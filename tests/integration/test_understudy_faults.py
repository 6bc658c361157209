"""The model server that fails on command, over real sockets."""

import asyncio
import json
import sys

import httpx2
import pytest
import pytest_asyncio

from services.understudy.faults import Load, Script, faulty

CHAT = {"model": "mini-1", "messages": [], "stream": True}


@pytest_asyncio.fixture
async def mock():
    async with faulty() as server:
        yield server


@pytest_asyncio.fixture
async def http(mock):
    async with httpx2.AsyncClient(base_url=mock.url, timeout=20, trust_env=False) as client:
        yield client


async def ask(http, path="/v1/chat/completions", script=None, **fields):
    headers = {"x-fault": json.dumps(script)} if script else {}
    return await http.post(path, json={**CHAT, **fields}, headers=headers)


def data_of(response):
    return [line.removeprefix("data: ") for line in response.text.splitlines() if line.startswith("data: ")]


async def test_a_sound_stream_has_role_text_finish_and_done(http):
    data = data_of(await ask(http))
    assert data[-1] == "[DONE]"
    chunks = [json.loads(one)["choices"][0] for one in data[:-1]]
    assert chunks[0]["delta"] == {"role": "assistant", "content": ""}
    assert "".join(chunk["delta"].get("content", "") for chunk in chunks) == Script().text
    assert chunks[-1]["finish_reason"] == "stop"


@pytest.mark.parametrize(
    ("style", "with_usage"), [("none", 0), ("last", 1), ("null_then_last", 1), ("every", 6), ("with_finish", 1)]
)
async def test_usage_comes_in_the_style_of_the_script(http, style, with_usage):
    script = {"usage": style, "pieces": ["a", "b", "c"]}
    asked = await ask(http, script=script, stream_options={"include_usage": True})
    chunks = [json.loads(one) for one in data_of(asked)[:-1]]
    assert sum(bool(chunk.get("usage")) for chunk in chunks) == with_usage
    assert ("usage" in chunks[0]) == (style in ("null_then_last", "every"))
    assert '"usage"' not in (await ask(http, script=script)).text
    assert ('"usage"' in (await ask(http, script=script | {"usage_when": "always"})).text) == (style != "none")


@pytest.mark.parametrize("ending", ["close", "half", "half_chunk", "reset"])
async def test_an_answer_is_cut_in_each_way(http, ending):
    seen = []

    async def read():
        body = {**CHAT, "fault": {"ending": ending, "after_chunks": 2}}
        async with http.stream("POST", "/v1/chat/completions", json=body) as response:
            async for piece in response.aiter_raw():
                seen.append(piece)

    with pytest.raises(httpx2.TransportError):
        await read()
    assert b"[DONE]" not in b"".join(seen)


@pytest.mark.parametrize("framing", ["short_length", "bad_chunk"])
async def test_a_whole_answer_is_framed_wrongly(http, framing):
    with pytest.raises(httpx2.TransportError):
        await ask(http, script={"framing": framing}, stream=False)


@pytest.mark.parametrize("before", ["close", "reset"])
async def test_a_connection_ends_without_a_byte(http, before):
    with pytest.raises(httpx2.TransportError):
        await ask(http, script={"before": before})


async def test_a_client_that_leaves_is_noticed(mock, http):
    body = {**CHAT, "fault": {"ending": "hang", "after_chunks": 1}}
    async with http.stream("POST", "/v1/chat/completions", json=body) as response:
        await anext(response.aiter_raw())
        assert not mock.requests[0].closed.is_set()
    await asyncio.wait_for(mock.requests[0].closed.wait(), 20)
    assert mock.running == 0
    assert not mock.requests[0].finished.is_set()


async def test_what_is_held_waits_for_the_word(mock, http):
    asking = asyncio.create_task(ask(http, script={"hold_headers": True}))
    await mock.arrived(1)
    assert not asking.done()
    mock.go_on.set()
    assert (await asking).status_code == 200


async def test_scripts_come_from_header_body_queue_and_model(mock, http):
    mock.queue(Script(status=503, headers={"Retry-After": "7"}))
    mock.by_model["big-1"] = Script(status=404)
    first, second = await ask(http), await ask(http, model="big-1")
    assert (first.status_code, first.headers["retry-after"], second.status_code) == (503, "7", 404)
    assert (await ask(http, model="big-1", fault={"status": 429})).status_code == 429
    assert (await ask(http, script={"nonsense": 1})).status_code == 400
    assert [record.asked["model"] for record in mock.requests] == ["mini-1", "big-1", "big-1"]


async def test_orders_and_records_go_over_http_too(mock, http):
    await http.post("/script", json=[{"status": 500}])
    assert (await ask(http)).status_code == 500
    state = {"load": {"running": 3, "waiting": 2}, "models": ["a"], "health_status": 503}
    assert (await http.post("/state", json=state)).status_code == 200
    assert mock.load == Load(running=3, waiting=2)
    assert 'vllm:num_requests_waiting{engine="0",model_name="a"} 2.0' in (await http.get("/metrics")).text
    assert [model["id"] for model in (await http.get("/v1/models")).json()["data"]] == ["a"]
    assert (await http.get("/health")).status_code == 503
    assert [record["path"] for record in (await http.get("/record")).json()] == ["/v1/chat/completions"]


async def test_the_other_endpoints_answer_in_their_forms(http):
    text = (await ask(http, "/v1/completions", stream=False, prompt="x")).json()["choices"][0]["text"]
    assert text == Script().text
    vectors = (await ask(http, "/v1/embeddings", stream=False, input=["a", "b"])).json()["data"]
    assert [len(entry["embedding"]) for entry in vectors] == [8, 8]
    results = (await ask(http, "/v1/rerank", stream=False, query="q", documents=["a"] * 10, top_n=1)).json()["results"]
    scores = [result["relevance_score"] for result in results]
    assert len(scores) == 10
    assert scores != sorted(scores, reverse=True)


async def test_a_page_or_an_error_comes_with_a_200(http):
    page = await ask(http, script={"body": "<html>busy</html>"})
    assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    error = await ask(http, script={"error": {"error": {"code": 429}}, "after_chunks": 0, "role_chunk": False})
    assert data_of(error) == ['{"error":{"code":429}}', "[DONE]"]


async def test_bytes_are_written_as_the_script_cuts_them(http):
    whole = (await ask(http, script={"eol": "\r\n", "bom": True, "comments": True, "data_lines": True})).content
    assert whole.startswith(b"\xef\xbb\xbf: note\r\ndata: ")
    for script in ({"write_bytes": 1}, {"cut_at": [1, 40, 77]}):
        pieces = []
        async with http.stream("POST", "/v1/chat/completions", json={**CHAT, "fault": script}) as response:
            pieces = [piece async for piece in response.aiter_raw()]
        assert b"".join(pieces) == (await ask(http)).content
        assert len(pieces) > 3


async def test_idle_connections_are_closed_when_the_state_says_so(mock, http):
    mock.keep_alive_seconds = 0.05
    for _ in range(3):
        assert (await ask(http)).status_code == 200
    async with asyncio.timeout(20):
        while mock._opened:
            await asyncio.sleep(0.01)


async def test_it_runs_as_a_process_of_its_own():
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "services.understudy.faults", "--port", "0", stdout=asyncio.subprocess.PIPE
    )
    try:
        url = (await asyncio.wait_for(process.stdout.readline(), 60)).decode().strip()
        async with httpx2.AsyncClient(base_url=url, timeout=20, trust_env=False) as http:
            assert (await http.get("/health")).status_code == 200
        process.terminate()
        assert await asyncio.wait_for(process.wait(), 30) == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        process._transport.close()
