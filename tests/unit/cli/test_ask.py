"""`sabueso ask`: what is asked for, and what is shown of the answer."""

import json

import pytest

COMPLETIONS = "POST /v1/chat/completions"
ZERO = {"prompt": 0, "completion": 0}
SUMMARY = {
    "answer_id": "ans_1",
    "strategy": "plan",
    "finish": "answered",
    "reason": None,
    "iterations": 3,
    "chosen": [{"strategy": "plan", "reason": "as asked", "confidence": None}],
    "plan": None,
    "steps": [],
    "findings": [],
    "suspicions": [],
    "degraded": [],
    "timings_ms": {"model": 300, "tools": 120, "cache": 0, "overhead": 5, "total": 425},
    "tokens": {"prompt": 1200, "completion": 34},
    "checking": {"tokens": ZERO, "duration_ms": 0},
}
PLAN = {
    "event": "plan",
    "revision": 1,
    "steps": [
        {"id": "s1", "question": "Which provider?", "specialist": "sql", "depends_on": []},
        {"id": "s2", "question": "Its penalties?", "specialist": None, "depends_on": ["s1"]},
    ],
}


def chunk(delta=None, **extra):
    choices = [{"index": 0, "delta": delta or {}, "finish_reason": None}]
    named = {"id": "c-1", "object": "chat.completion.chunk", "created": 1, "model": "sabueso"}
    return {**named, "choices": choices, **({"sabueso": extra} if extra else {})}


def step(event, **facts):
    return chunk(step={"event": event, **facts})


def ended(**summary):
    return chunk(**SUMMARY | summary)


@pytest.fixture
def answers(gateway):
    def give(*chunks):
        gateway.answers[COMPLETIONS] = [(200, list(chunks))]

    return give


def test_what_is_chosen_is_sent_and_what_is_not_is_left_to_the_server(sabueso, gateway, answers):
    answers(ended())
    result = sabueso("ask", "why?", "--strategy", "plan", "--reflect", "drop", "--session", "tuesday")
    assert result.exit_code == 0, result.output
    sent = gateway.asked[-1][1]["sabueso"]
    assert (sent["strategy"], sent["reflection"], sent["session_id"]) == ("plan", "drop", "tuesday")
    answers(ended())
    assert sabueso("ask", "why?").exit_code == 0
    assert gateway.asked[-1][1]["sabueso"] == {"include_steps": True, "strategy": "auto", "deadline_ms": 60_000}


@pytest.mark.parametrize(("option", "value"), [("--strategy", "guess"), ("--reflect", "maybe")])
def test_what_there_is_not_is_refused_before_it_is_sent(sabueso, gateway, option, value):
    result = sabueso("ask", "why?", option, value)
    assert result.exit_code == 2
    assert value in result.output
    assert gateway.asked == []


def test_the_way_the_plan_and_the_calls_of_each_step_are_shown(sabueso, answers):
    answers(
        step("chosen", strategy="plan", reason="as asked", confidence=None),
        chunk(step=PLAN),
        step("thought", iteration=1, step_id="s1", thought="First."),
        step("tool_call_started", iteration=1, step_id="s1", call_id="a", tool="sql_query",
             arguments={"query": "SELECT 1"}),
        step("tool_call_finished", iteration=1, call_id="a", tool="sql_query", status="ok", from_cache=False,
             duration_ms=20.4, summary="1 row"),
        step("step_finished", step_id="s1", found=True, reason=None),
        step("step_finished", step_id="s2", found=False, reason="nothing was found"),
        step("step_finished", step_id="s3", found=True, reason="deadline"),
        chunk({"content": "Acme [1]."}),
        chunk({"annotations": [
            {"type": "tool_citation",
             "tool_citation": {"index": 1, "tool": "calculate", "arguments": {"expression": "1+1"}, "quote": "2"}},
        ]}),
        ended(),
    )  # fmt: skip
    lines = sabueso("ask", "why?").output.splitlines()
    assert lines[:9] == [
        "» plan: as asked",
        "◦ s1 Which provider? [sql]",
        "◦ s2 Its penalties? (after s1)",
        "s1 … First.",
        "s1 → sql_query: SELECT 1",
        "s1 ✓ sql_query: 1 row (20 ms)",
        "s1 ✓ found",
        "s2 ✗ not found: nothing was found",
        "s3 … found, but not all: deadline",
    ]
    assert "Acme [1]." in lines
    assert "  [1] calculate 1+1: 2" in lines


def test_what_is_not_confirmed_and_what_was_kept_out_is_shown_with_the_cost_of_the_check(sabueso, answers):
    summary = {
        "findings": [
            {"kind": "number", "text": "2031", "mark": None, "reason": "it is in no source"},
            {"kind": "citation", "text": "It ends.", "mark": 2, "reason": "nothing like it"},
            {"kind": "of a newer server", "text": "", "mark": None, "reason": "who knows"},
        ],
        "suspicions": [
            {"tool": "web_search", "call_id": "a", "action": "quarantined", "score": 0.9, "reason": "orders"}
        ],
        "checking": {"tokens": {"prompt": 800, "completion": 12}, "duration_ms": 640.2},
    }
    answers(chunk({"content": "It ends in 2031."}), ended(**summary))
    shown = sabueso("ask", "when?", "--no-steps").output
    assert "not confirmed: in no source, nor computed from one: 2031 (it is in no source)" in shown
    assert "not confirmed: the source does not support [2]: It ends. (nothing like it)" in shown
    assert "(who knows)" in shown
    assert "orders in a text: web_search: it was kept from the model (orders)" in shown
    assert "1234 tokens · 812 of them for checking, 640 ms" in shown
    answers(chunk({"content": "It ends in 2031."}), ended(**summary))
    told = json.loads(sabueso("ask", "when?", "--json").output)
    assert {name: told[name] for name in summary} == summary
    assert told["answer"] == "It ends in 2031."


def test_words_in_brackets_are_no_markup(sabueso, answers):
    evil = "[bold red]x[/bold red] [/nothing]"
    plan = {**PLAN, "steps": [{"id": "s1", "question": evil, "specialist": evil, "depends_on": [evil]}]}
    finding = {"kind": "number", "text": evil, "mark": None, "reason": evil}
    answers(
        step("chosen", strategy=evil, reason=evil, confidence=None), chunk(step=plan), ended(findings=[finding])
    )  # fmt: skip
    result = sabueso("ask", "why?")
    assert result.exit_code == 0, result.output
    assert result.output.count(evil) >= 6


@pytest.mark.parametrize("finish", ["partial", "refused"])
def test_the_exit_status_says_when_an_answer_is_not_whole(sabueso, answers, finish):
    answers(ended(finish=finish, reason="deadline"))
    result = sabueso("ask", "why?")
    assert result.exit_code == 2
    assert f"{finish} (deadline)" in result.output
