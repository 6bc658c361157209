"""Finds earlier questions that ask the same in other words: gate, then similarity, then an optional second check.

Whatever goes wrong here is a miss: nothing in this module raises to its caller.
"""

import asyncio
import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, tzinfo
from operator import mul
from typing import Protocol
from zoneinfo import ZoneInfo

from services.runtime.settings import WrongSetting
from services.tool_cache.semantic import metrics
from services.tool_cache.semantic.gate import signature
from services.tool_cache.semantic.index import Bucket, Index
from services.tool_cache.semantic.verifier import Verifier

log = logging.getLogger(__name__)

# Embedded with every comparison: a text must be nearer to its like than to this one, by so much. A model that answers
# the same for everything, or nearly, tells nothing apart.
_CONTRAST = "Why do cats purr when it rains on the moon?"
_LEAST_CONTRAST = 0.05
_MOST_TEXTS = 256
_MOST_WAITING = 256
# A tool takes at most so long: what is stored right after midnight may have been asked before.
_AFTER_MIDNIGHT_SECONDS = 120


@dataclass(frozen=True)
class Question:
    """A text of a tenant, and all else that must be equal: `scope`, hashed."""

    tenant: str
    scope: str
    text: str


@dataclass(frozen=True)
class Match:
    """An earlier text that asks the same, and its cosine similarity."""

    text: str
    similarity: float


@dataclass(frozen=True)
class TextVector:
    """A text's vector; `truncated`: the model did not see all of the text."""

    values: Sequence[float]
    truncated: bool


class Embedder(Protocol):
    """Embeds texts as searches, all by one model."""

    async def embed(self, texts: Sequence[str]) -> list[TextVector]:
        """One vector a text, in order. Raises ServiceError."""
        ...

    async def close(self) -> None:
        """Lets go of connections."""
        ...


class SemanticLayer:
    """Looks for earlier questions, and remembers new ones."""

    def __init__(
        self,
        index: Index,
        embedder: Embedder,
        verifier: Verifier | None = None,
        *,
        time_zone: str = "UTC",
        timeout_seconds: float = 0.5,
        now: Callable[[tzinfo], datetime] = datetime.now,
    ) -> None:
        """`timeout_seconds` for a whole lookup. Raises WrongSetting for an unknown time zone."""
        self._index = index
        self._embedder = embedder
        self._verifier = verifier
        self._zone = _zone(time_zone)
        self._timeout_seconds = timeout_seconds
        self._now = now
        self._adding: set[asyncio.Task[None]] = set()

    def today(self) -> date:
        """The day that "today" means."""
        return self._now(self._zone).date()

    async def open(self) -> None:
        """Reads the vocabularies; connections are made when they are needed."""
        for text in ("How many are there?", "¿Cuántos hay?"):
            signature(text, self.today())

    async def drain(self) -> None:
        """Waits until all is remembered that was to be."""
        await asyncio.gather(*self._adding, return_exceptions=True)

    async def close(self) -> None:
        """Waits for what is being added, and lets go of connections."""
        await self.drain()
        await self._index.close()
        await self._embedder.close()
        if self._verifier is not None:
            await self._verifier.close()

    async def find(self, questions: Sequence[tuple[Question, float]]) -> list[list[Match]]:
        """Earlier questions that ask the same, best first; each with the least similarity that serves, above 0.

        Questions of one tenant. Never raises; lost parts and lack of time are misses.
        """
        try:
            async with asyncio.timeout(self._timeout_seconds):
                found = await self._find(questions)
        except Exception as error:
            log.warning("semantic lookup failed", extra={"reason": type(error).__name__})
            metrics.LOOKUPS.labels("failed").inc(len(questions))
            return [[] for _ in questions]
        for _, outcome in found:
            metrics.LOOKUPS.labels(outcome).inc()
        return [matches for matches, _ in found]

    def add_later(self, items: Sequence[tuple[Question, int]]) -> None:
        """Remembers questions of one tenant whose results were stored, each for so many milliseconds, in a while."""
        if len(self._adding) >= _MOST_WAITING:
            metrics.ADDED.labels("dropped").inc(len(items))
            return
        task = asyncio.create_task(self._add(list(items)))
        self._adding.add(task)
        task.add_done_callback(self._adding.discard)

    async def _add(self, items: Sequence[tuple[Question, int]]) -> None:
        now = self._now(self._zone)
        if now.hour == 0 and now.minute * 60 + now.second < _AFTER_MIDNIGHT_SECONDS:
            metrics.ADDED.labels("midnight").inc(len(items))
            return
        entries: list[tuple[Bucket, str, int]] = []
        for question, ttl_ms in items:
            bucket = _bucket(question, now.date())
            if bucket is None:
                metrics.ADDED.labels("not_comparable").inc()
            elif ttl_ms > 0:
                entries.append((bucket, question.text, ttl_ms))
        if not entries:
            return
        try:
            await self._index.add(entries)
        except Exception as error:
            log.warning("questions were not remembered", extra={"reason": type(error).__name__})
            metrics.ADDED.labels("failed").inc(len(entries))
        else:
            metrics.ADDED.labels("added").inc(len(entries))

    async def _find(self, questions: Sequence[tuple[Question, float]]) -> list[tuple[list[Match], str]]:
        today = self.today()
        buckets = [_bucket(question, today) if least > 0 else None for question, least in questions]
        known = [bucket for bucket in buckets if bucket is not None]
        texts = dict(zip(known, await self._index.texts(known) if known else [], strict=True))
        # The text itself has been looked for exactly.
        candidates = [
            [text for text in texts[bucket] if text != question.text] if bucket is not None else []
            for bucket, (question, _) in zip(buckets, questions, strict=True)
        ]
        vectors = await self._vectors(
            [question.text for (question, _), found in zip(questions, candidates, strict=True) if found]
            + [text for found in candidates for text in found]
        )
        answers: list[tuple[list[Match], str]] = []
        for bucket, (question, least), found in zip(buckets, questions, candidates, strict=True):
            if bucket is None:
                answers.append(([], "not_comparable"))
            elif not found:
                answers.append(([], "no_candidate"))
            else:
                answers.append(await self._judge(question.text, least, found, vectors))
        return answers

    async def _vectors(self, texts: Sequence[str]) -> dict[str, TextVector]:
        """Vectors of the texts and of the one to contrast them with; of none when there are none."""
        if not texts:
            return {}
        wanted = list(dict.fromkeys([_CONTRAST, *texts]))[:_MOST_TEXTS]
        return dict(zip(wanted, await self._embedder.embed(wanted), strict=True))

    async def _judge(
        self, text: str, least: float, candidates: Sequence[str], vectors: dict[str, TextVector]
    ) -> tuple[list[Match], str]:
        own, contrast = vectors.get(text), vectors[_CONTRAST]
        matches: list[Match] = []
        outcome = "dissimilar"
        for candidate in candidates:
            similarity = _cosine(own, vectors.get(candidate))
            unlike = _cosine(own, contrast)
            if similarity is None or unlike is None or similarity - unlike < _LEAST_CONTRAST:
                outcome = "degenerate"
            elif similarity >= least:
                matches.append(Match(candidate, min(similarity, 1.0)))
        matches.sort(key=lambda match: -match.similarity)
        if matches and self._verifier is not None:
            verified = await asyncio.gather(*(self._same(text, match.text) for match in matches))
            matches = [match for match, same in zip(matches, verified, strict=True) if same]
            outcome = "unverified"
        return matches, "hit" if matches else outcome

    async def _same(self, one: str, other: str) -> bool:
        try:
            return self._verifier is not None and await self._verifier.same(one, other)
        except Exception as error:
            log.warning("the second check failed", extra={"reason": type(error).__name__})
            return False


def _zone(name: str) -> tzinfo:
    try:
        return UTC if name == "UTC" else ZoneInfo(name)
    except (ValueError, OSError, KeyError):
        raise WrongSetting(f"there is no time zone `{name}`", "SABUESO_SEMANTIC_TIME_ZONE") from None


def _bucket(question: Question, today: date) -> Bucket | None:
    said = signature(question.text, today)
    return None if said is None else Bucket.of(question.tenant, question.scope, said.digest)


def _cosine(one: TextVector | None, other: TextVector | None) -> float | None:
    """None where the vectors say nothing of the whole texts: cut, empty, not finite, of different lengths."""
    if one is None or other is None or one.truncated or other.truncated or len(one.values) != len(other.values):
        return None
    lengths = math.hypot(*one.values) * math.hypot(*other.values)
    cosine = sum(map(mul, one.values, other.values)) / lengths if lengths else math.nan
    return cosine if math.isfinite(cosine) else None
