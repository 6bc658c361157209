"""Deltas of tool calls put together, in the forms that servers send."""

import pytest

from services.gateway.streams.tool_calls import ToolCall, ToolCalls


def entry(arguments="", **fields):
    name = fields.pop("name", None)
    return {**fields, "function": {"arguments": arguments} | ({"name": name} if name else {})}


CASES = {
    "as OpenAI sends them": (
        [
            [entry(index=0, id="a", name="f")],
            [entry("{", index=0)],
            [entry("}", index=0)],
            [entry("2", index=1, id="b", name="g")],
        ],
        [ToolCall("a", "f", "{}"), ToolCall("b", "g", "2")],
    ),
    "two calls under one index": (
        [[entry("1", index=0, id="a", name="f")], [entry("2", index=0, id="b", name="g")], [entry("3", index=0)]],
        [ToolCall("a", "f", "1"), ToolCall("b", "g", "23")],
    ),
    "no index": (
        [[entry("1", id="a", name="f")], [entry("2")], [entry("3", id="b", name="g")], [entry("4")]],
        [ToolCall("a", "f", "12"), ToolCall("b", "g", "34")],
    ),
    "an empty id after the first": (
        [[entry("1", index=0, id="a", name="f")], [entry("2", index=0, id="")], [entry("3", id="")]],
        [ToolCall("a", "f", "123")],
    ),
    "a name in pieces": (
        [[entry(index=0, id="a", name="get_")], [entry("{}", index=0, name="weather")]],
        [ToolCall("a", "get_weather", "{}")],
    ),
    "the whole name with every piece": (
        [[entry("1", index=0, id="a", name="f")], [entry("2", index=0, id="a", name="f")]],
        [ToolCall("a", "f", "12")],
    ),
    "two entries in one delta": (
        [
            [entry("1", index=0, id="a", name="f"), entry("2", index=1, id="b", name="g")],
            [entry("3", index=1), entry("4", index=0)],
        ],
        [ToolCall("a", "f", "14"), ToolCall("b", "g", "23")],
    ),
    "an id that returns under another index": (
        [[entry("1", index=0, id="a", name="f")], [entry("2", index=3, id="a")], [entry("3", index=3)]],
        [ToolCall("a", "f", "123")],
    ),
    "an id that comes late": (
        [[entry("1", index=0, name="f")], [entry("2", index=1, name="g")]],
        [ToolCall("", "f", "1"), ToolCall("", "g", "2")],
    ),
    "nothing but fragments": ([[entry("1")], [entry("2")]], [ToolCall("", "", "12")]),
    "no function at all": ([[{"index": 0, "id": "a"}], [{"index": 0, "function": None}]], [ToolCall("a")]),
}


@pytest.mark.parametrize("case", CASES)
def test_deltas_become_the_calls_that_were_meant(case):
    deltas, expected = CASES[case]
    calls = ToolCalls()
    for entries in deltas:
        calls.add(entries)
    assert calls.calls == expected
