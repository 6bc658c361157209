"""Where earlier questions are kept, by what they say: the interface, and one in this process's memory.

No vectors are kept: texts of one bucket have the same signature, so there are few, and they are embedded together with
the question that looks for them. So there is nothing that another model could have made.
"""

import hashlib
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

# Texts of one bucket, newest first, and those of them that a lookup sees.
MOST_TEXTS, MOST_CANDIDATES = 16, 4


@dataclass(frozen=True)
class Bucket:
    """Texts of one tenant and scope that say the same."""

    tenant: str
    digest: str

    @classmethod
    def of(cls, tenant: str, scope: str, signature: str) -> "Bucket":
        """`scope` is all else that must be equal; `signature` is the text's."""
        return cls(tenant, hashlib.sha256(f"{scope}/{signature}".encode()).hexdigest())


class Index(Protocol):
    """Remembers texts for a while. All methods raise DependencyFailed when the store does not answer."""

    async def texts(self, buckets: Sequence[Bucket]) -> list[list[str]]:
        """The texts of each bucket, those that last longest first, at most MOST_CANDIDATES. Buckets of one tenant."""
        ...

    async def add(self, entries: Sequence[tuple[Bucket, str, int]]) -> None:
        """Remembers texts, each for so many milliseconds from now. Buckets of one tenant."""
        ...

    async def close(self) -> None:
        """Lets go of connections."""
        ...


class MemoryIndex:
    """Forgets the least recently used buckets beyond `most_buckets`. For one process, tests and try-outs."""

    def __init__(self, most_buckets: int = 10_000, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` gives seconds."""
        self._most_buckets = most_buckets
        self._clock = clock
        self._buckets: OrderedDict[Bucket, dict[str, float]] = OrderedDict()

    async def texts(self, buckets: Sequence[Bucket]) -> list[list[str]]:
        now = self._clock()
        answers: list[list[str]] = []
        for bucket in buckets:
            known = self._buckets.get(bucket, {})
            if known:
                self._buckets.move_to_end(bucket)
            alive = sorted(((end, text) for text, end in known.items() if end > now), reverse=True)
            answers.append([text for _, text in alive[:MOST_CANDIDATES]])
        return answers

    async def add(self, entries: Sequence[tuple[Bucket, str, int]]) -> None:
        now = self._clock()
        for bucket, text, ttl_ms in entries:
            known = self._buckets.setdefault(bucket, {})
            known[text] = now + ttl_ms / 1000
            alive = sorted(((end, text) for text, end in known.items() if end > now), reverse=True)
            self._buckets[bucket] = {text: end for end, text in alive[:MOST_TEXTS]}
            self._buckets.move_to_end(bucket)
        while len(self._buckets) > self._most_buckets:
            self._buckets.popitem(last=False)

    async def close(self) -> None:
        """Nothing to do."""
