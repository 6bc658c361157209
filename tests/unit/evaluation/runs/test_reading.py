"""What the gateway answered, read."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from services.evaluation.runs import prompts, reading
from services.evaluation.runs.record import Evidence
from services.orchestrator.arguments import ForeignForm, WrongArguments, unknown_tool
from tests.unit.evaluation.runs.world import WARRANTY


def completion(**summary):
    own = {"finish": "answered", "strategy": "react", "answer_id": "ans_1", "steps": [], "degraded": []}
    times = {"timings_ms": {"total": 12.5}, "tokens": {"prompt": 3, "completion": 4}}
    sources = [
        {"type": "file_citation", "file_citation": {"file_id": "warranty", "quote": "24 months", "index": 1}},
        {
            "type": "sql_citation",
            "sql_citation": {
                "statement": "SELECT count(*) FROM contracts c JOIN providers p ON p.id = c.provider_id",
                "columns": ["count"],
                "rows": [[3]],
            },
        },
        {"type": "url_citation", "url_citation": {"url": "http://x.example/pages/copper?a=1", "quote": "9,000"}},
        {"type": "tool_citation", "tool_citation": {"tool": "crm__find", "arguments": {}, "quote": "a client"}},
    ]
    message = {"content": "24 months [1].", "annotations": sources}
    return {"model": "sabueso", "choices": [{"message": message}], "sabueso": own | times | summary}


def test_without_the_evidence_the_passages_are_what_is_cited_and_the_record_says_so():
    found = reading.agent_answer(WARRANTY, completion())
    assert found.evidence is Evidence.QUOTES
    assert [one.source for one in found.answered.passages] == [
        "warranty",
        "table:contracts + table:providers",
        "page:copper",
        "crm__find",
    ]
    assert found.answered.passages[1].text == "count\n[3]"
    assert found.cited == tuple(one.source for one in found.answered.passages)


def test_with_the_evidence_the_passages_are_all_that_was_shown():
    shown = [
        {"mark": 1, "text": "24 months", "score": 0.9, "cited": True, "document_id": "warranty"},
        {"mark": 2, "text": "3", "score": None, "cited": False, "statement": "SELECT 1 FROM contracts"},
    ]
    found = reading.agent_answer(WARRANTY, completion(evidence=shown))
    assert found.evidence is Evidence.SHOWN
    assert [(one.source, one.score) for one in found.answered.passages] == [
        ("warranty", 0.9),
        ("table:contracts", None),
    ]


def test_calls_of_one_turn_share_its_number_and_one_that_could_not_be_read_is_not_valid():
    call = {"tool": "sql_query", "arguments": {"query": "SELECT 1"}, "status": "ok", "summary": "1 row"}
    steps = [
        {"iteration": 1, "calls": [call, call | {"tool": "vector_search"}]},
        {"iteration": 4, "calls": [call | {"status": "error", "summary": "invalid arguments: no"}]},
        {"iteration": 4, "calls": [call | {"arguments": "not JSON", "status": "error", "summary": "invalid"}]},
        {"iteration": 4, "calls": [call | {"status": "error", "summary": "the database is away"}]},
    ]
    calls = list(reading.calls_of(steps))
    assert [one.turn for one in calls] == [0, 0, 1, 1, 1]
    assert [one.valid for one in calls] == [True, True, False, False, True]


def test_what_the_orchestrator_says_of_a_call_that_it_cannot_read_is_known_here():
    with pytest.raises(WrongArguments) as raised:
        ForeignForm({"type": "object"}).read("no JSON")
    for told in (str(raised.value), unknown_tool("weather", ("sql_query",))):
        call = {"tool": "weather", "arguments": {}, "status": "error", "summary": told}
        assert [one.valid for one in reading.calls_of([{"iteration": 1, "calls": [call]}])] == [False]


def test_tables_are_those_that_are_read_and_not_those_that_the_statement_makes():
    statement = "WITH late AS (SELECT * FROM payments) SELECT * FROM late JOIN contracts ON true"
    assert reading.tables_of(statement) == ["contracts", "payments"]
    assert reading.tables_of("this is no SQL (") == []


@given(st.text())
@example("0?")
def test_any_text_for_a_statement_or_an_address_gives_some_source(text):
    assert isinstance(reading.source_of({"statement": text}), str)
    assert isinstance(reading.source_of({"url": text}), str)


@pytest.mark.parametrize(
    "text",
    [
        "I do not know.",
        "No lo sé.",
        "",
        "I did not find anything in the documents that answers this.",
        "No he encontrado nada que responda.",
        "I’m sorry, I don’t have access to your contracts.",
        "No tengo información suficiente.",
    ],
)
def test_a_model_that_says_it_does_not_know_has_refused(text):
    assert prompts.is_refusal(text)


@pytest.mark.parametrize(
    "text", ["It ends on 31 May.", "No son 30: son 45 días.", "Sí, se sabe desde 2021.", "No, the limit is 5."]
)
def test_a_model_that_denies_something_has_not_refused(text):
    assert not prompts.is_refusal(text)


def test_a_search_is_read_best_first_with_its_times():
    body = {
        "results": [{"document_id": "a", "text": "t", "score": 2}],
        "stages": {"total": 3.5},
        "degraded": ["reranking"],
    }
    found = reading.search_answer(WARRANTY, body)
    assert found.answered.passages[0].source == "a"
    assert found.answered.milliseconds == {"total": 3.5}
    assert found.answered.degraded == ("reranking",)
    assert found.evidence is Evidence.FOUND
