"""robots.txt: fetched through the same guard as pages, kept for an hour, obeyed as RFC 9309 says."""

import asyncio
import re
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

import protego

from services.runtime.errors import DeadlineExceeded, DependencyFailed, NotFound, NotPermitted
from services.web_tool.fetch import AGENT, Fetcher
from services.web_tool.policy import Policy, Target

_MAX_BYTES = 500 * 1024
_FETCH_SECONDS = 3
_KEPT_SECONDS = 3600
# A host whose robots.txt cannot be read now is left alone for so long.
_CLOSED_SECONDS = 60
_MAX_HOSTS = 1024
_GROUP = re.compile(r"^[ \t]*user[ -]?agent[ \t]*:?[ \t]*([^\r\n#]*)", re.IGNORECASE | re.MULTILINE)


@dataclass(frozen=True)
class _Rules:
    """What a host says; `parsed` is None where it says nothing, and `is_closed` where it could not be asked."""

    expires: float
    parsed: protego.Protego | None = None
    is_closed: bool = False


class Robots:
    """Rules of hosts for our agent."""

    def __init__(self, fetcher: Fetcher, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._fetcher = fetcher
        self._clock = clock
        # The least recently used first.
        self._rules: OrderedDict[str, _Rules] = OrderedDict()
        self._fetching: dict[str, asyncio.Lock] = {}

    async def check(self, target: Target, policy: Policy) -> None:
        """Raises NotPermitted (rule `robots`) when the host asks us not to read it, or cannot be asked now.

        Raises what the fetch of robots.txt raises where the guard refuses that.
        """
        if not policy.robots or policy.is_exception(target):
            return
        rules = await self._rules_of(target, policy)
        if rules.is_closed:
            raise NotPermitted(f"`{target.host}` cannot say now what may be read (robots.txt).", rule="robots")
        if rules.parsed is not None and not rules.parsed.can_fetch(target.url, AGENT):
            raise NotPermitted(f"`{target.host}` asks not to read this page (robots.txt).", rule="robots")

    async def _rules_of(self, target: Target, policy: Policy) -> _Rules:
        if (rules := self._kept(target.origin)) is not None:
            return rules
        lock = self._fetching.setdefault(target.origin, asyncio.Lock())
        try:
            async with lock:
                if (rules := self._kept(target.origin)) is None:
                    rules = await self._fetch(target, policy)
                    self._keep(target.origin, rules)
                return rules
        finally:
            # Who waits holds the lock itself; who comes now finds the rules.
            self._fetching.pop(target.origin, None)

    async def _fetch(self, target: Target, policy: Policy) -> _Rules:
        now = self._clock()
        try:
            async with asyncio.timeout(_FETCH_SECONDS):
                page = await self._fetcher.fetch(f"{target.origin}/robots.txt", policy, max_bytes=_MAX_BYTES)
        except NotFound as error:
            if "status_code" not in error.metadata:
                raise
            return _Rules(now + _KEPT_SECONDS)
        except NotPermitted as error:
            # Not kept: it may be the policy of one tenant that forbids it.
            if error.metadata.get("rule") != "status":
                raise
            return _Rules(now + _KEPT_SECONDS)
        except DependencyFailed as error:
            if "status_code" not in error.metadata:
                raise
            return _Rules(now + _CLOSED_SECONDS, is_closed=True)
        except TimeoutError:
            raise DeadlineExceeded(f"robots.txt was not read within {_FETCH_SECONDS} s.", stage="robots") from None
        text = page.body.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace")
        return _Rules(now + _KEPT_SECONDS, await asyncio.to_thread(parse, text))

    def _kept(self, origin: str) -> _Rules | None:
        rules = self._rules.get(origin)
        if rules is None or rules.expires <= self._clock():
            return None
        self._rules.move_to_end(origin)
        return rules

    def _keep(self, origin: str, rules: _Rules) -> None:
        self._rules[origin] = rules
        self._rules.move_to_end(origin)
        if len(self._rules) > _MAX_HOSTS:
            self._rules.popitem(last=False)


def parse(text: str) -> protego.Protego:
    """The rules of a robots.txt.

    Those for others are put into one group first: ten thousand agents with ten thousand rules in common would take
    gigabytes.
    """
    lines = "\n".join(text.splitlines())
    return protego.Protego.parse(_GROUP.sub(_grouped, lines))


def _grouped(found: re.Match[str]) -> str:
    name = found[1].strip().lower()
    return found[0] if name in (AGENT, "*") else "user-agent: others"
