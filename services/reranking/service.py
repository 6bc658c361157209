"""Translates between protobuf and the ranking."""

from typing import Any

import numpy as np

from sabueso.reranking.v1 import reranking_pb2 as pb
from sabueso.reranking.v1 import reranking_pb2_grpc as rpc
from sabueso.type.v1 import vectors_pb2
from services.reranking.ranking import Ranking
from services.reranking.scorer import CannotScore, HalfFloats, Scored
from services.runtime.errors import InvalidField

_MAX_CANDIDATES, _MAX_QUERY_CHARACTERS = 200, 4096


class RerankingService(rpc.RerankingServiceServicer):
    """Serves one ranking."""

    def __init__(self, ranking: Ranking) -> None:
        self._ranking = ranking

    async def Rerank(self, request: pb.RerankRequest, context: Any) -> pb.RerankResponse:
        """Raises InvalidField, and what the ranking raises."""
        query, candidates = self._query(request), self._candidates(request)
        if request.top_n < 0:
            raise InvalidField("`top_n` is negative; 0 means all.", field="top_n")
        try:
            ranked = await self._ranking.rank(query, candidates, request.top_n)
        except CannotScore as error:
            raise InvalidField(f"`{error.field}` {error}.", field=error.field) from None
        scores = [pb.Score(index=one.index, score=one.score, truncated=one.truncated) for one in ranked]
        return pb.RerankResponse(scores=scores, model=self._ranking.scorer.model)

    async def Describe(self, request: pb.DescribeRequest, context: Any) -> pb.DescribeResponse:
        """Never fails."""
        scorer = self._ranking.scorer
        return pb.DescribeResponse(model=scorer.model, reads_token_vectors=scorer.reads_token_vectors)

    def _query(self, request: pb.RerankRequest) -> Scored:
        if not request.query.strip():
            raise InvalidField("`query` is empty.", field="query")
        if len(request.query) > _MAX_QUERY_CHARACTERS:
            raise InvalidField(
                f"`query` has {len(request.query)} characters; {_MAX_QUERY_CHARACTERS} are allowed.", field="query"
            )
        given = request.HasField("query_token_vectors")
        return Scored(
            request.query, self._vectors(request.query_token_vectors, "query_token_vectors") if given else None
        )

    def _candidates(self, request: pb.RerankRequest) -> list[Scored]:
        count = len(request.candidates)
        if not 1 <= count <= _MAX_CANDIDATES:
            raise InvalidField(
                f"`candidates` has {count} entries; 1 to {_MAX_CANDIDATES} are allowed.", field="candidates"
            )
        return [self._candidate(candidate, f"candidates[{n}]") for n, candidate in enumerate(request.candidates)]

    def _candidate(self, candidate: pb.Candidate, field: str) -> Scored:
        vectors = None
        if self._ranking.scorer.reads_token_vectors and candidate.HasField("token_vectors"):
            vectors = self._vectors(candidate.token_vectors, f"{field}.token_vectors")
        if vectors is None and not candidate.text.strip():
            raise InvalidField(
                f"`{field}.text` is empty, and the scorer {self._ranking.scorer.model} needs it.", field=f"{field}.text"
            )
        return Scored(candidate.text, vectors)

    def _vectors(self, vectors: vectors_pb2.TokenVectors, field: str) -> HalfFloats | None:
        if not self._ranking.scorer.reads_token_vectors:
            return None
        row_bytes = 2 * vectors.dimensions
        if row_bytes <= 0 or not vectors.values or len(vectors.values) % row_bytes:
            raise InvalidField(
                f"`{field}`: {len(vectors.values)} bytes are not one or more rows of {vectors.dimensions} float16.",
                field=field,
            )
        rows = np.frombuffer(vectors.values, "<f2").reshape(-1, vectors.dimensions)
        if not np.isfinite(rows).all():
            raise InvalidField(f"`{field}` holds values that are not finite.", field=field)
        return rows
