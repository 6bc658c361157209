"""DELETE /v1/conversations: what is kept of a caller's conversations is forgotten."""

from typing import Annotated, Any

from fastapi import Path
from starlette.requests import Request
from starlette.responses import JSONResponse

from sabueso.orchestrator.v1 import orchestrator_pb2 as pb
from services.gateway.agent import SESSION_ID, agents_caller
from services.gateway.clients import CALL_SECONDS, Clients, answer_of

Id = Annotated[str, Path(pattern=SESSION_ID)]


class Conversations:
    """The endpoints. Each caller, a key or a person, has conversations of its own, and deletes no others."""

    def __init__(self, clients: Clients) -> None:
        self._clients = clients

    async def delete_one(self, request: Request, conversation_id: Id) -> JSONResponse:
        """Deletes a conversation with all its questions and answers."""
        count = await self._forget(request, session_id=conversation_id)
        return JSONResponse(_deleted(count, id=conversation_id))

    async def delete_all(self, request: Request) -> JSONResponse:
        """Deletes all that is kept of the caller."""
        return JSONResponse(_deleted(await self._forget(request, everything=True)))

    async def _forget(self, request: Request, **named: Any) -> int:
        agents_caller(request)
        forgetting = self._clients.orchestrator.DeleteSession(pb.DeleteSessionRequest(**named), timeout=CALL_SECONDS)
        return (await answer_of("orchestrator", forgetting)).answer_count


def _deleted(count: int, **named: str) -> dict[str, Any]:
    return {**named, "object": "conversation.deleted", "deleted": True, "answer_count": count}
