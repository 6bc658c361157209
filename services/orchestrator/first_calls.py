"""With which calls a question was begun, remembered: asked again, it need not wait for the model to choose them.

At temperature 0 the model would choose the same. The calls are made as any others: what they find is as new as the
cache of results allows, and the shield judges them anew.
"""

import hashlib
import json
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date

from pydantic import TypeAdapter, ValidationError

from services.orchestrator import metrics, named_model
from services.orchestrator.arguments import WrongArguments
from services.orchestrator.model import ToolCall
from services.orchestrator.refusal import admits
from services.orchestrator.result_cache import FORMAT_VERSION, CacheKey, Fresh, Hit, Miss
from services.orchestrator.results import Reply
from services.orchestrator.run import Run
from services.orchestrator.stopwatch import Part
from services.orchestrator.turn_cache import CacheMode

# Its place in the cache, beside the tools; no tool's name holds a dot.
_NAME = "model.first_calls"
_CALLS = TypeAdapter(list[tuple[str, str]])


@dataclass(frozen=True)
class Remembering:
    """For how long first calls are remembered, 0 is not at all; `usual_model` answers where a request names none."""

    seconds: int = 0
    usual_model: str = ""


@dataclass
class FirstCalls:
    """Those of one run: recalled at its begin, kept at its end where they led to an answer."""

    run: Run
    remembering: Remembering
    _key: CacheKey | None = None
    _miss: Miss | None = None
    _chosen: Sequence[ToolCall] = field(default_factory=tuple[ToolCall, ...])

    async def recall(self) -> Sequence[ToolCall]:
        """The calls with which the same question was begun; none where it was not, or where that may not serve."""
        run = self.run
        if not (self.remembering.seconds and self._may_serve()):
            return ()
        self._key = _key_of(run, named_model.asked(self.remembering.usual_model))
        with run.tools.stopwatch.during(Part.CACHE):
            known = await run.tools.cache.get([(self._key, Reply)], lease=False)
        if known is None:
            return ()
        if isinstance(known[0], Miss) or run.tools.cache_mode is CacheMode.REFRESH:
            self._miss = Miss(known[0].snapshot)
            return ()
        metrics.FIRST_CALLS.labels("recalled").inc()
        return _calls_in(known[0], run)

    def note(self, calls: Sequence[ToolCall]) -> None:
        """Takes the calls of a turn of the model: the first ones are those to keep."""
        self._chosen = self._chosen or calls

    def keep(self) -> None:
        """Remembers what was noted, in the background, where every call worked and the answer says something."""
        run, memory = self.run, self.run.tools.memory
        if self._key is None or self._miss is None or not self._miss.snapshot or not self._chosen:
            return
        failed = run.reason or run.told or memory.failures or memory.failed_tools
        proper = all(_is_proper(call.name, call.arguments_json, run) for call in self._chosen)
        if run.answered and run.found and proper and not failed and not admits(run.answer.text):
            text = json.dumps([[call.name, call.arguments_json] for call in self._chosen])
            kept = Reply(_NAME, "{}", text, trusted=True)
            run.tools.cache.put_later([Fresh(self._key, kept, self.remembering.seconds, (), self._miss)])
            metrics.FIRST_CALLS.labels("kept").inc()

    def _may_serve(self) -> bool:
        run = self.run
        begins = run.parent is None and not run.called_tools and not run.iterations
        return begins and run.tools.cache_mode is not CacheMode.OFF and not run.task.sampling.temperature


def _key_of(run: Run, model: str) -> CacheKey:
    """What the model would choose by: all that it reads but for the marks of this one run. Another day is another."""
    read = [
        model,
        date.today().isoformat(),
        run.task.question,
        [(message.role, message.text) for message in run.task.history],
        [(spec.name, spec.description, spec.parameters) for spec in run.specs],
        sorted(run.tools.toolset.lost),
    ]
    digest = hashlib.sha256(json.dumps(read, sort_keys=True, default=str).encode()).hexdigest()
    return CacheKey(_NAME, json.dumps({"read": digest}), FORMAT_VERSION)


def _calls_in(known: Hit, run: Run) -> Sequence[ToolCall]:
    """The calls of what was kept; none where one of them could not be made."""
    try:
        named = _CALLS.validate_json(known.found.text if isinstance(known.found, Reply) else "")
    except ValidationError:
        return ()
    if not all(_is_proper(name, arguments, run) for name, arguments in named):
        return ()
    return [ToolCall(f"call_{secrets.token_hex(6)}", name, arguments) for name, arguments in named]


def _is_proper(name: str, arguments_json: str, run: Run) -> bool:
    """Whether there is such a tool, and it takes these arguments."""
    tool = run.tools.toolset.tools.get(name)
    try:
        return tool is not None and tool.form.read(arguments_json) is not None
    except WrongArguments:
        return False
