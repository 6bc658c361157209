"""Runs one tool for a caller that reasons by itself, as a run would: the same checks, time, cache and single flight."""

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from services.orchestrator.arguments import WrongArguments, listed, short_name
from services.orchestrator.dispatch import Dispatcher, Failure, Outcome, ToolSet
from services.orchestrator.events import Suspicion
from services.orchestrator.evidence import Evidence, error_observation, failure_fields
from services.orchestrator.findings import Findings
from services.orchestrator.model import ToolCall
from services.orchestrator.result_cache import ResultCache
from services.orchestrator.results import Source
from services.orchestrator.shield.shield import Shield, Unshielded
from services.orchestrator.shield.tenant_shield import Shields
from services.orchestrator.structured import structured
from services.orchestrator.toolbox import Toolbox
from services.orchestrator.tools import Tool
from services.orchestrator.turn_cache import CacheMode
from services.runtime.context import Identity
from services.runtime.errors import InvalidField, NotFound, NotPermitted

_SCOPE = "tools"
_MAX_ARGUMENTS_CHARS = 256 * 1024
_AT_WORK = {
    "vector_search": "searching the documents",
    "sql_query": "asking the database",
    "web_search": "searching the web",
    "calculate": "calculating",
}


@dataclass(frozen=True)
class Wanted:
    """A call that a caller wrote. `seconds`: time for it; None is that of the tool."""

    name: str
    arguments_json: str = ""
    cache_mode: CacheMode = CacheMode.USE
    seconds: float | None = None


@dataclass(frozen=True)
class Progress:
    """A sign of life: one line for people."""

    message: str


@dataclass(frozen=True)
class Result:
    """What the call gave: `text` as a model reads it, `structured` for programs, `sources` in the order of the text.

    Both have a `warning` where some of it gives orders to a model: what was done about that, as the tenant wants it.
    """

    text: str
    structured: Mapping[str, Any]
    failed: bool = False
    from_cache: bool = False
    duration_seconds: float = 0
    sources: Sequence[Source] = ()


class ToolCalls:
    """Makes single calls."""

    def __init__(
        self,
        toolbox: Toolbox,
        cache: ResultCache,
        *,
        observation_chars: int = 24_000,
        progress_seconds: float = 2,
        findings: Findings | None = None,
        shields: Shields | None = None,
    ) -> None:
        """`observation_chars`: ceiling of `text`; `progress_seconds`: time between two signs of life.

        `shields` judge what tools return; without them everything passes.
        """
        self._toolbox = toolbox
        self._cache = cache
        self._observation_chars = observation_chars
        self._progress_seconds = progress_seconds
        self._findings = findings or Findings()
        self._shields = shields

    async def run(self, wanted: Wanted, caller: Identity, patience: float | None) -> AsyncGenerator[Progress | Result]:
        """Yields signs of life, and the result last. Closing the generator cancels the tool.

        `patience`: seconds that the caller waits; None is for ever. Raises NotPermitted (scope), NotFound (no such
        tool) and InvalidField (arguments that are no JSON object, or not within the schema).
        """
        if _SCOPE not in caller.scopes:
            raise NotPermitted(f"Calling tools needs the scope `{_SCOPE}`.", rule="scope")
        known_by = caller.tenant, caller.principal
        toolset = await self._opened(wanted.name, caller)
        tool = toolset.tools.get(wanted.name)
        seconds = tool.timeout_seconds if tool else 0
        if tool is not None:
            _check(tool, wanted.arguments_json)
        seconds = min(one for one in (wanted.seconds or seconds, patience) if one is not None)
        dispatcher = Dispatcher(toolset, self._cache, wanted.cache_mode, max_calls_per_turn=1, by_model=False)
        started = time.monotonic()
        running = asyncio.create_task(
            _outcome(dispatcher, ToolCall("call", wanted.name, wanted.arguments_json), seconds)
        )
        message = _at_work(wanted.name, toolset)
        try:
            yield Progress(message)
            while not (await asyncio.wait({running}, timeout=self._progress_seconds))[0]:
                yield Progress(f"{message}: {time.monotonic() - started:.0f} s")
            outcome = running.result()
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
        self._findings.note(known_by, toolset.internal)
        shield = self._shields.shield_of(caller.tenant, toolset.tools, "", ()) if self._shields else Unshielded()
        yield await self._result(outcome, shield)

    async def _opened(self, name: str, caller: Identity) -> ToolSet:
        """The one tool. Raises NotFound."""
        names = self._toolbox.names(caller.tenant)
        if name in names:
            said = self._findings.of((caller.tenant, caller.principal))
            toolset = await self._toolbox.open(caller.tenant, only=(name,), labels=caller.labels, said=said)
            if name in toolset.tools or name in toolset.lost:
                return toolset
        raise NotFound(f"There is no tool `{short_name(name)}`; there are: {listed(names)}.", tool=short_name(name))

    async def _result(self, outcome: Outcome, shield: Shield) -> Result:
        found, call = outcome.result, outcome.call
        took, cached = outcome.duration_seconds, outcome.hit is not None
        if isinstance(found, Failure):
            if found.field.startswith("arguments"):  # what the tool's own service found wrong with them
                raise InvalidField(found.message, field=found.field)
            helps = {"code": found.code, "position": found.position, "hint": found.hint}
            message, noted = await shield.admit_message(call, found.message)
            fields = _warning(noted) | failure_fields(call.name, message, **helps)
            return Result(_warned(error_observation(call.name, message, **helps), noted), fields, True, False, took)
        admitted, noted = await shield.admit(call, found)
        evidence = Evidence(self._observation_chars)
        text = _warned(evidence.add(admitted), noted)
        sources = list(evidence.sources.values())
        return Result(text, _warning(noted) | structured(admitted), False, cached, took, sources)


def _warning(noted: Sequence[Suspicion]) -> dict[str, Any]:
    return {"warning": "; ".join(f"{one.action.value}: {one.reason}" for one in noted)} if noted else {}


def _warned(text: str, noted: Sequence[Suspicion]) -> str:
    """An observation, which is a JSON object, with its warning first."""
    if not noted:
        return text
    return json.dumps(_warning(noted) | json.loads(text), ensure_ascii=False, separators=(",", ":"))


async def _outcome(dispatcher: Dispatcher, call: ToolCall, seconds: float) -> Outcome:
    async with aclosing(dispatcher.run([call], seconds)) as outcomes:
        return await anext(outcomes)


def _check(tool: Tool, arguments_json: str) -> None:
    if len(arguments_json) > _MAX_ARGUMENTS_CHARS:
        raise InvalidField(
            f"The arguments have {len(arguments_json)} characters; at most {_MAX_ARGUMENTS_CHARS} are allowed.",
            field="arguments_json",
        )
    try:
        tool.form.read(arguments_json)
    except WrongArguments as error:
        raise InvalidField(str(error), field=error.field) from None


def _at_work(name: str, toolset: ToolSet) -> str:
    tool = toolset.tools.get(name)
    if tool is None:
        return f"{name} is lost"
    return f"asking {tool.origin}" if tool.origin else _AT_WORK.get(name, f"running the reviewed query {name}")
