"""Which collections a query is about, by their descriptions: none, one or several."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from services.retrieval.codes import named
from services.retrieval.store import Collection, QueryVectors

# What no company's collection is about: a query nearer to these than to every description belongs nowhere. Similarities
# of one model lie close together and differ from model to model, so that they are judged against these. Some are as
# short as queries are, because texts of like length are nearer to each other.
_ELSEWHERE = (
    "Hello, how are you? Thanks, goodbye.",
    "Hola, ¿qué tal estás? Gracias, adiós.",
    "Tell me a joke.",
    "Cuéntame un chiste.",
    "What is the weather like today?",
    "¿Qué tiempo hace hoy?",
    "Who won the match yesterday? Sports, celebrities, films, music.",
    "¿Quién ganó el partido de ayer? Deportes, famosos, cine, música.",
    "A recipe for an omelette; pets, gardening, hobbies.",
    "Una receta de tortilla; mascotas, jardinería, aficiones.",
    "What is the capital of Australia? History, geography and science trivia.",
    "¿Cuál es la capital de Australia? Curiosidades de historia, geografía y ciencia.",
    "Solve this equation; write a poem; fix my program.",
    "Resuelve esta ecuación; escribe un poema; arregla mi programa.",
)
# In deviations of the similarities to what is elsewhere. Above `_SURE` the best collection is chosen, with those that
# are within `_NEAR` of it; below `_OFF_TOPIC`, and by `_OFF_TOPIC_LEAST` in similarity, nothing is. In between, and for
# a name that no description holds, nothing can be said, and all are searched: to miss an answer is worse than to look.
_SURE, _NEAR = 0.5, 1.0
_OFF_TOPIC, _OFF_TOPIC_LEAST = 2.2, 0.055
_LEAST_DEVIATION = 0.005


@dataclass(frozen=True)
class Routed:
    """A collection as routing saw it; `score` compares only within one query."""

    name: str
    score: float
    chosen: bool


class TextEmbedder(Protocol):
    """Embeds with the current model. All methods raise a ServiceError."""

    async def model(self) -> str:
        """Name and revision of the current model."""
        ...

    async def query_vector(self, text: str) -> Sequence[float]:
        """Dense vector of unit length of a query."""
        ...

    async def document_vectors(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Dense vectors of unit length of texts."""
        ...


class Router:
    """Chooses collections. Remembers the vectors of the descriptions."""

    def __init__(self, embedder: TextEmbedder) -> None:
        self._embedder = embedder
        self._vectors: dict[str, NDArray[np.float64]] = {}

    async def route(
        self, query: str, collections: Sequence[Collection], embedded: QueryVectors | None = None
    ) -> list[Routed]:
        """What is thought of each of the collections, best first.

        `embedded`: the query, where it is embedded already; of no use when that is by another model.
        Without a description nothing can be said of a collection, so that it is always searched.
        """
        described = [one for one in collections if one.description]
        blank = [Routed(one.name, 0.0, True) for one in collections if not one.description]
        if not described:
            return blank
        await self._learn([*(_text(one) for one in described), *_ELSEWHERE])
        if embedded is not None and embedded.model == await self._embedder.model():
            vector = embedded.dense
        else:
            vector = await self._embedder.query_vector(query)
        known_texts = [*(_text(one) for one in described), *_ELSEWHERE]
        similar = [float(one) for one in np.stack([self._vectors[text] for text in known_texts]) @ np.asarray(vector)]
        scores = dict(zip((one.name for one in described), similar, strict=False))
        elsewhere = similar[len(described) :]
        least = _least_chosen(max(scores.values()), elsewhere, bool(named(query)))
        routed = [Routed(name, score, score >= least) for name, score in scores.items()]
        return sorted(routed, key=lambda one: (-one.score, one.name)) + blank

    async def _learn(self, texts: Sequence[str]) -> None:
        unknown = [text for text in texts if text not in self._vectors]
        if unknown:
            if len(self._vectors) > 10_000:  # descriptions that changed are never asked for again
                self._vectors.clear()
                unknown = list(texts)
            vectors = await self._embedder.document_vectors(unknown)
            self._vectors.update(zip(unknown, map(np.asarray, vectors), strict=True))


def _least_chosen(best: float, elsewhere: Sequence[float], names_something: bool) -> float:
    """The score from which a collection is searched; above all scores when the query belongs nowhere."""
    nearest, deviation = max(elsewhere), max(float(np.std(elsewhere)), _LEAST_DEVIATION)
    if best >= nearest + _SURE * deviation:
        return best - _NEAR * deviation
    off_topic = best < nearest - max(_OFF_TOPIC * deviation, _OFF_TOPIC_LEAST)
    return math.inf if off_topic and not names_something else -math.inf


def _text(collection: Collection) -> str:
    return f"{collection.name}: {collection.description}"
