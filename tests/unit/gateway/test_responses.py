import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sabueso.orchestrator.v1 import orchestrator_pb2 as pb
from services.gateway.agent import run_request
from services.gateway.answer import Answer
from services.gateway.errors import ApiError, Failure
from services.gateway.responses.asked import echo, question_of, responses_request
from services.gateway.responses.endpoint import ResponseEvents
from services.gateway.responses.output import Output

PLAIN = responses_request({"model": "sabueso", "input": "x"})


def asked(items, **fields):
    return run_request(question_of(responses_request({"model": "sabueso", "input": items, **fields})), 5)


def test_a_string_is_the_question_and_instructions_are_the_systems_turn():
    run = asked("How many?", instructions="Be brief.", max_output_tokens=9, temperature=0.5)
    assert run.question == "How many?"
    assert [(turn.role, turn.text) for turn in run.history] == [("system", "Be brief.")]
    assert (run.options.max_output_tokens, run.options.temperature) == (9, 0.5)


def test_an_answer_goes_back_in_as_it_came_out():
    items = [
        {"role": "user", "content": "How many?"},
        {"type": "mcp_call", "id": "mcp_1", "name": "sql_query", "arguments": "{}", "server_label": "sabueso"},
        {"type": "reasoning", "id": "rs_1", "summary": []},
        {
            "type": "message",
            "id": "msg_1",
            "status": "completed",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "47 [1]", "annotations": [], "logprobs": []}],
        },
        {"role": "user", "content": [{"type": "input_text", "text": "And"}, {"type": "input_text", "text": "now?"}]},
    ]
    run = asked(items)
    assert run.question == "And\nnow?"
    assert [(turn.role, turn.text) for turn in run.history] == [("user", "How many?"), ("assistant", "47 [1]")]


def test_what_tools_of_the_caller_gave_is_part_of_the_history():
    items = [
        {"role": "user", "content": "Weather?"},
        {"type": "function_call", "call_id": "c1", "name": "weather", "arguments": '{"city":"Oslo"}'},
        {"type": "function_call_output", "call_id": "c1", "output": "Rain"},
        {"role": "user", "content": "And our office there?"},
    ]
    run = asked(items)
    assert run.history[1].text == 'weather({"city":"Oslo"}) gave: Rain'


@pytest.mark.parametrize(
    ("fields", "code", "param"),
    [
        ({"input": ""}, "invalid_field", "input"),
        ({"conversation": "a", "sabueso": {"session_id": "a"}}, "invalid_field", "conversation"),
        (
            {"previous_response_id": "resp_1", "sabueso": {"previous_answer_id": "ans_1"}},
            "invalid_field",
            "previous_response_id",
        ),
        ({"background": True}, "unsupported_parameter", "background"),
        ({"tools": [{"type": "web_search"}]}, "unsupported_parameter", "tools"),
        ({"text": {"format": {"type": "json_schema"}}}, "unsupported_parameter", "text.format"),
        ({"include": ["message.output_text.logprobs"]}, "unsupported_parameter", "include"),
        ({"input": [{"type": "item_reference", "id": "msg_1"}]}, "unsupported_parameter", "input.0.type"),
        ({"input": [{"type": 3}]}, "unsupported_parameter", "input.0.type"),
        ({"input": [{"content": "x"}]}, "invalid_field", "input.0.role"),
        ({"input": [{"role": "tool", "content": "x"}]}, "unsupported_parameter", "input.0.role"),
        (
            {"input": [{"role": "user", "content": [{"type": "input_image"}]}]},
            "unsupported_parameter",
            "input.0.content",
        ),
        ({"input": [{"role": "user", "content": [{"text": "x"}]}]}, "invalid_field", "input.0.content"),
        ({"input": [{"role": "assistant", "content": "x"}]}, "invalid_field", "input"),
        ({"max_tokens": 5}, "unknown_parameter", "max_tokens"),
    ],
)
def test_what_the_agent_does_not_do_is_refused_by_name(fields, code, param):
    with pytest.raises(ApiError) as refused:
        asked(**{"items": "x", **{("items" if name == "input" else name): value for name, value in fields.items()}})
    assert (refused.value.status_code, refused.value.code, refused.value.param) == (400, code, param)


@pytest.mark.parametrize("conversation", ["conv_1", {"id": "conv_1"}])
def test_a_conversation_is_a_session(conversation):
    assert asked("x", conversation=conversation).options.session_id == "conv_1"


@pytest.mark.parametrize("name", ["resp_0af7", "ans_0af7"])
def test_a_response_is_followed_by_the_id_of_its_answer(name):
    options = asked("x", previous_response_id=name).options
    assert (options.previous_answer_id, options.session_id) == ("ans_0af7", "")


@pytest.mark.parametrize(("said", "kept"), [({}, True), ({"store": None}, True), ({"store": False}, False)])
def test_responses_are_kept_unless_that_is_not_wanted(said, kept):
    assert asked("x", **said).options.store is kept
    request = responses_request({"model": "sabueso", "input": "x", **said})
    assert echo({}, request)["store"] is kept


def test_a_response_repeats_what_it_follows():
    request = responses_request({"model": "sabueso", "input": "x", "previous_response_id": "resp_1"})
    assert echo({}, request)["previous_response_id"] == "resp_1"
    request = responses_request({"model": "sabueso", "input": "x", "conversation": "conv_1"})
    assert echo({}, request)["conversation"] == {"id": "conv_1"}


def test_what_changes_nothing_is_accepted():
    idle = {"store": True, "truncation": "auto", "reasoning": {"effort": "low"}, "include": [], "top_p": 1}
    idle |= {"tools": [], "tool_choice": "auto", "background": False, "text": {"format": {"type": "text"}}}
    assert asked("x", **idle, previous_response_id=None).question == "x"


# Streams


def started(number):
    return pb.RunResponse(
        tool_call_started=pb.ToolCallStarted(
            iteration=1, call_id=f"c{number}", tool="sql_query", arguments_json=f'{{"n": {number}}}'
        )
    )


def finished(number, ok=True):
    status = pb.TOOL_CALL_STATUS_OK if ok else pb.TOOL_CALL_STATUS_ERROR
    return pb.RunResponse(
        tool_call_finished=pb.ToolCallFinished(
            iteration=1, call_id=f"c{number}", tool="sql_query", status=status, summary=f"s{number}"
        )
    )


def said(text):
    return pb.RunResponse(text_delta=pb.TextDelta(text=text))


def cited(mark):
    return pb.RunResponse(citation=pb.Citation(mark=mark, web=pb.WebSource(url="https://example.org", title="t")))


numbers = st.integers(0, 3)
runs = st.lists(
    st.one_of(
        numbers.map(started),
        st.builds(finished, numbers, st.booleans()),
        st.text(max_size=9).map(said),
        st.integers(1, 3).map(cited),
        st.just(pb.RunResponse(thought=pb.Thought(iteration=1, text="Hm."))),
        st.just(pb.RunResponse()),
    ),
    max_size=25,
)


def stream_of(run, reason="", with_steps=False):
    answer = Answer("use")
    output = Output(answer, echo({}, PLAIN), with_steps=with_steps)
    events = ResponseEvents(output)
    pieces = [*events.begin()]
    for event in [*run, pb.RunResponse(finished=pb.Finished(answer_id="a", reason=reason))]:
        pieces += events.add(event, answer.add(event))
    pieces += events.end()
    return [parsed(piece) for piece in pieces]


def parsed(piece):
    name, data, *rest = piece.decode().split("\n")
    assert rest == ["", ""]
    event = json.loads(data.removeprefix("data: "))
    assert name == f"event: {event['type']}"
    return event


def put_together(events):
    """The items as a client builds them from the events alone."""
    items = []
    for event in events:
        match event["type"]:
            case "response.output_item.added":
                assert event["output_index"] == len(items)
                items.append(json.loads(json.dumps(event["item"])))
            case "response.content_part.added":
                items[event["output_index"]]["content"].append(dict(event["part"]))
            case "response.output_text.delta":
                items[event["output_index"]]["content"][event["content_index"]]["text"] += event["delta"]
            case "response.output_text.annotation.added":
                annotations = items[event["output_index"]]["content"][0]["annotations"]
                assert event["annotation_index"] == len(annotations)
                items[event["output_index"]]["content"][0]["annotations"] = [*annotations, event["annotation"]]
            case "response.mcp_call_arguments.delta":
                items[event["output_index"]]["arguments"] += event["delta"]
            case "response.output_item.done":
                item = items[event["output_index"]]
                built = {name: item[name] for name in ("id", "content", "arguments") if name in item}
                assert built == {name: event["item"][name] for name in built}
                items[event["output_index"]] = event["item"]
            case _:
                pass
    return items


@given(runs)
def test_the_events_build_the_very_response_that_ends_the_stream(run):
    events = stream_of(run)
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    response = events[-1]["response"]
    assert events[-1]["type"] == "response.completed"
    assert put_together(events) == response["output"]
    assert all(item["status"] in ("completed", "failed", "incomplete") for item in response["output"])
    message = [item for item in response["output"] if item["type"] == "message"]
    assert len(message) == 1
    assert message[0]["content"][0]["text"] == "".join(event.text_delta.text for event in run)


def test_a_call_is_an_item_of_the_type_for_tools_that_the_server_runs():
    *_, last = stream_of([started(1), finished(1), started(2), finished(2, ok=False), started(3), said("x")])
    ok, failed, left, _ = last["response"]["output"]
    assert (ok["type"], ok["server_label"], ok["name"]) == ("mcp_call", "sabueso", "sql_query")
    assert (ok["status"], ok["arguments"], ok["output"], ok["error"]) == ("completed", '{"n": 1}', "s1", None)
    assert (failed["status"], failed["output"], failed["error"]) == ("failed", None, "s2")
    assert left["status"] == "incomplete"


def test_an_answer_that_ran_out_of_tokens_is_incomplete():
    last = stream_of([said("ab")], reason="tokens")[-1]
    assert (last["type"], last["response"]["status"]) == ("response.incomplete", "incomplete")
    assert last["response"]["incomplete_details"] == {"reason": "max_output_tokens"}
    assert last["response"]["output"][0]["status"] == "incomplete"


def test_a_run_that_breaks_off_says_so_twice_for_both_kinds_of_readers():
    answer = Answer("use")
    events = ResponseEvents(Output(answer, echo({}, PLAIN), with_steps=False))
    pieces = [*events.begin(), *events.add(said("Half"), None)]
    failed, error = (parsed(one) for one in events.fail(Failure(503, "Gone.", "dependency_failed")))
    assert (failed["type"], failed["response"]["status"]) == ("response.failed", "failed")
    assert failed["response"]["error"] == {"code": "server_error", "message": "Gone."}
    assert (error["type"], error["code"], error["error"]["code"]) == ("error", "dependency_failed", "dependency_failed")
    assert error["sequence_number"] == len(pieces) + 1


def test_steps_come_only_where_they_are_asked_for():
    run = [pb.RunResponse(thought=pb.Thought(iteration=1, text="Hm.")), started(1), finished(1)]
    assert not [event for event in stream_of(run) if event["type"] == "sabueso.step"]
    steps = [event["step"]["event"] for event in stream_of(run, with_steps=True) if event["type"] == "sabueso.step"]
    assert steps == ["thought", "tool_call_started", "tool_call_finished"]
