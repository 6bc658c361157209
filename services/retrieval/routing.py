"""Which collections a query is about, by their descriptions: none, one or several."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from services.retrieval.store import Collection, Reader, Store

# What no company's collection is about: a query nearer to these than to every description belongs nowhere. Similarities
# of one model lie close together and differ from model to model, so that they are judged against these.
_ELSEWHERE = (
    "Greetings, thanks, small talk and jokes. Saludos, agradecimientos, charla y chistes.",
    "Weather, sports results, celebrities, films and entertainment. Tiempo, deportes, famosos, cine y espectáculos.",
    "Cooking recipes, pets, gardening and hobbies. Recetas de cocina, mascotas, jardinería y aficiones.",
    "World history, geography and science trivia. Curiosidades de historia universal, geografía y ciencia.",
    "Mathematics exercises, riddles and programming help. Ejercicios de matemáticas, acertijos, ayuda para programar.",
)
# A collection is searched too when it is at least so near, on the way from what is elsewhere (0) to the best (1).
_NEAR = 0.5
# Below the nearest of what is elsewhere by more than this, in similarity, even the best is off topic.
_OFF_TOPIC = 0.0


@dataclass(frozen=True)
class Routed:
    """A collection as routing saw it; `score` compares only within one query."""

    name: str
    score: float
    chosen: bool


class TextEmbedder(Protocol):
    """Embeds with the current model. Both methods raise a ServiceError."""

    async def query_vector(self, text: str) -> Sequence[float]:
        """Dense vector of unit length of a query."""
        ...

    async def document_vectors(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Dense vectors of unit length of texts."""
        ...


class Router:
    """Chooses collections. Remembers the vectors of the descriptions."""

    def __init__(self, store: Store, embedder: TextEmbedder) -> None:
        self._store = store
        self._embedder = embedder
        self._vectors: dict[str, Sequence[float]] = {}

    async def route(self, reader: Reader, query: str, names: Sequence[str]) -> list[Routed]:
        """What is thought of each of the collections `names` (none: of all), best first. Raises NotFound.

        Without a description nothing can be said of a collection, so that it is always searched.
        """
        await self._store.models(reader, names)  # unknown names are refused here as anywhere
        known = [one for one in await self._store.list_collections(reader) if not names or one.name in names]
        described = [one for one in known if one.description]
        blank = [Routed(one.name, 0.0, True) for one in known if not one.description]
        if not described:
            return blank
        await self._learn([*(_text(one) for one in described), *_ELSEWHERE])
        vector = await self._embedder.query_vector(query)
        scores = {one.name: _dot(vector, self._vectors[_text(one)]) for one in described}
        elsewhere = max(_dot(vector, self._vectors[text]) for text in _ELSEWHERE)
        best = max(scores.values())
        if best < elsewhere - _OFF_TOPIC:
            least = math.inf
        else:
            least = elsewhere + _NEAR * (best - elsewhere)
        routed = [Routed(name, score, score >= least) for name, score in scores.items()]
        return sorted(routed, key=lambda one: (-one.score, one.name)) + blank

    async def _learn(self, texts: Sequence[str]) -> None:
        unknown = [text for text in texts if text not in self._vectors]
        if unknown:
            if len(self._vectors) > 10_000:  # descriptions that changed are never asked for again
                self._vectors.clear()
                unknown = list(texts)
            vectors = await self._embedder.document_vectors(unknown)
            self._vectors.update(zip(unknown, vectors, strict=True))


def _text(collection: Collection) -> str:
    return f"{collection.name}: {collection.description}"


def _dot(one: Sequence[float], other: Sequence[float]) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True))
