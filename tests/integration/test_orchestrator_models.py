"""What goes over the wire to a model's server, and what is made of what comes back."""

import asyncio
import json
from contextlib import aclosing, asynccontextmanager

import pytest

from services.orchestrator.calling.profiles import LLAMA3_JSON, MISTRAL, OPENAI, PROFILES
from services.orchestrator.calling.ways import Way, calling_model
from services.orchestrator.model import Delta, Message, Sampling, ToolCall, ToolSpec, Turn, Usage
from services.orchestrator.openai_model import OpenAIModel
from services.orchestrator.trials.valid_calls import FAMILIES, is_right, read, replayed
from services.runtime.errors import DependencyFailed
from tests.integration.pools_app import listening

SEARCH = ToolSpec("vector_search", "Searches.", {"type": "object", "properties": {"query": {"type": "string"}}})
MESSAGES = [Message("system", "Rules."), Message("user", "Why?")]
CALLED = [
    *MESSAGES,
    Message("assistant", "", (ToolCall("call_1", "vector_search", '{"query": "a"}'), ToolCall("call_2", "x", "{}"))),
    Message("tool", "one", call_id="call_1"),
    Message("tool", "two", call_id="call_2"),
]


class Server:
    """Answers every chat completion with one reply, in pieces, and keeps what it was asked.

    As the templates of Llama and Mistral do it refuses what they refuse.
    """

    def __init__(self, text="", calls=(), *, finish="stop", strict_ok=False, most_calls=0):
        self.text, self.calls, self.finish = text, calls, finish
        self.strict_ok, self.most_calls = strict_ok, most_calls
        self.asked = []

    async def __call__(self, scope, receive, send):
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        asked = json.loads(body)
        self.asked.append(asked)
        refused = self._refusal(asked)
        status, kind = (400, b"application/json") if refused else (200, b"text/event-stream")
        await send({"type": "http.response.start", "status": status, "headers": [(b"content-type", kind)]})
        if refused:
            await send({"type": "http.response.body", "body": json.dumps({"error": {"message": refused}}).encode()})
            return
        for event in self._events():
            line = f"data: {event if isinstance(event, str) else json.dumps(event)}\n\n"
            await send({"type": "http.response.body", "body": line.encode(), "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    def _refusal(self, asked):
        functions = [tool["function"] for tool in asked.get("tools", ())]
        if not self.strict_ok and any("strict" in function for function in functions):
            return "extra fields are not permitted"
        if self.most_calls and any(len(one.get("tool_calls", ())) > self.most_calls for one in asked["messages"]):
            return "This model only supports single tool-calls at once!"
        return ""

    def _events(self):
        def event(delta, finish=None):
            return {
                "id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m",
                "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
            }  # fmt: skip

        for at in range(0, len(self.text), 9):
            yield event({"content": self.text[at : at + 9]})
        for index, (call_id, name, arguments) in enumerate(self.calls):
            head = {"index": index, "id": call_id, "type": "function", "function": {"name": name, "arguments": ""}}
            yield event({"tool_calls": [head]})
            for at in range(0, len(arguments), 9):
                yield event({"tool_calls": [{"index": index, "function": {"arguments": arguments[at : at + 9]}}]})
        yield event({}, self.finish)
        usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
        yield {**event({}), "choices": [], "usage": usage}
        yield "[DONE]"


@asynccontextmanager
async def serving(server, profile=OPENAI, way=Way.NATIVE):
    async with listening(server) as url:
        model = OpenAIModel(f"{url}/v1", "m", lambda: "key", profile=profile)
        try:
            yield calling_model(model, "m", profile, way)
        finally:
            await model.close()


async def turn_of(server, profile=OPENAI, way=Way.NATIVE, messages=MESSAGES, tools=(SEARCH,), sampling=None):
    """(what was shown, the turn, what the server was asked)"""
    async with serving(server, profile, way) as model:
        shown, turn = await asked_for(model, messages, tools, sampling)
    return shown, turn, server.asked[-1]


async def asked_for(model, messages, tools, sampling=None):
    async with aclosing(model.stream(messages, tools, sampling or Sampling())) as stream:
        parts = [part async for part in stream]
    assert isinstance(parts[-1], Turn)
    return "".join(part.text for part in parts if isinstance(part, Delta)), parts[-1]


async def test_no_schema_carries_strict_and_the_tools_stay_where_none_may_be_called():
    _, _, asked = await turn_of(Server("Hi"))
    assert "strict" not in json.dumps(asked)
    assert "tool_choice" not in asked
    _, _, last = await turn_of(Server("Hi"), sampling=Sampling(may_call=False))
    assert last["tools"] == asked["tools"]
    assert last["tool_choice"] == "none"


async def test_a_template_that_takes_one_call_a_message_is_given_one():
    _, turn, asked = await turn_of(Server("Hi", most_calls=1), LLAMA3_JSON, messages=CALLED)
    assert turn.text == "Hi"
    assert [message["role"] for message in asked["messages"][2:]] == ["assistant", "tool", "assistant", "tool"]


async def test_mistral_is_given_null_and_short_ids():
    _, _, asked = await turn_of(Server("Hi"), MISTRAL, messages=CALLED)
    called = asked["messages"][2]
    assert called["content"] is None
    assert all(len(call["id"]) == 9 for call in called["tool_calls"])
    assert [one["tool_call_id"] for one in asked["messages"][3:]] == [call["id"] for call in called["tool_calls"]]


async def test_a_guided_turn_asks_for_a_form_and_gives_several_calls():
    plan = {
        "thought": "Both.",
        "calls": [{"tool": "vector_search", "arguments": {"query": one}} for one in ("a", "b")],
        "answer": "",
    }
    shown, turn, asked = await turn_of(Server(json.dumps(plan)), LLAMA3_JSON, Way.AUTO)
    assert (shown, turn.text) == ("", "Both.")
    assert [json.loads(call.arguments_json) for call in turn.calls] == [{"query": "a"}, {"query": "b"}]
    assert "tools" not in asked
    form = asked["response_format"]["json_schema"]
    assert (asked["response_format"]["type"], form["name"]) == ("json_schema", "tool_plan")
    assert form["schema"]["properties"]["calls"]["items"]["anyOf"][0]["properties"]["tool"]["const"] == "vector_search"


async def test_calls_that_come_in_pieces_are_whole_and_those_left_in_the_text_are_found():
    calls = [("a", "vector_search", '{"query": "penalty clause"}'), ("b", "vector_search", "{'query': 'x'}")]
    _, turn, _ = await turn_of(Server(calls=calls, finish="tool_calls"))
    assert [json.loads(call.arguments_json)["query"] for call in turn.calls] == ["penalty clause", "x"]
    shown, turn, _ = await turn_of(Server('[TOOL_CALLS]vector_search[ARGS]{"query": "x"}'), MISTRAL)
    assert (shown, [call.name for call in turn.calls]) == ("", ["vector_search"])


async def test_a_call_that_was_cut_off_is_not_guessed():
    text = '<|python_tag|>{"name": "vector_search", "parameters": {"query": "pen'
    shown, turn, _ = await turn_of(Server(text, finish="length"), LLAMA3_JSON)
    assert (shown, list(turn.calls), turn.cut) == ("", [], True)
    assert "breaks off" in turn.malformed or "does not end" in turn.malformed


@pytest.mark.parametrize("family", FAMILIES)
async def test_the_replies_of_each_family_come_to_the_same_over_the_wire(family):
    server = Server()
    async with serving(server, PROFILES[family]) as model:
        for one in read(family):
            reply = one.replies[0]
            server.text, server.finish = reply.text, "length" if reply.cut else "stop"
            server.calls = [(call.id, call.name, call.arguments_json) for call in reply.calls]
            shown, turn = await asked_for(model, MESSAGES, one.tools)
            here = await replayed(one, PROFILES[family], repairs=0)
            assert shown == here.shown
            assert [(call.name, call.arguments_json) for call in turn.calls] == [
                (call.name, call.arguments_json) for call in here.calls
            ]
            assert is_right(one, here) or turn.malformed


def chunk(delta, **more):
    choices = [{"index": 0, "delta": delta, "finish_reason": None}]
    return {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": choices, **more}


class Odd(Server):
    """Sends these events as they are."""

    def __init__(self, *events):
        super().__init__()
        self.events = events

    def _events(self):
        return [*self.events, {**chunk({}), "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}, "[DONE]"]


@pytest.mark.parametrize(
    "event",
    [
        chunk(None),
        chunk({"content": [{"type": "text", "text": "Hola."}]}),
        chunk({"tool_calls": [{"index": 0, "id": 7, "function": {"name": "vector_search", "arguments": "{}"}}]}),
        chunk(
            {
                "tool_calls": [
                    {"index": 0, "id": "a", "function": {"name": "vector_search", "arguments": {"query": "a"}}}
                ]
            }
        ),
        {"choices": "none"},
        "[]",
        "5",
        '{"choices": ' + "[" * 100_000,
    ],
)
async def test_what_is_no_chunk_is_a_failure_of_the_model_and_not_of_ours(event):
    with pytest.raises(DependencyFailed):
        await turn_of(Odd(event))


async def test_tokens_that_a_server_has_not_counted_are_estimated():
    usage = {"prompt_tokens": None, "completion_tokens": None}
    _, turn, _ = await turn_of(Odd(chunk({"content": "Hola."}, usage=usage)))
    assert turn.usage.prompt_tokens > 0
    assert turn.usage.completion_tokens > 0


async def test_a_character_that_was_cut_in_two_is_whole_and_half_of_one_is_replaced():
    pieces = [chunk({"content": one}) for one in ("a\ud83d", "\ude00b\ud83d", "c")]
    call = {"index": 0, "id": "x\ud83d", "function": {"name": "y\ud83d", "arguments": "{}\ude00"}}
    shown, turn, _ = await turn_of(Odd(*pieces, chunk({"tool_calls": [call]})))
    assert shown == turn.text == "a😀b\ufffdc"
    assert turn.calls == (ToolCall("x\ufffd", "y\ufffd", "{}\ufffd"),)


@asynccontextmanager
async def hanging_up():
    """A server that reads a request and hangs up; its address, and how many asked."""
    asked = []

    async def hang_up(reader, writer):
        await reader.read(1)
        asked.append(1)
        writer.transport.abort()

    server = await asyncio.start_server(hang_up, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", asked


async def turn_at(url):
    model = OpenAIModel(f"{url}/v1", "m", lambda: "key")
    try:
        return await asked_for(model, MESSAGES, (SEARCH,))
    finally:
        await model.close()


async def test_a_connection_that_is_lost_before_the_answer_is_tried_again_and_then_is_no_time_out():
    async with hanging_up() as (url, asked):
        with pytest.raises(DependencyFailed, match="does not answer"):
            await turn_at(url)
    assert asked == [1, 1]


async def test_a_server_that_is_not_there_is_no_time_out():
    async with hanging_up() as (url, _):
        pass
    with pytest.raises(DependencyFailed, match="does not answer"):
        await turn_at(url)


class Unhurried(Server):
    """Keeps the end mark back until it may go, and knows its connections by the clients' ports."""

    def __init__(self, text):
        super().__init__(text)
        self.may_end = asyncio.Event()
        self.ports = []

    async def __call__(self, scope, receive, send):
        self.ports.append(scope["client"][1])

        async def held(message):
            if b"[DONE]" in message.get("body", b""):
                await self.may_end.wait()
            await send(message)

        await super().__call__(scope, receive, held)


async def test_a_turn_is_whole_with_its_usage_and_the_end_mark_is_read_beside_it():
    server = Unhurried("Hola.")
    async with serving(server) as model:
        _, turn = await asked_for(model, MESSAGES, (SEARCH,))
        assert (turn.text, turn.usage) == ("Hola.", Usage(10, 5))
        server.may_end.set()
        async with asyncio.timeout(5):
            while not all(task.done() for task in asyncio.all_tasks() if task.get_name() == "end of a model's stream"):
                await asyncio.sleep(0.01)
        await asked_for(model, MESSAGES, (SEARCH,))
    assert len(set(server.ports)) == 1


async def test_a_server_that_never_ends_its_stream_costs_a_connection_and_no_answer():
    server = Unhurried("Hola.")
    async with serving(server) as model:
        for _ in range(2):
            assert (await asked_for(model, MESSAGES, (SEARCH,)))[1].text == "Hola."
        server.may_end.set()
    assert len(set(server.ports)) == 2


@pytest.mark.parametrize("arguments", ["[" * 100_000, '{"a": NaN}', '{"a": "\\ud800"}', '{"a": 1, "a": 2}'])
async def test_arguments_that_a_template_could_not_read_are_sent_back_as_text(arguments):
    called = [*MESSAGES, Message("assistant", "", (ToolCall("a", "x", arguments),)), Message("tool", "", call_id="a")]
    _, _, asked = await turn_of(Server("Hola."), messages=called)
    (sent,) = asked["messages"][2]["tool_calls"]
    assert json.loads(sent["function"]["arguments"]) == {"unreadable": arguments}
