import base64
import os

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from services.gateway.errors import ApiError
from services.gateway.limits.estimates import prompt_tokens
from services.gateway.limits.plan import Limit
from services.gateway.limits.reservation import Estimate, Reservation

# The machine may be busy.
PATIENTLY = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def minute(most):
    return (Limit("tenant", "tokens", "", most),)


def chat(text="hi", **fields):
    return {"model": "m", "messages": [{"role": "user", "content": text}], **fields}


def reserved(asked, plan=(), guess=1024):
    return Estimate.of(asked, "text").reserve(plan, guess)


@pytest.mark.parametrize(
    ("caps", "output"),
    [
        ({"max_tokens": 50}, 50),
        ({"max_completion_tokens": 50}, 50),
        ({"max_output_tokens": 50}, 50),
        ({"max_tokens": 1, "max_completion_tokens": 700}, 700),
        ({"max_tokens": 700, "max_completion_tokens": 1}, 700),
        ({"max_tokens": 1, "max_completion_tokens": 2, "max_output_tokens": 3}, 3),
        ({"max_tokens": 0}, 0),
        ({}, 1024),
    ],
)
@pytest.mark.parametrize(("choices", "factor"), [({}, 1), ({"n": 4}, 4), ({"n": 1, "best_of": 4}, 4), ({"n": 1}, 1)])
def test_the_largest_cap_counts_once_for_each_choice(caps, output, choices, factor):
    estimate = Estimate.of(chat(**caps, **choices), "text")
    needed = estimate.reserve((), 1024)
    assert needed.tokens == estimate.prompt + output * factor
    assert needed.least == (needed.tokens if caps else estimate.prompt + 16)


@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens", "max_output_tokens", "n", "best_of"])
@pytest.mark.parametrize("value", [-1, None, 5.0, "5", True, 2**31, 1e30, [5], {}])
def test_a_cap_that_is_none_is_refused_and_named(name, value):
    with pytest.raises(ApiError) as refused:
        Estimate.of(chat(**{name: value}), "text")
    assert (refused.value.status_code, refused.value.param) == (400, name)


def test_none_is_no_number_of_choices():
    with pytest.raises(ApiError):
        Estimate.of(chat(n=0), "text")


def test_an_answer_to_each_of_several_prompts_is_reserved():
    assert Estimate.of({"prompt": ["a", "b", "c"], "max_tokens": 10}, "text").output == 30
    assert Estimate.of({"prompt": [[1, 2], [3]], "max_tokens": 10}, "text").output == 20
    assert Estimate.of({"prompt": [1, 2, 3], "max_tokens": 10}, "text").output == 10


def test_a_guess_keeps_out_nothing_that_may_fit():
    assert reserved(chat(), minute(100)) == Reservation(8 + 1024, 8 + 16)
    assert reserved(chat(), (*minute(5000), Limit("key", "daily_tokens", "k", 60))).least == 24
    assert reserved(chat(), guess=0) == Reservation(8, 8)


@pytest.mark.parametrize("asked", [chat(max_tokens=101), chat(max_tokens=26, n=4), chat("word " * 200)])
def test_what_can_never_fit_is_refused_and_says_why(asked):
    with pytest.raises(ApiError) as refused:
        reserved(asked, minute(100))
    assert (refused.value.status_code, refused.value.code) == (400, "limit_never_fits")
    assert "tenant's limit of 100 tokens a minute" in refused.value.detail


def test_an_estimate_that_may_be_too_high_refuses_nobody():
    asked = chat("word " * 80)  # 80 tokens for most models, and 115 by the estimate
    assert prompt_tokens(asked) > 100
    assert reserved(asked, minute(100)).tokens == prompt_tokens(asked) + 1024


@pytest.mark.parametrize(
    "disguised",
    [
        {"messages": [{"role": "user", "content": "data: " + "word " * 5000}]},
        {"messages": [], "tools": [{"image_url": "word " * 5000}]},
        {"messages": [], "tools": [{"image_url": {"url": "x", "description": "word " * 5000}}]},
        {"messages": [], "tools": [{"video_url": {"data": "x", "more": ["word " * 5000]}}]},
        {"query": "q", "documents": ["data:" + "\u4eca\u5929" * 5000]},
    ],
)
def test_a_text_that_claims_to_be_a_picture_is_a_text(disguised):
    assert prompt_tokens(disguised) > 4500


def test_embeddings_and_rerank_reserve_what_they_read():
    asked = {"input": ["uno dos tres"] * 10, "max_tokens": "ignored"}
    assert Estimate.of(asked, "nothing").reserve((), 1024) == Reservation(prompt_tokens(asked), prompt_tokens(asked))
    asked = {"query": "quién", "documents": ["a" * 350, {"text": "b" * 350}]}
    assert 200 <= Estimate.of(asked, "nothing").reserve((), 1024).tokens <= 215


# Tokens by the vocabulary of XLM-RoBERTa.
TEXTS = {
    "The quick brown fox jumps over the lazy dog, and then it sleeps in the warm afternoon sun.": 24,
    "La penalización prevista en el contrato es del dos por ciento del importe por cada semana de retraso.": 21,
    "今天天气很好，我们去公园散步吧。": 10,
    "Штраф составляет два процента от суммы договора за каждую неделю.": 13,
    "def add(a: int, b: int) -> int:\n    return a + b\n": 23,
}


@pytest.mark.parametrize(("text", "tokens"), TEXTS.items())
def test_the_estimate_of_text_is_right_within_a_factor_of_two(text, tokens):
    guessed = prompt_tokens(chat(text * 20)) - 8
    assert tokens * 20 / 2 <= guessed <= tokens * 20 * 2


def test_a_picture_is_no_text():
    url = "data:image/png;base64," + base64.b64encode(os.urandom(750_000)).decode()
    parts = [{"type": "text", "text": "What is it?"}, {"type": "image_url", "image_url": {"url": url}}]
    assert 105 <= prompt_tokens(chat(parts)) <= 10_490  # 1,049 are billed for such a one
    assert reserved(chat(parts), minute(50_000)).tokens < 50_000
    assert prompt_tokens({"input": [{"role": "user", "content": [{"type": "input_image", "image_url": url}]}]}) < 2000
    sound = {"type": "input_audio", "input_audio": {"data": url, "format": "wav"}}
    file = {"type": "file", "file": {"file_data": url, "filename": "a.pdf"}}
    assert prompt_tokens(chat([sound, file])) < 6000
    assert prompt_tokens(chat(url)) < 2000


def test_tools_and_schemas_are_read_too():
    schema = {"type": "object", "properties": {"image_url": {"type": "string", "description": "x" * 350}}}
    tools = [{"type": "function", "function": {"name": "look", "description": "y" * 350, "parameters": schema}}]
    assert 200 < prompt_tokens(chat(tools=tools)) - prompt_tokens(chat()) < 260
    asked = chat(response_format={"type": "json_schema", "json_schema": {"schema": schema}})
    assert prompt_tokens(asked) - prompt_tokens(chat()) > 100


def test_ids_of_tokens_are_counted_one_by_one():
    assert prompt_tokens({"prompt": list(range(500))}) == 503
    assert prompt_tokens({"input": [list(range(100)), list(range(50))]}) == 153
    assert prompt_tokens({"prompt": [1, "x" * 350]}) == 104


def test_a_conversation_costs_its_turns():
    turns = [{"role": "user", "content": "sí"}] * 100
    assert prompt_tokens({"messages": turns}) > 400


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.sampled_from(["image_url", "data", "url"]), inner),
    max_leaves=10,
)


@PATIENTLY
@given(st.dictionaries(st.sampled_from(["messages", "prompt", "input", "tools", "documents", "query", "model"]), JSON))
def test_whatever_is_sent_has_an_estimate(asked):
    assert prompt_tokens(asked) >= 0


def test_depth_costs_no_stack():
    deep = "x"
    for _ in range(5000):
        deep = [deep]
    assert prompt_tokens({"input": deep}) == 4
