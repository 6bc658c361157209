"""POST and GET /v1/feedback."""

import json
from collections.abc import AsyncGenerator
from typing import Annotated, Any, Literal

from fastapi import Query
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from services.gateway.admission import caller_of
from services.gateway.feedback.ledger import Entry, Feedback, Ledger
from services.gateway.telemetry.feedback import record

_SCORES = {"up": 1.0, "down": -1.0}
_PAGE = 500
Short = Annotated[str, StringConstraints(min_length=1, max_length=64)]


class FeedbackRequest(BaseModel):
    """What a person says of an answer: a thumb, or a score from -1 (bad) to 1 (good)."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "oneOf": [
                {"required": [one], "properties": {one: {"not": {"type": "null"}}, other: {"type": "null"}}}
                for one, other in (("rating", "score"), ("score", "rating"))
            ]
        },
    )

    answer_id: str = Field(
        min_length=1, max_length=100, pattern=r"^[\w.:-]+$", description="`sabueso.answer_id` of the answer."
    )
    rating: Literal["up", "down"] | None = Field(default=None, description="Either this or `score`.")
    score: float | None = Field(default=None, ge=-1, le=1, allow_inf_nan=False, description="-1 is bad, 1 is good.")
    comment: str = Field(default="", max_length=4000)
    tags: list[Short] = Field(default=[], max_length=20, description="Such as `wrong_source`; for evals.")
    metadata: dict[Short, Annotated[str, StringConstraints(max_length=512)]] = Field(default={}, max_length=16)
    user: str = Field(
        default="", max_length=256, description="The end user, as the application calls them: one word each counts."
    )

    @model_validator(mode="after")
    def _one_of_both(self) -> "FeedbackRequest":
        if (self.rating is None) == (self.score is None):
            raise ValueError("send either `rating` or `score`")
        return self


class FeedbackEndpoint:
    """The endpoints."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    async def create(self, request: Request, said: FeedbackRequest) -> JSONResponse:
        """Keeps it; 201. The last word of a key and its end user on an answer counts."""
        caller = caller_of(request)
        caller.require("agent")
        feedback = Feedback(
            answer_id=said.answer_id,
            key=caller.identity.principal,
            end_user=said.user,
            score=_SCORES[said.rating] if said.rating else said.score or 0.0,
            comment=said.comment,
            tags=tuple(dict.fromkeys(said.tags)),
            metadata=said.metadata,
        )
        kept = await self._ledger.keep(caller.tenant.id, feedback)
        if kept.changed:
            _tell_trace(kept.entry)
        return JSONResponse(_fields(kept.entry), 201)

    async def list_all(
        self,
        request: Request,
        limit: Annotated[int, Query(ge=1, le=1000)] = 100,
        after: Annotated[str, Query(pattern=r"^(\d{1,16}(-\d{1,16})?)?$")] = "",
        format: Literal["json", "jsonl"] = "json",
    ) -> Response:
        """The tenant's feedback, oldest first: a page of it, or all of it as JSON lines for evals."""
        caller = caller_of(request)
        caller.require("admin")  # comments are other people's words
        if format == "jsonl":
            first = await self._ledger.entries(caller.tenant.id, after, _PAGE)
            return StreamingResponse(self._lines(caller.tenant.id, first), media_type="application/jsonl")
        found = await self._ledger.entries(caller.tenant.id, after, limit + 1)
        page, has_more = found[:limit], len(found) > limit
        return JSONResponse(
            {
                "object": "list",
                "data": [_fields(one) for one in page],
                "has_more": has_more,
                "after": page[-1].id if has_more else None,
            }
        )

    async def _lines(self, tenant: str, page: list[Entry]) -> AsyncGenerator[bytes]:
        while page:
            yield b"".join(json.dumps(_fields(one), ensure_ascii=False).encode() + b"\n" for one in page)
            page = await self._ledger.entries(tenant, page[-1].id, _PAGE)


def _tell_trace(entry: Entry) -> None:
    """Puts the score into the trace of the answer. The comment is a person's words and stays here."""
    said, answer = entry.feedback, entry.answer
    record(
        answer_id=said.answer_id,
        trace_id=answer.trace_id,
        span_id=answer.span_id,
        value=said.score,
        label=_rating(said.score) or "",
    )


def _fields(entry: Entry) -> dict[str, Any]:
    said, answer = entry.feedback, entry.answer
    return {
        "id": entry.id,
        "object": "feedback",
        "created_at": entry.created_at,
        "answer_id": said.answer_id,
        "score": said.score,
        "rating": _rating(said.score),
        "comment": said.comment,
        "tags": list(said.tags),
        "metadata": dict(said.metadata),
        "user": said.end_user or None,
        "key": said.key,
        "answer": {"strategy": answer.strategy, "finish": answer.finish, "trace_id": answer.trace_id or None},
    }


def _rating(score: float) -> str | None:
    return "up" if score > 0 else "down" if score < 0 else None
