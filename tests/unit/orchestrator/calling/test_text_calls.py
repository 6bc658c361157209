import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.orchestrator.calling.profiles import HERMES, LLAMA3_JSON, MISTRAL, OPENAI, PROFILES, QWEN3, profile_of
from services.orchestrator.calling.text_calls import CallText

QUERY = {"type": "object", "properties": {"query": {"type": "string"}, "top_k": {"type": "integer"}}}
OFFERED = {"vector_search": QUERY, "sql_query": QUERY}
FAMILIES = [HERMES, LLAMA3_JSON, MISTRAL, QWEN3]


def read(profile, text, size=3, *, cut=False, offered=None):
    """(shown text, calls, complaint) of a text that comes in pieces of `size`."""
    reader = CallText(profile, OFFERED if offered is None else offered)
    shown = "".join(reader.feed(text[at : at + size]) for at in range(0, len(text), size))
    shown += reader.finish(cut=cut)
    return shown, [(call.name, json.loads(call.arguments_json)) for call in reader.calls], reader.malformed


CALL = ("vector_search", {"query": "penalty"})
OTHER = ("sql_query", {"query": "SELECT 1"})

WRITTEN = [
    (HERMES, '<tool_call>\n{"name": "vector_search", "arguments": {"query": "penalty"}}\n</tool_call>', [CALL]),
    (HERMES, '<tool_call>{"name": "vector_search", "arguments": {"query": "penalty"}}', [CALL]),
    (
        HERMES,
        '<tool_call>{"name": "vector_search", "arguments": {"query": "penalty"}}</tool_call>\n'
        '<tool_call>{"name": "sql_query", "arguments": {"query": "SELECT 1"}}</tool_call>',
        [CALL, OTHER],
    ),
    (
        HERMES,
        '<tool_call>{"name": "vector_search", "arguments": {"query": "penalty"}}\n'
        '<tool_call>{"name": "sql_query", "arguments": {"query": "SELECT 1"}}</tool_call>',
        [CALL, OTHER],
    ),
    (HERMES, "<tool_call>{'name': 'vector_search', 'arguments': {'query': 'penalty',}}</tool_call>", [CALL]),
    (LLAMA3_JSON, '{"name": "vector_search", "parameters": {"query": "penalty"}}', [CALL]),
    (LLAMA3_JSON, '<|python_tag|>{"name": "vector_search", "parameters": {"query": "penalty"}}<|eom_id|>', [CALL]),
    (
        LLAMA3_JSON,
        '{"name": "vector_search", "parameters": {"query": "penalty"}}; '
        '{"name": "sql_query", "parameters": {"query": "SELECT 1"}}',
        [CALL, OTHER],
    ),
    (
        LLAMA3_JSON,
        '{"name": "vector_search", "parameters": {"query": "penalty"}}}\n'
        '{"name": "sql_query", "parameters": {"query": "SELECT 1"}}',
        [CALL, OTHER],
    ),
    (LLAMA3_JSON, '<function=vector_search>{"query": "penalty"}</function>', [CALL]),
    (LLAMA3_JSON, '```json\n{"name": "vector_search", "parameters": {"query": "penalty"}}\n```', [CALL]),
    (LLAMA3_JSON, '{"type": "function", "name": "vector_search", "parameters": {"query": "penalty"}}', [CALL]),
    (LLAMA3_JSON, '{"type": "function", "function": "vector_search", "parameters": {"query": "penalty"}}', [CALL]),
    (LLAMA3_JSON, '{"name": "vector_search", "parameters": "{\\"query\\": \\"penalty\\"}"}', [CALL]),
    (LLAMA3_JSON, '[{"name": "vector_search", "parameters": {"query": "penalty"}}]', [CALL]),
    (LLAMA3_JSON, '{"name": "vector_search", "parameters": {"query": "penalty"', [CALL]),
    (MISTRAL, '[TOOL_CALLS] [{"name": "vector_search", "arguments": {"query": "penalty"}, "id": "a1b2c3d4e"}]', [CALL]),
    (MISTRAL, '[TOOL_CALLS]vector_search[ARGS]{"query": "penalty"}', [CALL]),
    (MISTRAL, '[TOOL_CALLS]vector_search{"query": "penalty"}', [CALL]),
    (MISTRAL, '\n[TOOL_CALLS]vector_search[ARGS]{"query": "penalty"}', [CALL]),
    (MISTRAL, '[TOOL_CALLS]vector_search[CALL_ID]a1b2c3d4e[ARGS]{"query": "penalty"}', [CALL]),
    (
        MISTRAL,
        '[TOOL_CALLS]vector_search[ARGS]{"query": "penalty"}[TOOL_CALLS]sql_query[ARGS]{"query": "SELECT 1"}',
        [CALL, OTHER],
    ),
    (
        QWEN3,
        "<think>\nI need the clause. Maybe <tool_call>?\n</think>\n\n"
        '<tool_call>\n{"name": "vector_search", "arguments": {"query": "penalty"}}\n</tool_call>',
        [CALL],
    ),
    (
        QWEN3,
        "<tool_call>\n<function=vector_search>\n<parameter=query>\npenalty\n</parameter>\n"
        "<parameter=top_k>\n3\n</parameter>\n</function>\n</tool_call>",
        [("vector_search", {"query": "penalty", "top_k": 3})],
    ),
    (
        QWEN3,
        "<function=vector_search>\n<parameter=query>\npenalty\n</parameter>\n</function>\n</tool_call>",
        [CALL],
    ),
    (QWEN3, "<tool_call>\n<function=vector_search>\n</function>\n</tool_call>", [("vector_search", {})]),
    (
        QWEN3,
        '<tool_call>\n<function=sql_query>\n<parameter=query>\nSELECT "a"\nFROM b\n</parameter>\n</function>\n'
        "</tool_call>",
        [("sql_query", {"query": 'SELECT "a"\nFROM b'})],
    ),
]


@pytest.mark.parametrize("size", [1, 4, 1_000])
@pytest.mark.parametrize(("profile", "text", "calls"), WRITTEN, ids=range(len(WRITTEN)))
def test_calls_are_read_in_the_form_of_their_family_however_the_text_is_cut(profile, text, calls, size):
    shown, found, malformed = read(profile, text, size)
    assert (found, malformed) == (calls, "")
    assert not shown.strip()


def test_what_is_said_before_a_call_flows_and_the_call_does_not():
    reader = CallText(HERMES, OFFERED)
    assert reader.feed("I will look it up.\n<tool") == "I will look it up.\n"
    assert reader.feed('_call>{"name": "vector_search",') == ""
    assert reader.feed(' "arguments": {"query": "penalty"}}</tool_call>Then.') == "Then."


def test_a_call_without_marks_may_follow_what_is_said_on_a_line_of_its_own():
    text = 'I will look it up.\n{"name": "vector_search", "parameters": {"query": "penalty"}}'
    assert read(LLAMA3_JSON, text) == ("I will look it up.\n", [CALL], "")


def test_a_tool_that_is_not_on_offer_is_a_call_where_it_is_marked_as_one():
    text = '<tool_call>{"name": "search_docs", "arguments": {}}</tool_call>'
    assert read(HERMES, text)[1] == [("search_docs", {})]


def test_a_tool_that_is_misspelt_is_a_call_without_marks_too():
    assert read(LLAMA3_JSON, '{"name": "vectorsearch", "parameters": {}}')[1] == [("vectorsearch", {})]


SHOWN = [
    '{"name": "Juan", "parameters": {"query": "penalty"}}',
    '{"penalty": 2, "unit": "percent"}',
    '{"name": "vector_search", "parameters": {"query": "x"}}\nThis is how the tool is called.',
    'You could write:\n```json\n{"name": "vector_search", "parameters": {"query": "x"}}\n```\nand it searches.',
    'As in {"name": "vector_search", "parameters": {"query": "x"}}',
    '{"type": "contract", "id": 7}',
    '{"name": "vector_search", "description": "Searches.", "parameters": {"type": "object"}}',
    '{"id": "CT-1", "name": "vector_search"',
    "Models write <tool_call> and [TOOL_CALLS where <|python_tag they mean a call.",
    "The tag `<tool_call>` opens a call.",
    "- [1] first\n[2] second\n\n[see there](x)\n{ not json }\n",
    "\n\n  \n[",
    "   " * 30 + "{",
    "[[[[{{{{",
    "```python\nprint(1)\n```",
    "a\n" * 50,
    "<function=",
    "<",
    "[TOOL_CALLS]",
]


@pytest.mark.parametrize("size", [1, 5, 1_000])
@pytest.mark.parametrize("text", SHOWN, ids=range(len(SHOWN)))
@pytest.mark.parametrize("profile", FAMILIES, ids=lambda one: one.name)
def test_an_answer_that_only_shows_json_or_speaks_of_marks_stays_as_it_is(profile, text, size):
    assert read(profile, text, size) == (text, [], "")


MALFORMED = [
    (HERMES, '<tool_call>{"name": "vector_search", "arguments": {"query": "pen</tool_call>'),
    (HERMES, '<tool_call>{"arguments": {"query": "penalty"}}</tool_call>'),
    (HERMES, '<tool_call>{"name": "vector_search", "arguments": [1]}</tool_call>'),
    (LLAMA3_JSON, '<|python_tag|>vector_search.call(query="penalty")'),
    (LLAMA3_JSON, '{"name": "vector_search", "parameters": {"query": penalty of the "contract}}'),
    (LLAMA3_JSON, '<function=vector_search>{"query": "pen</function>'),
    (MISTRAL, '[TOOL_CALLS][{"name": "vector_search", "arguments": {"query": "pen'),
    (MISTRAL, '[TOOL_CALLS]vector_search[ARGS]{"query": "pen'),
    (QWEN3, "<tool_call><function=>{}</function></tool_call>"),
]


@pytest.mark.parametrize("size", [1, 1_000])
@pytest.mark.parametrize(("profile", "text"), MALFORMED, ids=range(len(MALFORMED)))
def test_what_was_meant_as_a_call_and_is_none_is_kept_from_the_reader_and_complained_of_in_a_line(profile, text, size):
    shown, calls, malformed = read(profile, text, size)
    assert (shown, calls) == ("", [])
    assert malformed.startswith("[Your call could not be read")
    assert "\n" not in malformed


def test_missing_braces_are_not_guessed_where_no_more_could_be_written():
    text = '<tool_call>{"name": "vector_search", "arguments": {"query": "penalty"'
    assert read(HERMES, text)[1] == [CALL]
    shown, calls, malformed = read(HERMES, text, cut=True)
    assert (shown, calls) == ("", [])
    assert "breaks off" in malformed


def test_thoughts_are_hidden_even_when_their_beginning_stood_in_the_prompt():
    assert read(QWEN3, "<think>secret</think>Answer.")[0] == "Answer."
    assert read(QWEN3, "<think>never ends")[0] == ""
    assert read(QWEN3, "</think>\n\nAnswer.")[0] == "\n\nAnswer."
    assert read(LLAMA3_JSON, "<think>x</think>")[0] == "<think>x</think>"


def test_without_tools_on_offer_nothing_without_marks_is_held():
    reader = CallText(LLAMA3_JSON, {})
    assert reader.feed('{"name": "vector_search", ') == '{"name": "vector_search", '


PIECES = st.sampled_from(
    [
        "<tool_call>",
        "</tool_call>",
        "<think>",
        "</think>",
        "[TOOL_CALLS]",
        "<|python_tag|>",
        "<function=",
        "</function>",
        *(
            '{"name": "',
            "vector_search",
            '", "arguments": {',
            "}",
            "{",
            "[",
            "]",
            "\n",
            " ",
            '"',
            "'",
            "```",
            "json",
            ":",
        ),
        *("<parameter=query>", "</parameter>", "[ARGS]", ",", "a", "é", "\\"),
    ]
)


@pytest.mark.slow
@given(st.sampled_from(FAMILIES), st.lists(PIECES | st.text(max_size=4), max_size=30), st.integers(1, 9), st.booleans())
def test_no_text_breaks_the_reader_and_how_it_is_cut_makes_no_difference(profile, pieces, size, cut):
    text = "".join(pieces)
    assert read(profile, text, size, cut=cut) == read(profile, text, len(text) or 1, cut=cut)


@given(
    st.sampled_from([*FAMILIES, OPENAI]), st.text(alphabet=st.characters(exclude_characters="<[{`")), st.integers(1, 9)
)
def test_prose_comes_out_unchanged(profile, text, size):
    assert read(profile, text, size) == (text, [], "")


@given(st.lists(PIECES.filter(lambda one: one not in ("<think>", "</think>")), max_size=30), st.integers(1, 9))
def test_what_is_neither_call_nor_complained_of_comes_out_complete(pieces, size):
    text = "".join(pieces)
    for profile in FAMILIES:
        shown, calls, malformed = read(profile, text, size)
        if not calls and not malformed:
            assert shown == text


@pytest.mark.parametrize(
    "part",
    [
        '{"name": "',
        "<tool_call>",
        "<tool_call>{",
        "\n{",
        "\n[",
        "[TOOL_CALLS]x{",
        "<function=a>",
        '{"type": {',
        "<think>",
        *("\n", " ", "`", '<tool_call>{"a": "', "<|python_tag|>{", "</tool_call>", "'", '{"name": "vector_search", '),
    ],
)
def test_the_work_grows_no_faster_than_the_text(part):
    """Counted in what is looked at again, not in time: held text must not be joined anew at every piece."""
    for profile in FAMILIES:
        reader = CallText(profile, OFFERED)
        text = part * 1_000
        for at in range(0, len(text), 7):
            reader.feed(text[at : at + 7])
            assert len(reader._waiting) < 1_000
        reader.finish(cut=False)


def test_a_family_is_known_by_the_name_that_it_is_served_under():
    names = {
        "meta-llama/Llama-3.1-70B-Instruct": LLAMA3_JSON,
        "llama3.1:70b": LLAMA3_JSON,
        "NousResearch/Hermes-3-Llama-3.1-70B": HERMES,
        "mistralai/Mistral-Small-3.2-24B-Instruct-2506": MISTRAL,
        "Qwen/Qwen3-Coder-30B-A3B-Instruct": QWEN3,
        "gpt-4.1": OPENAI,
        "default": OPENAI,
    }
    assert {name: profile_of("auto", name) for name in names} == names
    assert all(profile_of(name, "whatever") is one for name, one in PROFILES.items())


def test_an_argument_is_always_text_that_can_be_sent():
    written = '<tool_call><function=vector_search><parameter=top_k>"\\ud800"</parameter></function></tool_call>'
    reader = CallText(QWEN3, OFFERED)
    reader.feed(written)
    reader.finish(cut=False)
    assert [call.arguments_json.encode() for call in reader.calls]
