"""How routes are judged."""

import json

from services.orchestrator.model import ToolCall
from services.orchestrator.routing.router import Route
from services.orchestrator.trials.router import calibration_error
from services.orchestrator.trials.router_cases import Case, Judged

DEFAULTS = {"contracts_signed": {"regions": ["EU", "UK"]}}


def judged(calls, *tools, confidence=0.9, **arguments):
    made = tuple(ToolCall(name, name, json.dumps(arguments)) for name in tools)
    return Judged(Case("1", "en", "x", "q", calls), Route(made, confidence=confidence, tools=tools), 0.85)


def test_a_free_statement_that_the_router_names_is_decided():
    one = judged([{"tool": "sql_query"}], "sql_query")
    assert (one.routed, one.right) == (True, True)


def test_a_reviewed_query_taken_for_a_free_statement_is_left_to_the_model():
    one = judged([{"tool": "contracts_signed", "arguments": {}}], "sql_query")
    assert (one.routed, one.right, one.right_source) == (False, False, True)


def test_a_free_statement_taken_for_a_reviewed_query_is_wrong():
    one = judged([{"tool": "sql_query"}], "contracts_signed")
    assert not one.right


def test_what_is_not_sure_is_left_to_the_model():
    assert not judged([], confidence=0.8).routed


def test_what_leans_on_the_conversation_is_left_to_the_model_however_sure_its_words_are():
    route = Route(confidence=0.99, abstained=True)
    assert not Judged(Case("1", "en", "x", "q", [{"tool": "sql_query"}]), route, 0.85).routed


def test_arguments_count_with_their_defaults():
    calls = [{"tool": "contracts_signed", "arguments": {"year": 2025}}]
    assert judged(calls, "contracts_signed", year=2025, regions=["EU", "UK"]).arguments(DEFAULTS) == [True]
    assert judged(calls, "contracts_signed", year=2025, regions=["EU"]).arguments(DEFAULTS) == [False]


def test_a_query_has_what_it_must_have_and_lacks_what_it_must_not_say():
    calls = [{"tool": "web_search", "query_has": ["copper"], "query_lacks": ["contract"]}]
    assert judged(calls, "web_search", query="price of copper").queries() == [True]
    assert judged(calls, "web_search", query="price of copper in our contract").queries() == [False]


def test_a_calibrated_router_has_no_calibration_error():
    right = [judged([], confidence=1.0)] * 5
    assert calibration_error(right) == 0
    wrong = [judged([{"tool": "web_search"}], confidence=1.0)] * 5
    assert calibration_error(wrong) == 1
