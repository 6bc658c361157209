"""What a stored response was asked with, as the stock client reads it: items, pages, and what was not kept."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.responses.response_item_list import ResponseItemList
from pydantic import TypeAdapter

from services.gateway.errors import ApiError
from services.gateway.responses.asked import echo, responses_request
from services.gateway.responses.input_items import items_of, page, with_input, without_input

LIST = TypeAdapter(ResponseItemList)


def noted(given, **fields):
    wanted = responses_request({"model": "sabueso", "input": given, **fields})
    return with_input(echo({}, wanted), wanted)


def listed(given, after=None, limit=20, order="asc"):
    found = page(items_of(noted(given), "7"), after, limit, order)
    LIST.validate_python(found)
    return found


def test_a_string_is_one_message_of_the_user():
    found = listed("How many?")
    assert found["data"] == [
        {
            "id": "msg_7_0",
            "type": "message",
            "status": "completed",
            "role": "user",
            "content": [{"type": "input_text", "text": "How many?"}],
        }
    ]
    assert (found["first_id"], found["last_id"], found["has_more"]) == ("msg_7_0", "msg_7_0", False)


def test_messages_have_parts_by_their_role_and_calls_come_back_as_they_were():
    call = {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "weather", "arguments": "{}"}
    gave = {"type": "function_call_output", "call_id": "c1", "output": "Rain"}
    said = {"role": "assistant", "id": "msg_a", "content": "Rain."}
    found = listed(
        [{"role": "developer", "content": "Be brief."}, call, gave, said, {"role": "user", "content": "So?"}]
    )
    first, second, third, fourth, fifth = found["data"]
    assert (first["role"], first["content"]) == ("developer", [{"type": "input_text", "text": "Be brief."}])
    assert second == {**call, "status": "completed"}
    assert third == {**gave, "id": "item_7_2", "status": "completed"}
    assert fourth["id"] == "msg_a"
    assert fourth["content"] == [{"type": "output_text", "text": "Rain.", "annotations": [], "logprobs": []}]
    assert fifth["content"] == [{"type": "input_text", "text": "So?"}]


def test_the_last_item_comes_first_where_no_order_is_asked_for():
    given = [{"role": "user", "content": text} for text in ("one", "two", "three")]
    found = listed(given, limit=2, order="desc")
    assert [one["content"][0]["text"] for one in found["data"]] == ["three", "two"]
    assert found["has_more"]


@given(st.integers(1, 30), st.integers(1, 9), st.sampled_from(["asc", "desc"]))
def test_pages_hold_every_item_once(count, limit, order):
    given = [{"role": "user", "content": f"part {at}"} for at in range(count)]
    seen, after, more = [], None, True
    while more:
        found = listed(given, after, limit, order)
        seen += [one["content"][0]["text"] for one in found["data"]]
        after, more = found["last_id"], found["has_more"]
    expected = [one["content"] for one in given]
    assert seen == (expected if order == "asc" else expected[::-1])


def test_a_page_after_an_item_that_is_not_there_is_refused():
    with pytest.raises(ApiError) as error:
        listed("How many?", after="msg_other")
    assert error.value.status_code == 400


def test_an_input_that_was_not_kept_is_said_to_be_missing():
    for facts in (noted("x" * 50_000), {}, echo({}, responses_request({"model": "sabueso", "input": "x"}))):
        with pytest.raises(ApiError) as error:
            items_of(facts, "7")
        assert error.value.status_code == 404


def test_the_answer_repeats_nothing_of_its_input():
    wanted = responses_request({"model": "sabueso", "input": "x", "metadata": {"a": "1"}})
    assert without_input(with_input(echo({}, wanted), wanted)) == echo({}, wanted)
