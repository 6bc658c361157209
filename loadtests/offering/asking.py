"""Asks one question the way its scenario does, and says what became of it."""

import json
import math
import time
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any, cast

import gevent

from loadtests.answers import Question, StreamedAnswer, request
from loadtests.measuring import percentile
from loadtests.offering.connections import Broken, Connections, Reply
from loadtests.offering.plan import Load, Row, Tenant
from loadtests.offering.samples import Sample

_REFUSALS = (429, 503)
# Of an error in a stream that had begun: a limit that a turn of the model met.
_LIMIT_ERROR = "rate_limit_error"
_UNRELATED = "The harbour of Vigo opened in 1883."


class Asker:
    """Asks as the tenants whose `keys` it has. Times of samples count from `began`, by time.perf_counter."""

    def __init__(self, load: Load, connections: Connections, keys: Mapping[Tenant, str], began: float) -> None:
        self._load = load
        self._connections = connections
        self._keys = keys
        self._began = began
        self._models: dict[str, str] = {}
        self._ways: dict[str, Callable[[Row, Question, _Attempt], None]] = {
            "agent": self._agent,
            "chat": self._chat,
            "embeddings": self._embeddings,
        }

    def ask(self, row: Row, question: Question, due: float, warm_up: bool) -> Sample:
        """Waits for the whole answer, but for no longer than the load allows; never raises."""
        attempt = _Attempt(time.perf_counter())
        timeout = gevent.Timeout(self._load.longest_seconds)
        timeout.start()
        try:
            self._ways[row.scenario.kind](row, question, attempt)
        except Broken as error:
            attempt.problem = str(error)
        except gevent.Timeout as late:
            if late is not timeout:
                raise
            attempt.problem = f"no answer after {self._load.longest_seconds:g} s"
        finally:
            timeout.close()
        return attempt.sample(row, question, due, self._began, warm_up)

    def _agent(self, row: Row, question: Question, attempt: "_Attempt") -> None:
        scenario = row.scenario
        body = request(question.text, stream=True, cache=scenario.cache, strategy=scenario.strategy)
        self._stream(row, body, question, attempt)
        took = attempt.answer.summary.get("iterations")
        if not attempt.problem and not attempt.refused and scenario.turns not in (None, took):
            attempt.problem = f"it took {took} turns of the model, not {scenario.turns}"

    def _chat(self, row: Row, question: Question, attempt: "_Attempt") -> None:
        messages = [{"role": "user", "content": question.text}]
        body = {"model": self._model(row, "pool"), "stream": True, "max_tokens": 200, "messages": messages}
        self._stream(row, body, question, attempt)

    def _stream(self, row: Row, body: Mapping[str, Any], question: Question, attempt: "_Attempt") -> None:
        key = self._keys[row.scenario.tenant]
        with self._connections.ask("POST", "/v1/chat/completions", key, body) as reply:
            if not attempt.accepts(reply):
                return
            for line in reply.lines():
                attempt.answer.feed(line, time.perf_counter())
        attempt.judge(question)

    def _embeddings(self, row: Row, question: Question, attempt: "_Attempt") -> None:
        texts = [question.text, _UNRELATED, question.text]
        body = {"model": self._model(row, "embedding"), "input": texts}
        key = self._keys[row.scenario.tenant]
        with self._connections.ask("POST", "/v1/embeddings", key, body) as reply:
            if not attempt.accepts(reply):
                return
            attempt.answer.first_event = time.perf_counter()
            content = reply.body()
        try:
            vectors = [one["embedding"] for one in json.loads(content)["data"]]
        except (ValueError, KeyError, TypeError):
            attempt.problem = "the answer is no list of vectors"
            return
        attempt.problem = _problem_of(vectors)

    def _model(self, row: Row, owner: str) -> str:
        """Name of a model of this kind; asked for once."""
        if owner not in self._models:
            with self._connections.ask("GET", "/v1/models", self._keys[row.scenario.tenant]) as reply:
                content = reply.body()
            try:
                found = {one["owned_by"]: one["id"] for one in json.loads(content)["data"]}
                self._models[owner] = found[owner]
            except (ValueError, KeyError, TypeError):
                raise Broken(f"GET /v1/models names no model of the {owner}") from None
        return self._models[owner]


class _Attempt:
    """What is known of a request while it runs."""

    def __init__(self, sent: float) -> None:
        self.sent = sent
        self.status = 0
        self.refused = False
        self.problem = ""
        self.reason = ""
        self.stages: dict[str, float] = {}
        self.answer = StreamedAnswer(sent)

    def accepts(self, reply: Reply) -> bool:
        """Whether an answer follows; what else it is, is noted."""
        self.status = reply.status
        self.stages = server_timing(reply.header("server-timing"))
        if reply.status == 200:
            return True
        content = reply.body()
        wait = reply.header("retry-after")
        if reply.status in _REFUSALS and wait.isdecimal():
            self.refused, self.reason = True, _of_error(content, "code")
        elif reply.status in _REFUSALS:
            self.problem = f"status {reply.status} that does not say when to come again"
        else:
            self.problem = f"status {reply.status}: {_of_error(content, 'message')}"
        return False

    def judge(self, question: Question) -> None:
        """Looks at a stream that has ended."""
        if self.answer.error_type == _LIMIT_ERROR:
            self.refused, self.reason = True, self.answer.error_code
        else:
            self.problem = self.answer.problem(question)

    def sample(self, row: Row, question: Question, due: float, began: float, warm_up: bool) -> Sample:
        """All that is kept of it."""
        answer = self.answer
        gaps = [1000 * (later - earlier) for earlier, later in pairwise(answer.token_times)]
        return Sample(
            scenario=row.name,
            tenant=row.scenario.tenant,
            question=question.id,
            due=due,
            sent=self.sent - began,
            first_event=_since(began, answer.first_event),
            first_token=_since(began, answer.first_token),
            ended=time.perf_counter() - began,
            status=self.status,
            problem=f"{question.id}: {self.problem}" if self.problem else "",
            refused=self.refused,
            finish=self.reason or answer.finish or answer.finish_reason,
            degraded=bool(answer.summary.get("degraded")),
            stages_ms=self.stages or numbers(answer.summary.get("timings_ms")),
            gap_ms_p50=percentile(gaps, 50) if gaps else None,
            gap_ms_max=max(gaps, default=None),
            warm_up=warm_up,
        )


def server_timing(header: str) -> dict[str, float]:
    """Milliseconds by stage, of a `Server-Timing` header (W3C); parts without a duration are left out."""
    found: dict[str, float] = {}
    for part in header.split(","):
        name, *parameters = (word.strip() for word in part.split(";"))
        for parameter in parameters:
            if parameter.lower().startswith("dur="):
                try:
                    found[name] = float(parameter[4:].strip('" '))
                except ValueError:
                    continue
    return {name: value for name, value in found.items() if name and math.isfinite(value)}


def numbers(told: Any) -> dict[str, float]:
    """The entries that are numbers."""
    entries = cast(dict[str, Any], told) if isinstance(told, dict) else {}
    return {name: float(value) for name, value in entries.items() if isinstance(value, int | float)}


def _problem_of(vectors: list[list[float]]) -> str:
    """What is wrong with the vectors of a text, another, and the text again; empty when they are as they should be."""
    if len(vectors) != 3 or len({len(one) for one in vectors}) != 1 or not all(any(one) for one in vectors):
        return "there is not one vector of one length for each text"
    text, other, again = vectors
    if _cosine(text, again) < 0.999:
        return "the same text has two vectors"
    return "two texts have the same vector" if _cosine(text, other) > 0.999 else ""


def _cosine(one: list[float], other: list[float]) -> float:
    dot = sum(a * b for a, b in zip(one, other, strict=True))
    return dot / math.hypot(*one) / math.hypot(*other)


def _of_error(content: bytes, field: str) -> str:
    try:
        return str(json.loads(content)["error"][field])[:200]
    except (ValueError, KeyError, TypeError):
        return content[:200].decode(errors="replace")


def _since(began: float, at: float) -> float | None:
    return at - began if math.isfinite(at) else None
