"""Decides one turn: which tools to call, or what to answer. The stand-in's counterpart to a forward pass."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from services.understudy import judgement, plan_forms, search_queries
from services.understudy.answer import compose, no_tool_text
from services.understudy.conversation import Call, Conversation, Tool
from services.understudy.evidence import Findings, read_findings
from services.understudy.intent import Part, split
from services.understudy.json_filler import fill
from services.understudy.plan import calls_for, document_arguments, read_parts, schema_of
from services.understudy.signs import Need
from services.understudy.talk import talk
from services.understudy.words import language

# Every planned call is made once, so this is only for callers that make calls of their own.
_MAX_ROUNDS = 8
_FORMS = (search_queries.write, plan_forms.write, judgement.write)


@dataclass(frozen=True)
class Choice:
    """What the caller demands. `mode` is auto, none, required or named; `json_schema` {} asks for any JSON object."""

    mode: str = "auto"
    named: str = ""
    parallel: bool = True
    json_schema: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Reply:
    """A text, or calls."""

    text: str = ""
    calls: tuple[Call, ...] = ()


def decide(conversation: Conversation, tools: Sequence[Tool], choice: Choice, today: date) -> Reply:
    """The reply of this turn. Raises json_filler.CannotFill for a JSON Schema that is not simple."""
    question = conversation.whole_question
    spoken = language(conversation.question)
    offered = {} if choice.mode == "none" else {tool.name: tool for tool in tools}
    if choice.mode == "named":
        return Reply(calls=(_call_of(offered[choice.named], question),))
    schema = schema_of({tool.name: tool for tool in (*conversation.described, *tools)})
    parts = read_parts(question, schema)
    found = read_findings(conversation.results)
    calls = _open_calls(conversation, parts, question, offered, found, today)
    if not calls and choice.mode == "required":
        known = next((tool for need in (Need.DOCUMENTS, Need.WEB) if (tool := offered.get(need.value))), None)
        calls = [_call_of(known or next(iter(offered.values())), question)]
    if calls:
        return Reply(calls=tuple(calls if choice.parallel else calls[:1]))
    if choice.json_schema is not None:
        if not choice.json_schema:
            return Reply("{}")
        if _is_tool_plan(choice.json_schema):
            return _planned_calls(decide(conversation, conversation.described, Choice(), today))
        forms = (write(conversation, choice.json_schema) for write in _FORMS)
        written = next((one for one in forms if one is not None), None)
        if written is not None:
            return Reply(json.dumps(written, ensure_ascii=False))
        value = fill(choice.json_schema, question, [part for part, _ in split(question)])
        return Reply(json.dumps(value, ensure_ascii=False))
    if conversation.results:
        return Reply(compose(question, parts, found, schema, spoken))
    needs = [part.need for part in parts if part.need is not Need.TALK]
    if needs and offered:
        return Reply(no_tool_text(needs, spoken))
    return Reply(talk(conversation.question, spoken))


def _is_tool_plan(schema: Mapping[str, Any]) -> bool:
    """Whether the form is a turn with tools as JSON: calls, or an answer."""
    return set(schema.get("properties") or ()) == {"thought", "calls", "answer"}


def _planned_calls(turn: Reply) -> Reply:
    calls = [{"tool": call.name, "arguments": json.loads(call.arguments)} for call in turn.calls]
    return Reply(json.dumps({"thought": "", "calls": calls, "answer": turn.text}, ensure_ascii=False))


def _open_calls(
    conversation: Conversation,
    parts: Sequence[Part],
    question: str,
    offered: Mapping[str, Tool],
    found: Findings,
    today: date,
) -> list[Call]:
    """The calls of the first stage that still has some, less those already made, whoever made them."""
    made = Counter(call.name for calls in conversation.rounds for call in calls)
    made = made or Counter(name for name, _ in conversation.results)
    if len(conversation.rounds) >= _MAX_ROUNDS:
        return []
    names = [str(value) for rows in found.rows for row in rows.rows[:1] for value in row if isinstance(value, str)][:3]
    given = plan_forms.names_given(conversation.given)
    for stage in range(max((part.stage for part in parts), default=0) + 1):
        left: list[Call] = []
        for call in calls_for(parts, stage, question, offered, today, [*given, *(names if stage else ())]):
            if made[call.name]:
                made[call.name] -= 1
            else:
                left.append(call)
        if left:
            return left
    return []


def _call_of(tool: Tool, question: str) -> Call:
    """A call that the caller insists on, whatever the tool."""
    from_rules = calls_for([Part(question, _need(tool.name), 0)], 0, question, {tool.name: tool}, date.today())
    if from_rules and from_rules[0].name == tool.name:
        return from_rules[0]
    if tool.name == Need.DOCUMENTS.value:
        return Call(tool.name, json.dumps(document_arguments(question, question, tool), ensure_ascii=False))
    return Call(tool.name, json.dumps(fill(tool.parameters, question, [question], "parameters"), ensure_ascii=False))


def _need(name: str) -> Need:
    return next((need for need in Need if need.value == name), Need.TALK)
