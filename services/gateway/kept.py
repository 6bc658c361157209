"""What is noted down with a stored answer, so that it can be told again as the API told it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from services.gateway.answer import Answer

# What the orchestrator takes.
_MAX_MEMO_CHARS = 65_536
_UNBOUNDED = ("instructions", "user")


@dataclass(frozen=True)
class Memo:
    """When the answer began, in seconds of the epoch, and how it used the cache.

    `echoed`: what a response repeats of its request. `with_steps` and `with_evidence`: what was told besides.
    """

    began: float
    cache_mode: str
    echoed: Mapping[str, Any]
    with_steps: bool
    with_evidence: bool


def memo_of(answer: Answer, echoed: Mapping[str, Any], *, with_steps: bool = False) -> str:
    """The note. What a caller writes at any length is left out where it would make it too long."""
    facts = {"began": answer.began, "cache": answer.cache_mode, "steps": with_steps, "evidence": answer.with_evidence}
    memo = json.dumps({**facts, "echoed": echoed}, ensure_ascii=False)
    if len(memo) <= _MAX_MEMO_CHARS:
        return memo
    return json.dumps({**facts, "echoed": {**echoed, **dict.fromkeys(_UNBOUNDED)}}, ensure_ascii=False)


def read_memo(memo: str) -> Memo:
    """What was noted down."""
    noted: dict[str, Any] = json.loads(memo) if memo else {}
    return Memo(
        noted.get("began", 0.0),
        noted.get("cache", "use"),
        noted.get("echoed", {}),
        noted.get("steps", False),
        noted.get("evidence", False),
    )
