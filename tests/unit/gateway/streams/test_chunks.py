"""What of a model's stream the client gets, and what the meter learns from it."""

import itertools
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.gateway.metering import Meter
from services.gateway.streams.chunks import ChunkRelay
from services.gateway.streams.framing import Framer
from services.gateway.streams.reading import read
from services.understudy.faults import answers
from services.understudy.faults.script import Script

STYLES = ["none", "last", "null_then_last", "every", "with_finish"]


def recorded(script, asked=None):
    """The bytes of a stream, as the understudy writes them."""
    stream = answers.Stream(script, "/v1/chat/completions", {"model": "m", **(asked or {})})
    events = [*stream.opening(), *stream.content(), *stream.ending()]
    return "".join(f"data: {event}{script.eol}{script.eol}" for event in events).encode()


def relayed(pieces, *, hides_usage=True):
    """Bytes for the client, the meter and the relay after all `pieces`."""
    meter, framer = Meter(prompt_tokens=5, dispatched=True), Framer()
    relay = ChunkRelay(meter, hides_usage=hides_usage)
    out = [relay.passed(framer.feed(piece)) for piece in pieces]
    out.append(relay.ended(framer.end()))
    return b"".join(out), meter, relay


ALWAYS = {"usage_when": "always", "pieces": ("a", "ñ ", "漢"), "prompt_tokens": 7, "completion_tokens": 30}


@pytest.mark.parametrize("eol", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("style", STYLES)
def test_a_usage_that_we_asked_for_is_read_and_not_seen(style, eol):
    out, meter, relay = relayed([recorded(Script(usage=style, eol=eol, **ALWAYS))])
    assert out == recorded(Script(usage="none", eol=eol, **ALWAYS))
    assert relay.complete
    expected = (5, 3, False) if style == "none" else (7, 30, True)
    assert (meter.prompt_tokens, meter.completion_tokens, meter.exact) == expected


@pytest.mark.parametrize("style", STYLES)
def test_a_usage_that_the_client_asked_for_stays_to_the_byte(style):
    stream = recorded(Script(usage=style, **ALWAYS))
    out, meter, _ = relayed([stream], hides_usage=False)
    assert out == stream
    assert meter.exact == (style != "none")


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("hides_usage", [True, False])
def test_every_cut_gives_the_same_bytes_and_the_same_tokens(style, hides_usage):
    stream = b"\xef\xbb\xbf: hi\r\n\r\n" + recorded(
        Script(usage=style, text="año 👩‍👩‍👧 e\u0301 漢字", usage_when="always")
    )
    whole, meter, _ = relayed([stream], hides_usage=hides_usage)
    for at in range(1, len(stream)):
        assert relayed([stream[:at], stream[at:]], hides_usage=hides_usage)[:2] == (whole, meter)
    assert relayed([bytes([byte]) for byte in stream], hides_usage=hides_usage)[:2] == (whole, meter)


@pytest.mark.parametrize("eol", ["\n", "\r\n", "\r"])
def test_a_cut_end_of_line_of_an_event_that_is_changed_gives_the_same_bytes(eol):
    stream = recorded(Script(pieces=("año",), usage="every", usage_when="always", eol=eol))
    whole, _, _ = relayed([stream])
    for at in range(1, len(stream)):
        assert relayed([stream[:at], stream[at:]])[0] == whole


@settings(deadline=None, max_examples=60)
@given(st.lists(st.text(min_size=1, max_size=9), max_size=5), st.data())
def test_any_text_arrives_whole_in_any_pieces(texts, data):
    stream = recorded(Script(pieces=tuple(texts), usage="every", usage_when="always", eol="\r\n"))
    edges = [0, *sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=5))), len(stream)]
    out, _, _ = relayed([stream[start:end] for start, end in itertools.pairwise(edges)])
    chunks = [json.loads(line[6:]) for line in out.decode().split("\r\n") if line.startswith("data: {")]
    assert "".join(choice["delta"].get("content", "") for c in chunks for choice in c["choices"]) == "".join(texts)
    assert not any("usage" in chunk for chunk in chunks)


def test_the_chunk_without_choices_that_holds_no_usage_stays():
    filtered = b'data: {"choices":[],"prompt_filter_results":[]}\n\n'
    assert relayed([filtered])[0] == filtered


def test_a_usage_inside_of_the_answer_stays():
    event = b'data: {"choices":[{"index":0,"delta":{"content":"\\"usage\\":null","x":{"usage":1}}}]}\n\n'
    assert relayed([event])[0] == event


@pytest.mark.parametrize(
    ("rest", "complete"),
    [
        (b"", False),
        (b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n', True),
        (b"data: [DONE]\n\n", True),
        (b"data: [DONE]", True),
        (b'data: {"cho', False),
        (b'data: {"choices":[{"index":1,"delta":{},"finish_reason":"stop"}]}\n\n', False),
    ],
)
def test_a_stream_is_complete_when_it_says_so_or_all_has_finished(rest, complete):
    begun = b'data: {"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":null}]}\n\n'
    out, _, relay = relayed([begun, rest])
    assert relay.complete is complete
    assert out == begun + (rest if complete or rest.endswith(b"\n\n") else b"")


@pytest.mark.parametrize("error", ['{"error":{"message":"no","code":500}}', '{"object":"error","message":"no"}'])
def test_after_a_models_own_error_nothing_looks_like_success(error):
    event = f"data: {error}\n\n".encode()
    out, _, relay = relayed([event, b"data: [DONE]\n\n"])
    assert (out, relay.failed) == (event, True)


def test_done_is_said_once():
    assert relayed([b"data: [DONE]\n\ndata: [DONE]\n\n", b": late\n\n"])[0] == b"data: [DONE]\n\n"


def test_tool_call_deltas_pass_to_the_byte_and_are_counted():
    calls = (
        ({"index": 0, "id": "a", "function": {"name": "f", "arguments": ""}},),
        ({"function": {"arguments": "{}"}},),
    )
    stream = recorded(Script(repeat=0, tool_deltas=calls, usage="none"))
    out, meter, _ = relayed([stream])
    assert (out, meter.completion_tokens) == (stream, 2)


def test_events_of_the_responses_api_are_understood():
    events = [
        {"type": "response.created", "response": {"usage": None}},
        {"type": "response.output_text.delta", "delta": "hola"},
        {"type": "response.completed", "response": {"usage": {"input_tokens": 3, "output_tokens": 4}}},
    ]
    stream = b"".join(f"event: {e['type']}\ndata: {json.dumps(e)}\n\n".encode() for e in events)
    out, meter, relay = relayed([stream], hides_usage=False)
    assert out == stream
    assert relay.complete
    assert (meter.prompt_tokens, meter.completion_tokens, meter.exact) == (3, 4, True)


@pytest.mark.parametrize(
    "usage", ['"x"', "[]", '{"prompt_tokens":-1}', '{"prompt_tokens":true}', '{"prompt_tokens":1.5}']
)
def test_a_usage_that_says_nothing_is_no_usage(usage):
    _, meter, _ = relayed([f'data: {{"choices":[],"usage":{usage}}}\n\n'.encode()])
    assert (meter.prompt_tokens, meter.exact) == (5, False)


@pytest.mark.parametrize("count", [-1, "12", 1.5, 10**18])
def test_counts_that_cannot_be_are_not_charged_and_not_shown(count):
    text = b'data: {"choices":[{"index":0,"delta":{"content":"hola"}}]}\n\n'
    usage = {"prompt_tokens": count, "completion_tokens": count, "total_tokens": 0}
    wrong = f"data: {json.dumps({'choices': [], 'usage': usage})}\n\ndata: [DONE]\n\n".encode()
    out, meter, _ = relayed([text, wrong])
    assert out == text + b"data: [DONE]\n\n"
    assert (meter.exact, meter.prompt_tokens, meter.completion_tokens) == (False, 5, 1)


def test_an_error_with_a_usage_is_an_error():
    error = b'data: {"error":{"message":"out of memory"},"usage":{"prompt_tokens":1,"completion_tokens":1}}\n\n'
    out, _, relay = relayed([error])
    assert b"out of memory" in out
    assert relay.failed


def test_a_chunk_with_a_type_is_a_chunk():
    said = read(b'{"type":"chunk","choices":[{"index":0,"delta":{"content":"hola"},"finish_reason":"stop"}]}')
    assert (said.content, said.finished) == (True, (0,))
