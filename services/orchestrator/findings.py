"""What callers who reason by themselves have lately been told from inside the company: it must not leave on the web."""

import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence

from services.orchestrator.internal_terms import internal_terms
from services.orchestrator.results import Passages, Rows

_MAX_CALLERS = 2_000
# Of each caller; older ones go first.
_MAX_TERMS = 256


class Findings:
    """Codes, addresses and figures by caller, as `internal_terms` finds them, for `ttl_seconds` after the last call.

    A run knows what its own calls found. Calls of MCP come one by one: the caller alone ties them together.
    """

    def __init__(self, ttl_seconds: float = 1_800, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` gives seconds."""
        self._ttl = ttl_seconds
        self._clock = clock
        self._known: OrderedDict[tuple[str, str], tuple[float, dict[str, None]]] = OrderedDict()

    def note(self, caller: tuple[str, str], found: Iterable[Passages | Rows]) -> None:
        """Adds what a caller, (tenant, principal), has been told."""
        terms = dict.fromkeys(term for one in found for term in internal_terms([one], (), ""))
        if not terms:
            return
        earlier = {term: None for term in self.of(caller) if term not in terms}
        newest = list(earlier | terms)[-_MAX_TERMS:]
        self._known[caller] = self._clock() + self._ttl, dict.fromkeys(newest)
        self._known.move_to_end(caller)
        if len(self._known) > _MAX_CALLERS:
            self._known.popitem(last=False)

    def of(self, caller: tuple[str, str]) -> Sequence[str]:
        """What the caller has been told, oldest first."""
        until, terms = self._known.get(caller, (0.0, {}))
        if until <= self._clock():
            self._known.pop(caller, None)
            return ()
        return tuple(terms)
