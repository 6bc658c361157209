"""A run, event by event, as a response of OpenAI's Responses API: its items, and the events that build them.

The agent's tools run on our side, so a call of one is an `mcp_call` item: OpenAI's type for a tool that the server has
run, with its arguments and what came of it. A `function_call` would ask the client to run it. The tools are the same as
those of our MCP server, and bear the same names.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from sabueso.orchestrator.v1 import orchestrator_pb2 as pb
from services.gateway.agent import Step
from services.gateway.annotations import flat
from services.gateway.answer import AGENT, RESPONSE_PREFIX, Answer
from services.gateway.errors import Failure

Item = dict[str, Any]
Event = dict[str, Any]

SERVER_LABEL = "sabueso"


class Output:
    """The response so far. Methods yield events without their `sequence_number`; the response follows if they are read.

    Each takes its turn: `begin`, `add` for every event of the run, then `end` or `fail`.
    """

    def __init__(self, answer: Answer, echoed: Mapping[str, Any], *, with_steps: bool) -> None:
        """`echoed`: what the response repeats of its request."""
        self._answer = answer
        self._echoed = echoed
        self._with_steps = with_steps
        self._items: list[Item] = []
        self._calls: dict[str, int] = {}
        self._message: int | None = None

    def begin(self) -> Iterator[Event]:
        """The response exists."""
        yield {"type": "response.created", "response": self._response("in_progress")}
        yield {"type": "response.in_progress", "response": self._response("in_progress")}

    def add(self, event: pb.RunResponse, step: Step) -> Iterator[Event]:
        """What an event of the run adds."""
        if step is not None and self._with_steps:
            yield {"type": "sabueso.step", "step": step}
        match event.WhichOneof("event"):
            case "tool_call_started":
                yield from self._call(event.tool_call_started)
            case "tool_call_finished":
                yield from self._call_ended(event.tool_call_finished, step or {})
            case "text_delta":
                yield from self._said(event.text_delta.text)
            case _:
                pass

    def end(self) -> Iterator[Event]:
        """The run has finished."""
        for place, item in enumerate(self._items):  # a run that its deadline ended leaves calls behind
            if item["type"] == "mcp_call" and item["status"] == "in_progress":
                yield self._item_done(place, status="incomplete")
        whole = self._answer.finish_reason() != "length"
        yield from self._message_done("completed" if whole else "incomplete")
        status = "completed" if whole else "incomplete"
        yield {"type": f"response.{status}", "response": self.response(status)}

    def fail(self, failure: Failure) -> Iterator[Event]:
        """The run broke off. The stock client raises on the last event, for its `error`."""
        code = "rate_limit_exceeded" if failure.status == 429 else "server_error"
        error = {"code": code, "message": failure.message}
        yield {"type": "response.failed", "response": {**self._response("failed"), "error": error}}
        facts = {"code": failure.code, "message": failure.message, "param": failure.param}
        yield {"type": "error", **facts, **failure.body()}

    def response(self, status: str) -> dict[str, Any]:
        """The response that has ended, with its usage and what `sabueso` says of it."""
        usage = self._answer.usage()
        return {
            **self._response(status),
            "completed_at": self._answer.completed if status == "completed" else None,
            "usage": {
                "input_tokens": usage["prompt_tokens"],
                "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
                "output_tokens": usage["completion_tokens"],
                "output_tokens_details": {"reasoning_tokens": 0},
                "total_tokens": usage["total_tokens"],
            },
            "sabueso": self._answer.summary(),
        }

    def _response(self, status: str) -> dict[str, Any]:
        return {
            "id": f"{RESPONSE_PREFIX}{self._answer.uid}",
            "object": "response",
            "created_at": self._answer.created,
            "completed_at": None,
            "status": status,
            "error": None,
            "incomplete_details": {"reason": "max_output_tokens"} if status == "incomplete" else None,
            "model": AGENT,
            "output": list(self._items),
            "usage": None,
            **self._echoed,
        }

    def _call(self, started: pb.ToolCallStarted) -> Iterator[Event]:
        place = len(self._items)
        self._calls[started.call_id] = place
        item: Item = {
            "id": f"mcp_{self._answer.uid}_{place}",
            "type": "mcp_call",
            "status": "in_progress",
            "server_label": SERVER_LABEL,
            "name": started.tool,
            "arguments": "",
            "output": None,
            "error": None,
            "approval_request_id": None,
        }
        self._items.append(item)
        arguments = started.arguments_json or "{}"
        named = {"item_id": item["id"], "output_index": place}
        yield {"type": "response.output_item.added", "output_index": place, "item": dict(item)}
        yield {"type": "response.mcp_call.in_progress", **named}
        yield {"type": "response.mcp_call_arguments.delta", **named, "delta": arguments}
        item["arguments"] = arguments
        yield {"type": "response.mcp_call_arguments.done", **named, "arguments": arguments}

    def _call_ended(self, ended: pb.ToolCallFinished, step: Mapping[str, Any]) -> Iterator[Event]:
        place = self._calls.pop(ended.call_id, None)
        if place is None:
            return
        ok = ended.status == pb.TOOL_CALL_STATUS_OK
        item = self._items[place]
        item["output" if ok else "error"] = ended.summary
        item["sabueso"] = {name: step[name] for name in step if name not in ("event", "call_id", "tool", "summary")}
        yield {
            "type": f"response.mcp_call.{'completed' if ok else 'failed'}",
            "item_id": item["id"],
            "output_index": place,
        }
        yield self._item_done(place, status="completed" if ok else "failed")

    def _said(self, text: str) -> Iterator[Event]:
        if not text:
            return
        if self._message is None:
            yield from self._message_begun()
        yield {"type": "response.output_text.delta", **self._part_of_message(), "delta": text, "logprobs": []}

    def _message_begun(self) -> Iterator[Event]:
        self._message = place = len(self._items)
        item: Item = {
            "id": f"msg_{self._answer.uid}",
            "type": "message",
            "status": "in_progress",
            "role": "assistant",
            "content": [],
        }
        self._items.append(item)
        yield {"type": "response.output_item.added", "output_index": place, "item": dict(item)}
        yield {"type": "response.content_part.added", **self._part_of_message(), "part": _text_part("", [])}

    def _message_done(self, status: str) -> Iterator[Event]:
        if self._message is None:
            yield from self._message_begun()
        annotations = [flat(one) for one in self._answer.annotations()]
        part = _text_part(self._answer.text, annotations)
        named = self._part_of_message()
        for index, annotation in enumerate(annotations):
            yield {
                "type": "response.output_text.annotation.added",
                **named,
                "annotation_index": index,
                "annotation": annotation,
            }
        yield {"type": "response.output_text.done", **named, "text": self._answer.text, "logprobs": []}
        yield {"type": "response.content_part.done", **named, "part": part}
        place = int(named["output_index"])
        self._items[place]["content"] = [part]
        yield self._item_done(place, status=status)

    def _part_of_message(self) -> dict[str, Any]:
        return {"item_id": f"msg_{self._answer.uid}", "output_index": self._message, "content_index": 0}

    def _item_done(self, place: int, *, status: str) -> Event:
        self._items[place]["status"] = status
        return {"type": "response.output_item.done", "output_index": place, "item": dict(self._items[place])}


def _text_part(text: str, annotations: list[dict[str, Any]]) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": annotations, "logprobs": []}
