"""A model whose turns with tools are one JSON object by our schema: several calls at once, or the answer.

Llama 3.1 was not made for several calls in a turn, say the maintainers of vLLM. Bound to a list by the server's
constrained decoding it writes them, and they run together here.
"""

import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any, cast

import jiter

from services.orchestrator import metrics, prompts
from services.orchestrator.calling.guided_schema import plan_schema
from services.orchestrator.model import Delta, Message, Model, Sampling, ToolCall, ToolSpec, Turn

NO_PLAN = "[Your reply was not the JSON object that was asked for. Nothing was run. Write it again, complete.]"


@dataclass(frozen=True)
class GuidedModel:
    """Wraps `model`. `name`: under which it is counted, one of a closed list."""

    model: Model
    name: str = ""

    async def stream(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec], sampling: Sampling
    ) -> AsyncGenerator[Delta | Turn]:
        """See Model. The answer comes as it is written; a model that is not guided after all answers in plain text."""
        if tools:
            messages = _with_tools(messages, tools)
        reply = _Reply()
        if tools and sampling.may_call and sampling.json_schema is None:
            sampling = replace(sampling, json_schema=plan_schema(tools))
        else:
            reply.plain = True
        async with aclosing(self.model.stream(messages, (), sampling)) as parts:
            async for part in parts:
                if isinstance(part, Delta):
                    if piece := reply.add(part.text):
                        yield Delta(piece)
                    continue
                if piece := reply.end():
                    yield Delta(piece)
                yield part if reply.plain else self._read(part, reply)

    def _read(self, turn: Turn, reply: "_Reply") -> Turn:
        calls = reply.calls(self.name, cut=turn.cut)
        if calls:
            return replace(turn, text=reply.thought, calls=calls)
        if reply.answer:
            return replace(turn, text=reply.answer)
        metrics.MODEL_CALLS.labels(self.name, "false").inc()
        return replace(turn, text="", malformed=NO_PLAN)


@dataclass
class _Reply:
    """What has come so far. `plain`: it is text. `answer`: as far as it was handed on."""

    plain: bool = False
    answer: str = ""
    _text: str = ""

    def add(self, piece: str) -> str:
        """What of the answer can be shown now."""
        if self.plain:
            return piece
        self._text += piece
        begun = self._text.lstrip()[:1]
        if begun and begun != "{":
            self.plain = True
            return self._text
        return self._more() if begun else ""

    def end(self) -> str:
        """What is still to be shown."""
        return "" if self.plain else self._more()

    @property
    def thought(self) -> str:
        """What the model says before its calls."""
        return _text(self._object.get("thought"))

    def calls(self, model: str, *, cut: bool) -> tuple[ToolCall, ...]:
        """The calls that are complete: of a reply that was cut off the last may be half of one."""
        found = [cast(dict[str, Any], one) for one in _list(self._object.get("calls")) if isinstance(one, dict)]
        if found and cut and "answer" not in self._object:
            found.pop()
        return tuple(
            ToolCall("", one["tool"], json.dumps(one.get("arguments") or {}, ensure_ascii=False), model)
            for one in found
            if isinstance(one.get("tool"), str)
        )

    @property
    def _object(self) -> Mapping[str, Any]:
        try:
            value = jiter.from_json(self._text.encode(errors="replace"), partial_mode="trailing-strings")
        except ValueError:
            return {}
        return cast(Mapping[str, Any], value) if isinstance(value, dict) else {}

    def _more(self) -> str:
        known = self._object
        answer = _text(known.get("answer"))
        # With calls it is premature: the results are still to come.
        if known.get("calls") or not answer.startswith(self.answer):
            return ""
        more, self.answer = answer[len(self.answer) :], answer
        return more


def _with_tools(messages: Sequence[Message], tools: Sequence[ToolSpec]) -> list[Message]:
    """The tools at the end of the first message: it is the same in all turns, so that the server knows it already."""
    rules = prompts.guided_rules([json.dumps(_described(tool), ensure_ascii=False) for tool in tools])
    first = messages[0] if messages and messages[0].role == "system" else None
    if first is None:
        return [Message("system", rules), *messages]
    return [replace(first, text=f"{first.text}\n{rules}"), *messages[1:]]


def _described(tool: ToolSpec) -> dict[str, Any]:
    return {"name": tool.name, "description": tool.description, "parameters": tool.parameters}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _list(value: Any) -> list[Any]:
    return cast(list[Any], value) if isinstance(value, list) else []
