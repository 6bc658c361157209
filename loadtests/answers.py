"""Questions with what is true, and a streamed answer as it comes in: what it says, and when."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

# Those of the demo, and some of several steps that only measuring needs.
_QUESTIONS = (Path(__file__).parents[1] / "demo" / "questions.yaml", Path(__file__).with_name("questions.yaml"))
# Numbers are set with no-break spaces of several widths; the expected texts are written with plain ones.
_SPACES = str.maketrans({"\u00a0": " ", "\u202f": " ", "\u2009": " "})


@dataclass(frozen=True)
class Question:
    """`contains`: what a true answer says, each in any of several forms."""

    id: str
    text: str
    contains: Sequence[Sequence[str]]

    def missing(self, answer: str) -> list[str]:
        """What `answer` should say and does not; empty for a true one."""
        said = answer.translate(_SPACES).casefold()
        return [forms[0] for forms in self.contains if not any(form.casefold() in said for form in forms)]


def known_questions(*files: Path) -> Mapping[str, Question]:
    """Questions by id: those of these files, or of the demo without any."""
    entries = (one for path in files or _QUESTIONS for one in yaml.safe_load(path.read_text(encoding="utf-8")))
    return {one["id"]: Question(one["id"], one["question"], one["contains"]) for one in entries}


def questions(*ids: str) -> list[Question]:
    """The questions of these ids, in this order. Raises KeyError for an unknown one."""
    known = known_questions()
    return [known[one] for one in ids]


def request(question: str, *, stream: bool, cache: str = "use", strategy: str = "") -> dict[str, Any]:
    """The body of a chat completion of the agent. `strategy`: empty leaves it to the server."""
    extras = {"cache": cache, "include_steps": stream} | ({"strategy": strategy} if strategy else {})
    return {
        "model": "sabueso",
        "stream": stream,
        "messages": [{"role": "user", "content": question}],
        "sabueso": extras,
    }


@dataclass
class StreamedAnswer:
    """Takes the lines of one answer's Server-Sent Events. Times are those of the caller's clock, in seconds."""

    started: float
    first_event: float = math.inf
    first_token: float = math.inf
    summary: dict[str, Any] = field(default_factory=dict[str, Any])
    error: str = ""
    error_type: str = ""
    error_code: str = ""
    finish_reason: str = ""
    token_times: list[float] = field(default_factory=list[float])
    done: bool = False
    _text: list[str] = field(default_factory=list[str])

    @property
    def finish(self) -> str:
        """How the run ended; empty while it has not."""
        return self.summary.get("finish", "")

    @property
    def text(self) -> str:
        """What was said so far."""
        return "".join(self._text)

    def milliseconds_to_first_event(self) -> float:
        """Infinite while there was none."""
        return 1000 * (self.first_event - self.started)

    def milliseconds_to_first_token(self) -> float:
        """To the first word of the answer. Infinite while there was none."""
        return 1000 * (self.first_token - self.started)

    def feed(self, line: str, now: float) -> None:
        """Takes a line that arrived at `now`; comments and empty lines are signs of life and no events."""
        if not line.startswith("data:"):
            return
        self.first_event = min(self.first_event, now)
        said = line.removeprefix("data:").strip()
        if said == "[DONE]":
            self.done = True
            return
        try:
            event: dict[str, Any] = json.loads(said)
        except ValueError:
            self.error = self.error or "an event is not JSON"
            return
        if "error" in event:
            self.error = self.error or str(event["error"].get("message", "error"))
            self.error_type = self.error_type or str(event["error"].get("type", ""))
            self.error_code = self.error_code or str(event["error"].get("code", ""))
        said_of_it: dict[str, Any] = event.get("sabueso") or {}
        if "finish" in said_of_it:
            self.summary = said_of_it
        for choice in event.get("choices", ()):
            self.finish_reason = choice.get("finish_reason") or self.finish_reason
            delta: dict[str, Any] = choice.get("delta") or {}
            if text := delta.get("content"):
                self.first_token = min(self.first_token, now)
                self.token_times.append(now)
                self._text.append(text)

    def problem(self, question: Question) -> str:
        """Why this is not a complete and true answer; empty when it is."""
        if self.error:
            return self.error
        if not self.done or not self._text:
            return "the stream ended before the answer did"
        missing = question.missing(self.text)
        return f"the answer does not say {', '.join(missing)}" if missing else ""
