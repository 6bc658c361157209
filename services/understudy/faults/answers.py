"""Bodies of answers in OpenAI's forms, as vLLM writes them."""

import base64
import itertools
import json
import math
import re
import struct
from collections.abc import Iterator, Mapping
from typing import Any, cast

from services.understudy.faults.script import Load, Script

_WORDS = re.compile(r"\S+\s*|\s+")


def dumps(value: Any) -> str:
    """JSON as vLLM writes it: no spaces, no escapes."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def pieces_of(script: Script) -> list[str]:
    """The text, an event each."""
    once = list(script.pieces) if script.pieces is not None else _WORDS.findall(script.text)
    return once * script.repeat


def error_body(status: int) -> dict[str, Any]:
    """What vLLM says of a failure."""
    message, kind = ("Too many requests.", "RateLimitError") if status == 429 else ("It failed.", "ServerError")
    return {"error": {"message": message, "type": kind, "param": None, "code": status}}


class Stream:
    """Events of a streamed answer: `content` is what counts as an event, `ending` what follows it."""

    def __init__(self, script: Script, path: str, asked: Mapping[str, Any]) -> None:
        self._script = script
        self._chat = path.endswith("/chat/completions")
        self._model = str(asked.get("model", "mini-1"))
        options = asked.get("stream_options")
        wanted = isinstance(options, dict) and bool(cast(dict[str, Any], options).get("include_usage"))
        self._usage = script.usage if wanted or script.usage_when == "always" else "none"
        choices = asked.get("n")
        self._choices = range(choices if isinstance(choices, int) and choices > 0 else 1)
        self._sent = 0

    def opening(self) -> list[str]:
        """Before the content."""
        if not (self._chat and self._script.role_chunk):
            return []
        return [self._chunk(index, {"role": "assistant", "content": ""}) for index in self._choices]

    def content(self) -> Iterator[str]:
        """One by one; the last for ever where the script is endless."""
        last: tuple[int, dict[str, Any]] = (0, {"content": "x"})
        for text, index in itertools.product(pieces_of(self._script), self._choices):
            last = (index, {"content": text})
            yield self._counted(*last)
        for calls in self._script.tool_deltas:
            yield self._counted(0, {"tool_calls": list(calls)})
        while self._script.ending == "endless":
            yield self._counted(*last)

    def ending(self) -> list[str]:
        """Finish, usage, `[DONE]`, as far as the script has them."""
        events: list[str] = []
        if self._script.finish_reason is not None:
            for index in self._choices:
                last = index == self._choices[-1] and self._usage == "with_finish"
                events.append(self._chunk(index, {}, self._script.finish_reason, with_usage=last))
        if self._usage in ("last", "null_then_last", "every"):
            events.append(dumps(self._head() | {"choices": [], "usage": self._count()}))
        return [*events, "[DONE]"] if self._script.done else events

    def _counted(self, index: int, delta: dict[str, Any]) -> str:
        self._sent += 1
        return self._chunk(index, delta)

    def _chunk(self, index: int, delta: dict[str, Any], finish: str | None = None, *, with_usage: bool = False) -> str:
        said = {"delta": delta} if self._chat else {"text": delta.get("content", "")}
        chunk = self._head() | {"choices": [{"index": index, **said, "logprobs": None, "finish_reason": finish}]}
        if self._usage == "null_then_last":
            chunk["usage"] = None
        elif self._usage == "every" or with_usage:
            chunk["usage"] = self._count()
        return dumps(chunk)

    def _head(self) -> dict[str, Any]:
        kind = "chat.completion.chunk" if self._chat else "text_completion"
        return {"id": "cmpl-1", "object": kind, "created": 1760000000, "model": self._model}

    def _count(self) -> dict[str, int]:
        return usage(self._script, self._sent)


def usage(script: Script, events: int) -> dict[str, int]:
    """Tokens, as the script says or one an event."""
    completion = events if script.completion_tokens is None else script.completion_tokens
    total = script.prompt_tokens + completion
    return {"prompt_tokens": script.prompt_tokens, "total_tokens": total, "completion_tokens": completion}


def whole(script: Script, path: str, asked: Mapping[str, Any]) -> dict[str, Any]:
    """An answer in one piece, of whatever endpoint."""
    model = asked.get("model", "mini-1")
    if path.endswith("/embeddings"):
        return _embeddings(script, asked)
    if path.endswith("/rerank"):
        return _ranking(script, asked)
    pieces = pieces_of(script)
    count = usage(script, len(pieces) + len(script.tool_deltas))
    head = {"id": "cmpl-1", "created": 1760000000, "model": model, "usage": count}
    if path.endswith("/completions") and not path.endswith("/chat/completions"):
        choice = {"index": 0, "text": "".join(pieces), "logprobs": None, "finish_reason": script.finish_reason}
        return head | {"object": "text_completion", "choices": [choice]}
    message: dict[str, Any] = {"role": "assistant", "content": "".join(pieces)}
    if script.tool_deltas:
        message["tool_calls"] = list(itertools.chain.from_iterable(script.tool_deltas))
    choice = {"index": 0, "message": message, "finish_reason": script.finish_reason}
    return head | {"object": "chat.completion", "choices": [choice]}


def models(names: tuple[str, ...]) -> dict[str, Any]:
    """Body of GET /v1/models."""
    return {"object": "list", "data": [{"id": name, "object": "model", "owned_by": "vllm"} for name in names]}


def metrics(load: Load, model: str) -> str:
    """The load under vLLM's names, in Prometheus' text form."""
    labels = f'{{engine="0",model_name="{model}"}}'
    figures = {
        "num_requests_running": load.running,
        "num_requests_waiting": load.waiting,
        "kv_cache_usage_perc": load.kv_cache_usage,
    }
    lines = (f"# TYPE vllm:{name} gauge\nvllm:{name}{labels} {value}\n" for name, value in figures.items())
    return "".join(lines)


def _embeddings(script: Script, asked: Mapping[str, Any]) -> dict[str, Any]:
    given = asked.get("input", "")
    count = len(cast(list[Any], given)) if isinstance(given, list) else 1
    vectors = [[math.sin(1 + i + d) for d in range(script.dimensions)] for i in range(count)]
    in_base64 = asked.get("encoding_format") == "base64"
    coded = [base64.b64encode(struct.pack(f"<{len(v)}f", *v)).decode() if in_base64 else v for v in vectors]
    entries = [{"object": "embedding", "index": index, "embedding": vector} for index, vector in enumerate(coded)]
    tokens = {"prompt_tokens": script.prompt_tokens, "total_tokens": script.prompt_tokens, "completion_tokens": 0}
    return {"id": "embd-1", "object": "list", "model": asked.get("model", "mini-1"), "data": entries, "usage": tokens}


def _ranking(script: Script, asked: Mapping[str, Any]) -> dict[str, Any]:
    documents: list[Any] = asked.get("documents") or []
    # Neither sorted nor cut to top_n, as some servers answer.
    results = [
        {"index": index, "relevance_score": round(abs(math.sin(3 * index + 1)), 6)} for index in range(len(documents))
    ]
    tokens = {"total_tokens": script.prompt_tokens}
    return {"id": "rank-1", "model": asked.get("model", "mini-1"), "usage": tokens, "results": results}
