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


def finished_from_cache(call_id, age_seconds, **facts):
    ended = pb.ToolCallFinished(iteration=1, call_id=call_id, tool="vector_search", from_cache=True, **facts)
    ended.cache_age.FromMilliseconds(round(age_seconds * 1000))
    return pb.RunResponse(tool_call_finished=ended)


def test_a_step_says_how_old_a_cached_result_is_and_what_it_was_made_for():
    answer = Answer("use")
    exact = answer.add(finished_from_cache("a", 12.34))
    near = answer.add(finished_from_cache("b", 120, cache_matched_text="What is the fine?", cache_similarity=0.97))
    assert exact["cache"] == {"kind": "exact", "age_s": 12.3}
    assert near["cache"] == {"kind": "semantic", "age_s": 120, "matched": "What is the fine?", "similarity": 0.97}
    assert answer.summary()["cache"]["oldest_age_s"] == 120


def test_without_a_cached_result_nothing_is_old():
    answer = Answer("use")
    step = answer.add(pb.RunResponse(tool_call_finished=pb.ToolCallFinished(iteration=1, call_id="a")))
    assert "cache" not in step
    assert answer.summary()["cache"] == {"mode": "use", "hits": 0, "oldest_age_s": None}
