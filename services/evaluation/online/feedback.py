"""What people said of answers, read from the gateway: joined with the scores of the same answers by their id."""

import logging
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import httpx2

from services.evaluation.online.gauges import Gauges
from services.evaluation.online.store import ScoreStore
from services.runtime.errors import DependencyFailed

log = logging.getLogger(__name__)

_PAGE = 1_000
_MOST_WORDS = 100_000


@dataclass(frozen=True)
class Word:
    """What one person said of one answer, -1 to 1. `who` is whose last word counts; it goes no further than this."""

    answer_id: str
    who: str
    score: float


class Feedback(Protocol):
    """Where what people say is kept."""

    def tenants(self) -> Sequence[str]:
        """Those whose words may be read."""
        ...

    async def since(self, tenant: str, after: str) -> tuple[list[Word], str]:
        """Words that came after the place `after`, oldest first, and the next place. Raises DependencyFailed."""
        ...

    async def close(self) -> None:
        """Lets go."""
        ...


class GatewayFeedback:
    """`GET /v1/feedback` of the gateway, which takes a key with the scope `admin`."""

    def __init__(self, url: str, keys_dir: Path, *, timeout_seconds: float = 10) -> None:
        """`keys_dir`: has a file `<tenant>.key` for each tenant who takes part."""
        self._keys_dir = keys_dir
        self._http = httpx2.AsyncClient(
            base_url=url.rstrip("/"), timeout=timeout_seconds, transport=httpx2.AsyncHTTPTransport(retries=2)
        )

    def tenants(self) -> Sequence[str]:
        """See Feedback."""
        return sorted(file.stem for file in self._keys_dir.glob("*.key"))

    async def since(self, tenant: str, after: str) -> tuple[list[Word], str]:
        """See Feedback."""
        words: list[Word] = []
        while True:
            page = await self._page(tenant, after)
            words += map(_word, page["data"])
            after = page["after"] or (page["data"][-1]["id"] if page["data"] else after)
            if not page["has_more"]:
                return words, after

    async def close(self) -> None:
        """See Feedback."""
        await self._http.aclose()

    async def _page(self, tenant: str, after: str) -> dict[str, Any]:
        try:
            key = (self._keys_dir / f"{tenant}.key").read_text(encoding="utf-8").strip()
            response = await self._http.get(
                "/v1/feedback", params={"after": after, "limit": _PAGE}, headers={"Authorization": f"Bearer {key}"}
            )
        except (OSError, httpx2.HTTPError) as error:
            raise _lost(type(error).__name__) from None
        if response.status_code != 200:
            raise _lost(f"HTTP {response.status_code}")
        return response.json()


class Join:
    """Brings the words to the scores. Remembers so many words; those that are older stay as they were joined."""

    def __init__(self, feedback: Feedback, store: ScoreStore, gauges: Gauges) -> None:
        self._feedback = feedback
        self._store = store
        self._gauges = gauges
        self._after: dict[str, str] = {}
        self._words: OrderedDict[tuple[str, str, str], float] = OrderedDict()

    async def join(self) -> None:
        """Once, for all tenants. Never raises for one that cannot be read: the others are joined still."""
        for tenant in self._feedback.tenants():
            try:
                await self._join(tenant)
            except DependencyFailed as error:
                log.warning("feedback is not joined", extra={"tenant": tenant, "reason": error.message})

    async def close(self) -> None:
        """Lets go."""
        await self._feedback.close()

    async def _join(self, tenant: str) -> None:
        words, after = await self._feedback.since(tenant, self._after.get(tenant, ""))
        for word in words:
            self._words[tenant, word.answer_id, word.who] = word.score
        await self._store.put_feedback(tenant, self._said(tenant, {word.answer_id for word in words}))
        self._gauges.agreed(tenant, await self._store.agreement(tenant))
        self._after[tenant] = after
        while len(self._words) > _MOST_WORDS:
            self._words.popitem(last=False)

    def _said(self, tenant: str, answers: set[str]) -> Mapping[str, list[float]]:
        said: dict[str, list[float]] = {}
        for (whose, answer, _), score in self._words.items():
            if whose == tenant and answer in answers:
                said.setdefault(answer, []).append(score)
        return said


class ScriptedFeedback:
    """Words as given, by tenant; what is added later comes later."""

    def __init__(self) -> None:
        self.words: dict[str, list[Word]] = {}
        self.lost: set[str] = set()

    def tenants(self) -> Sequence[str]:
        """See Feedback."""
        return sorted({*self.words, *self.lost})

    async def since(self, tenant: str, after: str) -> tuple[list[Word], str]:
        """See Feedback."""
        if tenant in self.lost:
            raise _lost("scripted")
        words = self.words[tenant]
        return words[int(after or 0) :], str(len(words))

    async def close(self) -> None:
        """See Feedback."""


def _word(entry: Mapping[str, Any]) -> Word:
    return Word(str(entry["answer_id"]), f"{entry['key']} {entry['user'] or ''}", float(entry["score"]))


def _lost(reason: str) -> DependencyFailed:
    return DependencyFailed(f"Feedback cannot be read from the gateway ({reason}).", dependency="gateway")
