"""POST /v1/search: passages without an answer."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import JSONResponse

from sabueso.retrieval.v1 import retrieval_pb2 as pb
from services.gateway.admission import caller_of
from services.gateway.clients import CALL_SECONDS, Clients, answer_of


class SearchFilter(BaseModel):
    """Conditions on a passage's document; all must hold."""

    model_config = ConfigDict(extra="forbid")

    metadata: dict[str, str | list[str]] = {}
    document_ids: list[str] = []
    language: str = ""


class SearchRequest(BaseModel):
    """What to look for, and how."""

    model_config = ConfigDict(extra="forbid")

    query: str = Field(min_length=1, max_length=4096)
    collections: list[str] = []
    top_k: int = Field(default=5, ge=1, le=100)
    mode: Literal["dense", "sparse", "hybrid"] = "hybrid"
    rerank: bool = True
    filter: SearchFilter = SearchFilter()
    fusion: Literal["calibrated", "rrf", "dbsf"] | None = None
    score_threshold: float | None = Field(
        default=None, allow_inf_nan=False, description="Least cosine similarity; BM25 score where `mode` is sparse."
    )
    diversity: float = Field(default=0, ge=0, le=1, description="Variety by maximal marginal relevance.")
    max_per_document: int = Field(default=0, ge=0, le=100, description="Most passages of one document; 0: any number.")
    route: bool = Field(default=False, description="Choose among the collections by their descriptions.")
    labels: list[str] | None = Field(
        default=None,
        max_length=100,
        description="Search for a person who holds these labels only; never more than the key holds.",
    )


class Search:
    """The endpoint."""

    def __init__(self, clients: Clients) -> None:
        self._clients = clients

    async def search(self, request: Request, asked: SearchRequest) -> JSONResponse:
        """Passages by descending score, the time of each stage in milliseconds, and what was skipped."""
        caller = caller_of(request)
        caller.require("search")
        caller.narrow(asked.labels)
        call = self._clients.retrieval.Search(_wanted(asked), timeout=CALL_SECONDS)
        found = await answer_of("retrieval", call)
        answer: dict[str, Any] = {
            "results": [passage_fields(passage) for passage in found.passages],
            "stages": {name: round(took.ToMicroseconds() / 1000, 1) for name, took in sorted(found.stages.items())},
            "degraded": list(found.degraded),
        }
        if asked.route:
            answer["routed"] = [{"name": one.name, "score": one.score, "chosen": one.chosen} for one in found.routed]
        return JSONResponse(answer)


def _wanted(asked: SearchRequest) -> pb.SearchRequest:
    conditions = [
        pb.Condition(key=key, any_of=[value] if isinstance(value, str) else value)
        for key, value in asked.filter.metadata.items()
    ]
    wanted = pb.SearchRequest(
        query=asked.query,
        collections=asked.collections,
        top_k=asked.top_k,
        mode=pb.SearchMode.Value(f"SEARCH_MODE_{asked.mode.upper()}"),
        skip_rerank=not asked.rerank,
        filter=pb.Filter(conditions=conditions, document_ids=asked.filter.document_ids, language=asked.filter.language),
        fusion=pb.Fusion.Value(f"FUSION_{asked.fusion.upper()}") if asked.fusion else pb.FUSION_UNSPECIFIED,
        diversity=asked.diversity,
        max_per_document=asked.max_per_document,
        route=asked.route,
    )
    if asked.score_threshold is not None:
        wanted.score_threshold = asked.score_threshold
    return wanted


def passage_fields(passage: pb.Passage) -> dict[str, Any]:
    """A passage as callers see it."""
    scores = passage.scores
    return {
        "document_id": passage.document_id,
        "chunk_id": passage.chunk_id,
        "score": passage.score,
        "text": passage.text,
        **({"matched_text": passage.matched_text} if passage.matched_text else {}),
        "title": passage.title,
        "source": passage.source,
        "page": passage.page or None,
        "section": passage.section,
        "language": passage.language,
        "collection": passage.collection,
        "position": passage.position,
        "metadata": dict(passage.metadata),
        "scores": {"dense": scores.dense, "sparse": scores.sparse, "fused": scores.fused, "rerank": scores.rerank},
    }
