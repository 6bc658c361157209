"""Turns: which calls are made, in which order, and when the answer comes."""

import json
from datetime import date

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.understudy.conversation import Message, Tool, read_conversation
from services.understudy.json_filler import CannotFill
from services.understudy.reply import Choice, decide
from tests.unit.understudy.schemas import CONTRACTS

TODAY = date(2026, 7, 29)
SEARCH = Tool(
    "vector_search",
    (
        "Searches documents.\nCollections:\n- contracts: clauses, conditions (cláusulas)\n- "
        "policies: travel, expenses (gastos)"
    ),
    {
        "type": "object",
        "properties": {
            "query": {"type": "string"},
            "top_k": {"type": "integer", "default": 5, "maximum": 18},
            "collection": {"anyOf": [{"enum": ["contracts", "policies"]}, {"type": "null"}]},
        },
        "required": ["query"],
    },
)
SQL = Tool("sql_query", CONTRACTS, {"type": "object", "properties": {"query": {}, "params": {}}})
WEB = Tool("web_search", "Searches the web.", {"type": "object", "properties": {"query": {"type": "string"}}})
OTHER = Tool(
    "send_mail", "Sends mail.", {"type": "object", "properties": {"to": {"type": "string"}}, "required": ["to"]}
)
ALL = [SEARCH, SQL, WEB, OTHER]
HYBRID = "¿Cuántos contratos de más de 100k€ firmamos en 2025, y qué condiciones especiales se repiten?"
RESULTS = {
    "vector_search": {"passages": [{"n": 1, "document_id": "d", "title": "T", "text": "Nada."}]},
    "sql_query": {"n": 2, "columns": ["contracts_count"], "rows": [[3]], "row_count": 1, "truncated": False},
    "web_search": {"results": [{"n": 3, "title": "T", "url": "https://x.example", "snippet": "S.", "published": ""}]},
}


def turn(messages, tools=ALL, **choice):
    return decide(read_conversation(messages), tools, Choice(**choice), TODAY)


def ask(question, tools=ALL, **choice):
    return turn([Message("user", question)], tools, **choice)


def run(question, tools=ALL, results=RESULTS, limit=10, **choice):
    """All turns of a question; the names called in each, and the answer."""
    messages, rounds = [Message("user", question)], []
    for number in range(limit):
        reply = turn(messages, tools, **choice)
        if not reply.calls:
            return rounds, reply.text
        rounds.append([call.name for call in reply.calls])
        ids = [f"{number}-{index}" for index in range(len(reply.calls))]
        messages.append(Message("assistant", "", tuple(zip(ids, reply.calls, strict=True))))
        for call_id, call in zip(ids, reply.calls, strict=True):
            messages.append(Message("tool", json.dumps(results[call.name]), (), call_id))
    raise AssertionError("it loops")


def test_all_calls_of_a_turn_come_together():
    reply = ask(HYBRID)
    assert [call.name for call in reply.calls] == ["sql_query", "vector_search"]
    assert json.loads(reply.calls[0].arguments)["params"] == [100_000, "2025-01-01", "2026-01-01"]


def test_a_search_for_what_recurs_is_wide_and_names_what_it_is_about():
    arguments = json.loads(ask(HYBRID).calls[1].arguments)
    assert arguments["top_k"] == 18
    assert arguments["collection"] == "contracts"
    assert "condiciones especiales" in arguments["query"]
    assert "contratos" in arguments["query"]


def test_a_plain_search_keeps_the_defaults():
    arguments = json.loads(ask("How do I submit a complaint?").calls[0].arguments)
    assert arguments == {"query": "How do I submit a complaint"}


@pytest.mark.parametrize(
    ("question", "query"),
    [
        ("¿Qué penalización tiene el contrato AB-2024-11?", "AB-2024-11 penalización penalty"),
        ("What does AB-2024-11 say about late payment?", "AB-2024-11 late payment atrasado pagar"),
        ("¿Qué dice AB-2024-11?", "AB-2024-11"),
    ],
)
def test_a_search_in_one_named_document_is_for_its_code_and_goes_deeper(question, query):
    arguments = json.loads(ask(question).calls[0].arguments)
    assert arguments["query"] == query
    assert arguments["top_k"] == 10


def test_without_parallel_calls_they_come_one_after_the_other():
    rounds, answer = run(HYBRID, parallel=False)
    assert rounds == [["sql_query"], ["vector_search"]]
    assert "3 contratos" in answer


def test_stages_are_separate_turns():
    rounds, _ = run("First tell me how many contracts we have, then what the returns policy says, then the latest news")
    assert rounds == [["sql_query"], ["vector_search"], ["web_search"]]


def test_what_a_stage_found_is_searched_for_in_the_next():
    messages = [Message("user", "Find the largest contract, then tell me what it says about penalties")]
    first = turn(messages)
    messages.append(Message("assistant", "", (("1", first.calls[0]),)))
    rows = {"n": 1, "columns": ["id", "amount_eur"], "rows": [["AB-2020-17", "900.00"]]}
    messages.append(Message("tool", json.dumps(rows), (), "1"))
    (call,) = turn(messages).calls
    assert call.name == "vector_search"
    assert "AB-2020-17" in json.loads(call.arguments)["query"]


def test_nothing_found_inside_is_sent_to_the_web():
    (call,) = ask("What is the exchange rate today?").calls
    assert json.loads(call.arguments) == {"query": "What is the exchange rate today"}


def test_only_offered_tools_are_called_and_the_missing_one_is_named():
    rounds, answer = run("How many contracts do we have and what is the latest news?", [SQL])
    assert rounds == [["sql_query"]]
    assert "no tool" in answer
    assert "web" in answer


def test_documents_stand_in_for_a_missing_database():
    assert [call.name for call in ask("How many contracts do we have?", [SEARCH]).calls] == ["vector_search"]


def test_without_a_fitting_tool_it_says_so():
    reply = ask("¿Cuántos contratos tenemos?", [OTHER])
    assert reply.calls == ()
    assert reply.text == "No dispongo de una herramienta para consultar la base de datos."


def test_calls_that_someone_else_made_are_not_repeated():
    made = read_conversation([Message("user", HYBRID)])
    reply = decide(made, ALL, Choice(), TODAY)
    messages = [Message("user", HYBRID), Message("assistant", "", (("a", reply.calls[1]), ("b", reply.calls[0])))]
    messages += [
        Message("tool", json.dumps(RESULTS[name]), (), key)
        for key, name in (("a", "vector_search"), ("b", "sql_query"))
    ]
    assert turn(messages).calls == ()


def test_results_without_tools_are_answered():
    messages = [
        Message("user", "How many contracts do we have?"),
        Message("tool", json.dumps(RESULTS["sql_query"]), name="sql_query"),
    ]
    assert turn(messages, []).text == "There are 3 contracts [2]."


def test_a_failed_tool_is_named_and_the_rest_answered():
    failed = RESULTS | {"vector_search": {"error": "timeout after 5s", "tool": "vector_search"}}
    rounds, answer = run(HYBRID, results=failed)
    assert rounds == [["sql_query", "vector_search"]]
    assert "Hay 3 contratos [2]." in answer
    assert "los documentos" in answer
    assert "sin responder" in answer


def test_a_follow_up_takes_the_question_before_it():
    messages = [
        Message("user", "How many contracts above 100k€ did we sign in 2025?"),
        Message("assistant", "There are 3 contracts."),
        Message("user", "And in 2023?"),
    ]
    (call,) = turn(messages).calls
    assert json.loads(call.arguments)["params"] == [100_000, "2023-01-01", "2024-01-01"]


def test_being_told_to_answer_now_is_no_new_question():
    messages = [
        Message("user", "How many contracts do we have?"),
        Message("tool", json.dumps(RESULTS["sql_query"]), name="sql_query"),
        Message("user", "[No more tools can be called.] Answer my question now, in its language."),
    ]
    assert turn(messages, []).text == "There are 3 contracts [2]."


def test_tool_choice_none_makes_no_call():
    assert ask(HYBRID, mode="none").calls == ()


def test_tool_choice_required_always_makes_one():
    assert [call.name for call in ask("hola", mode="required").calls] == ["vector_search"]
    (call,) = ask("hola", [OTHER], mode="required").calls
    assert json.loads(call.arguments) == {"to": ""}


def test_a_named_tool_is_called():
    (call,) = ask("What is the price of copper today?", mode="named", named="vector_search").calls
    assert call.name == "vector_search"


@pytest.mark.parametrize(
    ("question", "answer"), [("¿Quién eres?", "modelo sustituto"), ("Who are you?", "stand-in model")]
)
def test_without_tools_it_says_that_it_is_a_stand_in(question, answer):
    assert answer in ask(question, []).text
    assert (
        answer
        in ask(question.replace("?", " y qué es un contrato?" if "Q" in question else " and what is law?"), []).text
    )


def test_plain_sums_are_answered_in_the_language_of_the_question():
    assert ask("¿Cuánto es 1.000 por 2,5?").text == "El resultado es 2.500."
    assert ask("What is 1,000 * 2.5?").text == "The result is 2,500."


def test_a_json_schema_is_filled_with_the_least():
    schema = {
        "type": "object",
        "properties": {"queries": {"type": "array", "items": {"type": "string"}}, "ok": {"type": "boolean"}, "x": {}},
        "required": ["queries", "ok"],
    }
    reply = ask("What is copper? And what is zinc?", [], json_schema=schema)
    assert json.loads(reply.text) == {"queries": ["What is copper", "And what is zinc"], "ok": False}
    assert ask("hi", [], json_schema={}).text == "{}"


def test_a_json_schema_that_is_not_simple_is_refused_by_name():
    schema = {"type": "object", "properties": {"a": {"type": "string", "pattern": "x+"}}, "required": ["a"]}
    with pytest.raises(CannotFill, match=r"schema\.a: `pattern`"):
        ask("hi", [], json_schema=schema)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["passages", "results", "columns", "rows", "error", "n", "text", "title", "tool", "snippet"]
            ),
            inner,
        )
    ),
    max_leaves=15,
)


@settings(max_examples=150, deadline=None)
@given(
    st.text(max_size=80) | st.sampled_from([HYBRID, "latest news", "which conditions recur?"]),
    st.lists(JSON, max_size=3),
)
def test_whatever_the_tools_say_there_is_an_answer(question, contents):
    messages = [Message("user", question or "x")]
    messages += [Message("tool", json.dumps(one), name="vector_search") for one in contents]
    assert turn(messages, [], mode="none").text


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.builds(Message, st.sampled_from(["system", "user", "assistant", "tool"]), st.text(max_size=60)), max_size=6
    )
)
def test_whatever_is_said_there_is_a_reply(messages):
    reply = turn(messages)
    assert reply.text or reply.calls
    for call in reply.calls:
        assert isinstance(json.loads(call.arguments), dict)
