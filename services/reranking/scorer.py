"""What a scorer is, the one that needs no model of its own (late interaction), and the fake."""

import asyncio
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
HalfFloats = NDArray[np.float16]


@dataclass(frozen=True)
class Scored:
    """A query or a candidate: its text, and its token vectors [tokens, dimensions] where they are known.

    `truncated`: the token vectors are of the head of the text only.
    """

    text: str
    token_vectors: HalfFloats | None = None
    truncated: bool = False


@dataclass(frozen=True)
class Scores:
    """One score a candidate, in order; and which candidates were longer than the window, their tails not scored."""

    values: Floats
    truncated: Sequence[bool]


class CannotScore(ValueError):
    """A candidate cannot be compared with the query; `field` names it."""

    def __init__(self, message: str, field: str) -> None:
        super().__init__(message)
        self.field = field


class BrokenModel(RuntimeError):
    """The model answered scores that are not finite, or of an unexpected shape; the message names the model."""


class Scorer(Protocol):
    """Scores candidates against a query; higher is better, comparable only within one call."""

    @property
    def model(self) -> str:
        """Name and revision."""
        ...

    @property
    def reads_token_vectors(self) -> bool:
        """True: reads token vectors, and texts where there are none. False: reads texts."""
        ...

    async def score(self, query: Scored, candidates: Sequence[Scored]) -> Scores:
        """Raises CannotScore, BrokenModel, Overloaded, and what a server that is asked raises."""
        ...

    async def close(self) -> None:
        """Stops; whoever waits is cancelled."""
        ...


class LocalScorer(Protocol):
    """Computes scores in this process, in two steps: the event loop fetches, a worker thread computes."""

    @property
    def model(self) -> str:
        """As of a Scorer."""
        ...

    @property
    def reads_token_vectors(self) -> bool:
        """As of a Scorer."""
        ...

    async def prepare(self, query: Scored, candidates: Sequence[Scored]) -> tuple[Scored, Sequence[Scored]]:
        """Fetches what `compute` needs. Raises CannotScore, and what the fetching raises."""
        ...

    def compute(self, query: Scored, candidates: Sequence[Scored]) -> Scores:
        """Runs in a worker thread. Raises BrokenModel."""
        ...


@dataclass(frozen=True)
class TokenVectors:
    """Of one text [tokens, dimensions]; `truncated`: of its head only."""

    rows: HalfFloats
    truncated: bool = False


class TokenEmbedder(Protocol):
    """Gives the token vectors of texts."""

    async def query(self, text: str) -> TokenVectors:
        """Token vectors of a search."""
        ...

    async def documents(self, texts: Sequence[str]) -> list[TokenVectors]:
        """Token vectors of passages, in order."""
        ...


class MaxSimScorer:
    """Late interaction: the mean over the query's tokens of the best match among the passage's tokens.

    ColBERT's MaxSim (Khattab and Zaharia 2020, section 3.3), averaged so that the length of the query does not matter.
    """

    model = "maxsim"
    reads_token_vectors = True

    def __init__(self, embedder: TokenEmbedder) -> None:
        """`embedder` is asked for what comes without token vectors."""
        self._embedder = embedder

    async def prepare(self, query: Scored, candidates: Sequence[Scored]) -> tuple[Scored, Sequence[Scored]]:
        """Embeds what has no token vectors. Raises CannotScore when vectors of two models meet."""
        query, candidates = await asyncio.gather(self._with_vectors(query), self._all_with_vectors(candidates))
        for n, candidate in enumerate(candidates):
            found, wanted = _rows(candidate).shape[1], _rows(query).shape[1]
            if found != wanted:
                raise CannotScore(
                    f"has {found} dimensions and the query {wanted}: they come from different models",
                    f"candidates[{n}].token_vectors",
                )
        return query, candidates

    def compute(self, query: Scored, candidates: Sequence[Scored]) -> Scores:
        """Scores from -1 to 1; one matrix product for all candidates."""
        lengths = [len(_rows(candidate)) for candidate in candidates]
        tokens = np.concatenate([_rows(candidate) for candidate in candidates]).astype(np.float32)
        similarity = tokens @ _rows(query).astype(np.float32).T
        starts = np.cumsum([0, *lengths[:-1]])
        best = np.maximum.reduceat(similarity, starts, axis=0)
        return Scores(best.mean(axis=1), [candidate.truncated for candidate in candidates])

    async def _with_vectors(self, query: Scored) -> Scored:
        if query.token_vectors is not None:
            return query
        return replace(query, token_vectors=(await self._embedder.query(query.text)).rows)

    async def _all_with_vectors(self, candidates: Sequence[Scored]) -> list[Scored]:
        missing = [n for n, candidate in enumerate(candidates) if candidate.token_vectors is None]
        complete = list(candidates)
        if missing:
            vectors = await self._embedder.documents([candidates[n].text for n in missing])
            for n, one in zip(missing, vectors, strict=True):
                complete[n] = replace(candidates[n], token_vectors=one.rows, truncated=one.truncated)
        return complete


def _rows(scored: Scored) -> HalfFloats:
    if scored.token_vectors is None:
        raise ValueError("call prepare first")
    return scored.token_vectors


class OverlapScorer:
    """Scores by shared words: which part of the query's words the text holds. Needs no model."""

    model = "overlap"
    reads_token_vectors = False
    _WORD = re.compile(r"\w+")

    async def prepare(self, query: Scored, candidates: Sequence[Scored]) -> tuple[Scored, Sequence[Scored]]:
        """Nothing to fetch."""
        return query, candidates

    def compute(self, query: Scored, candidates: Sequence[Scored]) -> Scores:
        """From 0 to 1."""
        wanted = self._words(query.text)
        shares = [len(wanted & self._words(candidate.text)) / max(1, len(wanted)) for candidate in candidates]
        return Scores(np.array(shares, np.float32), [False] * len(shares))

    def _words(self, text: str) -> set[str]:
        plain = unicodedata.normalize("NFKD", text).casefold()
        return set(self._WORD.findall("".join(c for c in plain if not unicodedata.combining(c))))
