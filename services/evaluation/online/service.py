"""Offer, translated: what the service inherits."""

import json
from collections.abc import Mapping
from typing import Any, cast

from google.protobuf.duration_pb2 import Duration

from sabueso.evaluation.v1 import evaluation_pb2 as pb
from services.evaluation.answered import Answered, Call, Json, Passage
from services.evaluation.online.offered import Offered
from services.evaluation.online.offers import Offers
from services.runtime.context import tenant
from services.runtime.errors import InvalidField

_FINISHES = ("answered", "partial", "refused")


class OffersServicer:
    """The method `Offer` of EvaluationService."""

    offers: Offers

    async def Offer(self, request: pb.OfferRequest, context: Any) -> pb.OfferResponse:
        """Takes an answer of live traffic."""
        await self.offers.offer(offered_of(request))
        return pb.OfferResponse()


def offered_of(request: pb.OfferRequest) -> Offered:
    """What the message says, for the caller's tenant. Raises InvalidField."""
    for field in ("answer_id", "question"):
        if not getattr(request, field):
            raise InvalidField(f"`{field}` is empty.", field=field)
    if request.finish not in _FINISHES:
        raise InvalidField(f"`finish` must be one of {', '.join(_FINISHES)}.", field="finish")
    durations: Mapping[str, Duration] = {
        "model": request.model_duration,
        "tools": request.tools_duration,
        "total": request.total_duration,
    }
    return Offered(
        Answered(
            question=request.question,
            answer=request.answer,
            language=request.language,
            finish=request.finish,
            passages=tuple(
                Passage(one.text, one.source, one.score if one.HasField("score") else None) for one in request.passages
            ),
            calls=tuple(map(_call, request.calls)),
            strategy=request.strategy,
            model=request.model,
            tenant=tenant(),
            answer_id=request.answer_id,
            trace_id=request.trace_id,
            milliseconds={name: one.ToNanoseconds() / 1e6 for name, one in durations.items()},
            tokens={"prompt": request.prompt_tokens, "completion": request.completion_tokens},
            degraded=tuple(request.degraded),
        ),
        tuple(request.metrics),
    )


def _call(one: pb.OfferedCall) -> Call:
    """Arguments as the model wrote them may be no JSON, or no object."""
    try:
        arguments: Any = json.loads(one.arguments_json or "{}")
    except ValueError:
        arguments = None
    is_object = isinstance(arguments, dict)
    return Call(one.tool, cast(dict[str, Json], arguments) if is_object else {}, one.turn, valid=is_object)
