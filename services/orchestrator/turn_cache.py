"""The cache's part of one turn: one lookup for all calls, waiting for others, keeping and letting go."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from services.orchestrator.result_cache import MAX_ARGUMENTS_CHARS, CacheKey, Fresh, Hit, Miss, ResultCache
from services.orchestrator.results import Found, may_be_kept
from services.orchestrator.tools import Tool


class CacheMode(Enum):
    """How to use the tool cache."""

    USE = "use"
    REFRESH = "refresh"
    OFF = "off"


@dataclass
class TurnCache:
    """Every lease that a lookup brings is ended: by its result, by `let_go`, or by `close`. `lost`: no answer."""

    cache: ResultCache
    mode: CacheMode
    lost: bool = False
    _misses: dict[CacheKey, Miss] = field(default_factory=dict[CacheKey, Miss])
    _fresh: list[Fresh] = field(default_factory=list[Fresh])

    async def look_up(self, wanted: Sequence[tuple[CacheKey, Tool]]) -> Mapping[CacheKey, Hit]:
        """What is known. In the mode REFRESH nothing is, and only the state of the data is asked for."""
        kinds = [(key, tool.result) for key, tool in wanted if tool.cache_ttl_seconds and _fits(key)]
        if not kinds or self.mode is CacheMode.OFF:
            return {}
        known = await self.cache.get(kinds, lease=self.mode is CacheMode.USE)
        if known is None:
            self.lost = True
            return {}
        hits: dict[CacheKey, Hit] = {}
        for (key, _), one in zip(kinds, known, strict=True):
            if isinstance(one, Hit) and self.mode is CacheMode.USE:
                hits[key] = one
            else:
                self._misses[key] = Miss(one.snapshot) if isinstance(one, Hit) else one
        return hits

    async def from_elsewhere(self, key: CacheKey, tool: Tool, seconds: float) -> Hit | None:
        """The result of a call that another caller is making; None where the tool has to run here."""
        miss = self._misses.get(key)
        if miss is None or not miss.made_elsewhere or seconds <= 0:
            return None
        known = await self.cache.wait(key, tool.result, seconds)
        if isinstance(known, Hit):
            return known
        # A wait that was not answered tells no state. That of before it still holds: only older, so it stores less.
        self._misses[key] = known if known.snapshot else Miss(miss.snapshot)
        return None

    @property
    def has_unsaid(self) -> bool:
        """Whether results wait for `flush`."""
        return bool(self._fresh)

    def keep(self, key: CacheKey, tool: Tool, found: Found, sources: Sequence[str]) -> None:
        """Takes a result to be stored at the next `flush`; where it serves only this caller, lets the call go."""
        if key not in self._misses:
            return  # the lookup was not answered: what has changed since then could not be told
        if may_be_kept(found) and self._misses[key].snapshot:
            self._fresh.append(Fresh(key, found, tool.cache_ttl_seconds, tuple(sources), self._misses.pop(key)))
        else:
            self.let_go(key)

    def let_go(self, key: CacheKey) -> None:
        """Ends the lease of a call that has no result to share: whoever waits for it goes on at once."""
        if miss := self._misses.pop(key, None):
            self.cache.release_later([(key, miss.lease)])

    def flush(self) -> None:
        """Stores what was kept since the last time, in the background."""
        fresh, self._fresh = self._fresh, []
        self.cache.put_later(fresh)

    def close(self) -> None:
        """Stores what is left, and ends all leases of calls that did not come to their end."""
        self.flush()
        self.cache.release_later([(key, miss.lease) for key, miss in self._misses.items()])
        self._misses.clear()


def _fits(key: CacheKey) -> bool:
    return len(key.arguments_json) <= MAX_ARGUMENTS_CHARS
