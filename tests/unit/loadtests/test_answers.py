import json
import math

import pytest

from loadtests.answers import Question, StreamedAnswer, questions, request

QUESTION = Question("q", "¿Cuánto?", [["8.300.000", "8,3 millones"], ["2 %"]])


def event(**fields):
    return "data: " + json.dumps(fields)


def delta(text):
    return event(choices=[{"delta": {"content": text}}])


def fed(*timed_lines):
    answer = StreamedAnswer(started=10.0)
    for now, line in timed_lines:
        answer.feed(line, now)
    return answer


def test_times_are_those_of_the_first_event_and_the_first_word():
    answer = fed(
        (10.01, ": keep-alive"),
        (10.02, ""),
        (10.05, delta("")),
        (10.10, event(choices=[{"delta": {}}], sabueso={"step": {"event": "thought"}})),
        (10.25, delta("8,3 millones ")),
        (10.30, delta("y 2\u00a0%")),
        (10.31, event(choices=[{"delta": {}, "finish_reason": "stop"}], sabueso={"finish": "answered"})),
        (10.32, "data: [DONE]"),
    )
    assert answer.milliseconds_to_first_event() == pytest.approx(50)
    assert answer.milliseconds_to_first_token() == pytest.approx(250)
    assert answer.text == "8,3 millones y 2\u00a0%"
    assert answer.finish == "answered"
    assert answer.problem(QUESTION) == ""


def test_a_stream_that_ends_early_is_a_problem():
    assert "ended before" in fed((10.1, delta("8,3 millones, 2 %"))).problem(QUESTION)
    assert "ended before" in fed((10.1, "data: [DONE]")).problem(QUESTION)
    assert math.isinf(fed().milliseconds_to_first_event())


def test_an_error_event_is_a_problem_in_its_own_words():
    answer = fed((10.1, delta("8,3 millones, 2 %")), (10.2, event(error={"message": "The model does not answer."})))
    assert answer.problem(QUESTION) == "The model does not answer."


def test_an_event_that_is_not_json_is_a_problem():
    assert fed((10.1, "data: {"), (10.2, "data: [DONE]")).problem(QUESTION) == "an event is not JSON"


def test_an_untrue_answer_is_a_problem_that_names_what_is_missing():
    answer = fed((10.1, delta("8.300.000 €")), (10.2, "data: [DONE]"))
    assert answer.problem(QUESTION) == "the answer does not say 2 %"


def test_an_answer_may_say_it_in_any_form_and_with_any_space():
    assert QUESTION.missing("8,3\u202fMillones … 2\u00a0%") == []
    assert QUESTION.missing("83 millones, 2%") == ["8.300.000", "2 %"]


def test_the_demos_questions_are_found_by_id():
    spanish, english = questions("flagship-es", "flagship-en")
    assert "contratos" in spanish.text
    assert "contracts" in english.text
    assert spanish.missing("No lo sé")
    with pytest.raises(KeyError):
        questions("no-such-question")


def test_a_streaming_request_asks_for_the_steps_too():
    assert request("¿Qué?", stream=True, cache="off") == {
        "model": "sabueso",
        "stream": True,
        "messages": [{"role": "user", "content": "¿Qué?"}],
        "sabueso": {"cache": "off", "include_steps": True},
    }
