"""Search on a Qdrant server: candidates of both legs with exact scores, and only of versions that count."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from qdrant_client import models

from services.retrieval import payload
from services.retrieval.freshness import ROUNDS, Freshness
from services.retrieval.placement import Placement
from services.retrieval.qdrant import requests as asked
from services.retrieval.qdrant.calls import answered
from services.retrieval.qdrant.collections import QdrantCollections
from services.retrieval.qdrant.documents import QdrantDocuments
from services.retrieval.qdrant.places import Places
from services.retrieval.qdrant.requests import Requests, Scope
from services.retrieval.qdrant.rows import CollectionRow
from services.retrieval.store import Hit, Query, Reader


@dataclass(frozen=True)
class _Found:
    id: str
    fields: Mapping[str, Any]
    scores: Mapping[str, float]
    vector: Sequence[float] = ()

    @property
    def version(self) -> tuple[str, str]:
        return self.fields["document_id"], self.fields["generation"]


class QdrantSearch:
    """Looks, asks the registry what of it counts, and looks again without the rest if need be."""

    def __init__(self, places: Places, collections: QdrantCollections, documents: QdrantDocuments) -> None:
        self._places = places
        self._collections = collections
        self._documents = documents

    async def search(self, reader: Reader, query: Query) -> list[Hit]:
        """See `Store.search`."""
        freshness = Freshness()
        fresh: list[tuple[str, _Found]] = []
        for _ in range(ROUNDS):
            found = await self._candidates(reader, query, freshness.excluded)
            met = [one.version for _, one in found]
            asked_about = freshness.documents(met)
            current = await self._documents.generations(reader, asked_about) if asked_about else {}
            fresh = [one for one in found if current.get(one[1].version[0]) == one[1].version[1]]
            if freshness.accepts(met, current):
                break
        # Without its passage: it was deleted between two requests, after which the registry would not have named it.
        return [_hit(name, one) for name, one in fresh if "text" in one.fields]

    async def _candidates(self, reader: Reader, query: Query, excluded: Sequence[str]) -> list[tuple[str, _Found]]:
        # BM25's document frequencies are those of each place by itself. They compare well between places of some size,
        # and all of a collection is in one.
        rows = await self._collections.rows(reader.tenant, query.filter.collections)
        scopes = _scopes(rows, query)
        names = [self._places.name(scope.placement) for scope in scopes]
        answers = await asyncio.gather(
            *(
                self._in_place(name, Requests(reader, query, scope, excluded, self._places.indexed))
                for name, scope in zip(names, scopes, strict=True)
            )
        )
        return [(name, one) for name, found in zip(names, answers, strict=True) for one in found]

    async def _in_place(self, name: str, requests: Requests) -> list[_Found]:
        legs = requests.legs()
        if not legs or not await self._places.dimensions(name):
            return []
        answers = await self._ask(name, legs)
        ids = {str(point.id) for points in answers.values() for point in points}
        missing = {leg: ids - {str(point.id) for point in points} for leg, points in answers.items()}
        if asked.DENSE in missing and not requests.scope.rescore:
            # Similarities of compressed vectors choose the candidates; what is told is exact all the same.
            missing[asked.DENSE] = ids
        more = await self._ask(name, {leg: requests.rest(leg, rest) for leg, rest in missing.items() if rest})
        return _joined([(leg, points) for answer in (answers, more) for leg, points in answer.items()])

    async def _ask(
        self, name: str, requests: Mapping[str, models.QueryRequest]
    ) -> dict[str, Sequence[models.ScoredPoint]]:
        if not requests:
            return {}
        answers = await answered(self._places.client.query_batch_points, name, list(requests.values()))
        return {leg: answer.points for leg, answer in zip(requests, answers, strict=True)}


def _scopes(rows: Mapping[str, CollectionRow], query: Query) -> list[Scope]:
    """What to search where: the wanted collections with vectors of the query's model."""
    corpus: dict[Placement, list[CollectionRow]] = {}
    for row in rows.values():
        for place in row.places:
            if row.settings.model == place.model == query.model:
                corpus.setdefault(place, []).append(row)
    wanted = query.filter.collections
    found: list[Scope] = []
    for place, there in corpus.items():
        searched = [row for row in there if not wanted or row.settings.name in wanted]
        if searched:
            indexes = [row.settings.index for row in searched]
            scope = Scope(
                place,
                editions=[row.edition for row in searched],
                corpus=[row.edition for row in there],
                hnsw_ef=max(index.hnsw_ef for index in indexes),
                oversampling=max(index.oversampling for index in indexes),
                rescore=any(index.rescore for index in indexes),
            )
            found.append(scope)
    return found


def _joined(answers: Iterable[tuple[str, Sequence[models.ScoredPoint]]]) -> list[_Found]:
    """Points with the scores of each leg. A later answer's score counts instead of an earlier one's."""
    found: dict[str, _Found] = {}
    for leg, points in answers:
        for point in points:
            one = found.setdefault(str(point.id), _Found(str(point.id), {}, {}))
            one = replace(one, scores={**one.scores, leg: point.score})
            if point.payload:
                one = replace(one, fields={**one.fields, **point.payload})
            if isinstance(point.vector, dict) and not one.vector:
                one = replace(one, vector=_dense(point.vector))
            found[one.id] = one
    return [one for one in found.values() if one.fields]


def _dense(vectors: Mapping[str, Any]) -> Sequence[float]:
    return vectors.get(asked.DENSE, ())


def _hit(name: str, found: _Found) -> Hit:
    scores = found.scores.get(asked.DENSE, 0.0), found.scores.get(asked.SPARSE, 0.0)
    return Hit(payload.chunk_of(found.fields), *scores, f"{name}/{found.id}", found.vector)
