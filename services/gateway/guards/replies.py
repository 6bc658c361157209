"""Where the texts of an answer are, whole or in the events of a stream, and what is put in their place.

A stream's deltas go through one scanner for each text that they build up; every other string of an event, such as a
quote or the text that a last event repeats, is looked at by itself. What repeats the text token by token is dropped.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from services.gateway.guards.scanning import Scanner
from services.gateway.streams.tool_calls import ToolCall, ToolCalls

# Named `json=True` for the arguments of a call.
NewScanner = Callable[[bool], Scanner]
_NAMES = {
    "id", "object", "model", "type", "role", "finish_reason", "stop_reason", "system_fingerprint", "service_tier",
    "status", "call_id", "item_id", "tool_call_id", "chunk_id", "document_id", "file_id", "answer_id", "response_id",
    "previous_response_id", "obfuscation", "name", "tool", "event", "strategy", "finish", "language",
}  # fmt: skip
_REPEATING = {"logprobs", "prompt_logprobs", "token_ids", "prompt_token_ids"}
_ARGUMENTS = "arguments"


@dataclass
class _Choice:
    """One choice of a stream. `calls`: a scanner each, with the index that the server gave."""

    texts: dict[str, Scanner] = field(default_factory=dict[str, Scanner])
    merged: ToolCalls = field(default_factory=ToolCalls)
    calls: dict[int, tuple[ToolCall, int, Scanner]] = field(default_factory=dict[int, tuple[ToolCall, int, Scanner]])


class ReplyScan:
    """One answer."""

    def __init__(self, new: NewScanner) -> None:
        self._new = new
        self._choices: dict[Any, _Choice] = {}
        # Of the Responses API: (scanner, last delta event) by what the deltas build up.
        self._open: dict[tuple[Any, ...], tuple[Scanner, dict[str, Any]]] = {}
        self._extra_events = 0
        self._last_chunk: dict[str, Any] = {}

    def whole(self, answer: Any) -> Any:
        """The answer as it may be told; the same object if nothing changed. Raises ContentBlocked."""
        return self._leaves(answer, "")

    def event(self, event: dict[str, Any]) -> list[dict[str, Any]]:
        """One event of the stream as it may be told, with what has to come before it. Raises ContentBlocked."""
        if event.get("error"):  # it broke off: what was held back is not told any more
            self._choices.clear()
            self._open.clear()
        kind = event.get("type")
        if isinstance(kind, str) and "choices" not in event:
            return self._response_event(kind, event)
        self._last_chunk = event
        choices = event.get("choices")
        rest = self._leaves({name: value for name, value in event.items() if name != "choices"}, "")
        if not isinstance(choices, list):
            return [rest]
        told = [self._choice(one) for one in cast(list[Any], choices)]
        return [{name: told if name == "choices" else rest[name] for name in event if name not in _REPEATING}]

    def end(self) -> Iterator[dict[str, Any]]:
        """What is still held back, where a stream ends without having ended its choices."""
        for index, choice in self._choices.items():
            delta: dict[str, Any] = {}
            text = self._flush(choice, delta)
            if delta or text:
                said: dict[str, Any] = {"index": index, "delta": delta, "finish_reason": None}
                yield {**self._last_chunk, "choices": [{"index": index, "text": text} if text else said]}
        for scanner, event in self._open.values():
            rest = scanner.end()
            if rest:
                yield self._numbered({**event, "delta": rest}, extra=True)
        self._choices.clear()
        self._open.clear()

    def _choice(self, said: Any) -> Any:
        if not isinstance(said, dict):
            return self._leaves(said, "")
        choice = cast(dict[str, Any], said)
        index = choice.get("index", 0)
        state = self._choices.setdefault(index, _Choice())
        told = {name: value for name, value in choice.items() if name not in _REPEATING}
        told = {n: v if n in ("delta", "text", "index") else self._leaves(v, n) for n, v in told.items()}
        delta, text = choice.get("delta"), choice.get("text")
        if isinstance(delta, dict):
            told["delta"] = self._delta(cast(dict[str, Any], delta), state)
        if isinstance(text, str):
            told["text"] = self._text(state, "text").feed(text)
        if choice.get("finish_reason") is not None:
            last: dict[str, Any] = dict(told.get("delta") or {})
            rest = self._flush(state, last)
            if last or "delta" in told:
                told["delta"] = last
            if rest:
                told["text"] = told.get("text", "") + rest
            del self._choices[index]
        if "logprobs" in choice:
            told["logprobs"] = None
        return told

    def _delta(self, delta: dict[str, Any], state: _Choice) -> dict[str, Any]:
        told: dict[str, Any] = {}
        for name, value in delta.items():
            if isinstance(value, str) and name not in _NAMES:
                told[name] = self._text(state, name).feed(value)
            elif name == "tool_calls" and isinstance(value, list):
                told[name] = [self._call(one, state) for one in cast(list[Any], value)]
            elif name == "function_call" and isinstance(value, dict):
                told[name] = self._function(cast(dict[str, Any], value), self._text(state, name, json=True))
            else:
                told[name] = self._leaves(value, name)
        return told

    def _call(self, entry: Any, state: _Choice) -> Any:
        if not isinstance(entry, dict):
            return self._leaves(entry, "")
        said = cast(dict[str, Any], entry)
        call = state.merged.call_of(said)
        if id(call) not in state.calls:
            index = said.get("index")
            state.calls[id(call)] = call, index if isinstance(index, int) else len(state.calls), self._new(True)
        function = said.get("function")
        told = {name: value if name == "function" else self._leaves(value, name) for name, value in said.items()}
        if isinstance(function, dict):
            told["function"] = self._function(cast(dict[str, Any], function), state.calls[id(call)][2])
        return told

    def _function(self, function: dict[str, Any], scanner: Scanner) -> dict[str, Any]:
        return {
            name: scanner.feed(value) if name == _ARGUMENTS and isinstance(value, str) else self._leaves(value, name)
            for name, value in function.items()
        }

    def _text(self, state: _Choice, name: str, *, json: bool = False) -> Scanner:
        if name not in state.texts:
            state.texts[name] = self._new(json)
        return state.texts[name]

    def _flush(self, state: _Choice, delta: dict[str, Any]) -> str:
        """Puts what is held back into the last delta of a choice; returns that of a plain completion."""
        plain = ""
        for name, scanner in state.texts.items():
            rest = scanner.end()
            if name == "text":
                plain = rest
            elif name == "function_call" and rest:
                delta[name] = {_ARGUMENTS: delta.get(name, {}).get(_ARGUMENTS, "") + rest}
            elif rest:
                delta[name] = (delta.get(name) or "") + rest
        ends = [(call, index, rest) for call, index, scanner in state.calls.values() if (rest := scanner.end())]
        if ends:
            entries = [{"index": index, "id": call.id, "function": {_ARGUMENTS: rest}} for call, index, rest in ends]
            delta["tool_calls"] = [*(delta.get("tool_calls") or []), *entries]
        return plain

    def _response_event(self, kind: str, event: dict[str, Any]) -> list[dict[str, Any]]:
        """An event of the Responses API: `….delta` adds to a text, `….done` ends it and says it once more."""
        stem, _, last = kind.rpartition(".")
        key = stem, *(event.get(name) for name in ("item_id", "output_index", "content_index", "summary_index"))
        delta = event.get("delta")
        if last == "delta" and isinstance(delta, str):
            scanner, _ = self._open.get(key) or (self._new(_ARGUMENTS in stem), event)
            told = {**self._leaves({n: v for n, v in event.items() if n != "delta"}, ""), "delta": scanner.feed(delta)}
            self._open[key] = scanner, told
            return [self._numbered(told)]
        before: list[dict[str, Any]] = []
        if last == "done" and key in self._open:
            scanner, opened = self._open.pop(key)
            rest = scanner.end()
            if rest:
                number = event.get("sequence_number", 0)
                before.append(self._numbered({**opened, "delta": rest, "sequence_number": number}))
                self._extra_events += 1
        return [*before, self._numbered(self._leaves(event, ""))]

    def _numbered(self, event: dict[str, Any], *, extra: bool = False) -> dict[str, Any]:
        self._extra_events += extra
        number = event.get("sequence_number")
        return {**event, "sequence_number": number + self._extra_events} if isinstance(number, int) else event

    def _leaves(self, value: Any, name: str) -> Any:
        """Every string in `value` as it may be told."""
        if isinstance(value, str):
            if name in _NAMES or not value:
                return value
            told = self._new(name == _ARGUMENTS).whole(value)
            return value if told == value else told
        if isinstance(value, list):
            items = cast(list[Any], value)
            new = [self._leaves(item, name) for item in items]
            return new if any(one is not old for one, old in zip(new, items, strict=True)) else items
        if isinstance(value, Mapping):
            members = cast(Mapping[str, Any], value)
            told = {
                key: (None if key == "logprobs" else self._leaves(one, key))
                for key, one in members.items()
                if key == "logprobs" or key not in _REPEATING
            }
            same = len(told) == len(members) and all(told[key] is members[key] for key in told)
            return members if same else told
        return value
