"""Usage of answers in one piece, found without holding them."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.gateway.metering import Meter
from services.gateway.streams.body_reading import BodyReader

USAGE = {"prompt_tokens": 7, "completion_tokens": 9, "prompt_tokens_details": {"cached_tokens": 1}}


def told(*pieces, writes=True):
    meter, reader = Meter(prompt_tokens=5), BodyReader()
    for piece in pieces:
        reader.feed(piece)
    reader.tell(meter, writes=writes)
    return meter.prompt_tokens, meter.completion_tokens, meter.exact


def embeddings(count, **after):
    vectors = [{"index": index, "embedding": [0.123456] * 1000} for index in range(count)]
    return {"object": "list", "data": vectors, **after}


@settings(deadline=None, max_examples=25)
@given(st.sampled_from([1, 60]), st.booleans(), st.integers(1, 300_000))
def test_the_usage_is_found_in_bodies_of_any_size_in_any_pieces(count, first, step):
    body = embeddings(count)
    body = {"usage": USAGE, **body} if first else {**body, "usage": USAGE}
    text = json.dumps(body).encode()
    step = max(step, len(text) // 2000)
    assert told(*(text[start : start + step] for start in range(0, len(text), step))) == (7, 9, True)


def test_little_of_a_large_body_is_kept():
    reader = BodyReader()
    for _ in range(1000):
        reader.feed(b"0.123456, " * 1000)
    kept = [value for value in vars(reader).values() if isinstance(value, bytes)]
    assert sum(map(len, kept)) <= 100_000


@pytest.mark.parametrize("size", [10, 400_000])
def test_a_usage_in_the_text_of_an_answer_is_none(size):
    said = '"usage": {"prompt_tokens": 1, "completion_tokens": 1}' + "x" * size
    assert told(json.dumps({"choices": [{"message": {"content": said}}]}).encode())[2] is False


def test_without_a_usage_the_texts_are_counted():
    assert told(b'{"choices":[{"message":{"content":"12345678"}},{"text":"1234"}]}') == (5, 3, False)
    assert told(b"no json at all..") == (5, 4, False)
    assert told(b'{"data":[]}', writes=False) == (5, 0, False)


def test_a_rerankers_total_is_the_prompt():
    assert told(b'{"results":[],"usage":{"total_tokens":12}}', writes=False) == (12, 0, True)
