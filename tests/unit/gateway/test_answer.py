from hypothesis import given
from hypothesis import strategies as st

from sabueso.orchestrator.v1 import orchestrator_pb2 as pb
from services.gateway.answer import Answer


def answer_with(text, *citations):
    answer = Answer("use")
    answer.add(pb.RunResponse(text_delta=pb.TextDelta(text=text)))
    for mark in citations:
        web = pb.WebSource(url=f"https://example.org/{mark}")
        answer.add(pb.RunResponse(citation=pb.Citation(mark=mark, web=web)))
    return answer


@given(st.text(), st.integers(1, 99), st.text(alphabet="año 漢👩‍👧[]12"))
def test_indices_name_the_mark_whatever_stands_before_it(before, mark, after):
    text = f"{before}[{mark}]{after}"
    place = answer_with(text, mark).annotations()[0]["url_citation"]
    assert text[place["start_index"] : place["end_index"]] == f"[{mark}]"


def test_one_mark_is_not_taken_for_another():
    answer = answer_with("a [12] b [1]", 1, 12)
    places = [one["url_citation"] for one in answer.annotations()]
    assert [(place["index"], place["start_index"]) for place in places] == [(1, 9), (12, 2)]


def test_a_source_that_the_text_does_not_name_stands_at_its_end():
    place = answer_with("abc", 4).annotations()[0]["url_citation"]
    assert (place["start_index"], place["end_index"]) == (3, 3)


def test_arguments_that_are_no_json_stay_as_the_model_wrote_them():
    answer = Answer("use")
    started = pb.ToolCallStarted(iteration=1, call_id="a", tool="sql_query", arguments_json="{oops")
    step = answer.add(pb.RunResponse(tool_call_started=started))
    assert step["arguments"] == "{oops"


def test_a_run_that_ran_out_of_tokens_ends_for_its_length():
    answer = answer_with("abc")
    answer.add(pb.RunResponse(finished=pb.Finished(finish=pb.FINISH_PARTIAL, reason="tokens")))
    assert answer.finish_reason() == "length"
    assert answer.summary()["finish"] == "partial"
    assert answer.completion()["sabueso"]["reason"] == "tokens"
