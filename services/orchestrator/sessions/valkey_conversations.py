"""Conversations in Valkey or Redis, for all orchestrators."""

import asyncio
import hashlib
import json
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, cast

from redis.asyncio import Redis
from redis.asyncio.cluster import RedisCluster
from redis.exceptions import RedisClusterException, RedisError

from services.orchestrator.model import Message
from services.orchestrator.sessions import valkey_scripts
from services.orchestrator.sessions.conversation import Bounds, Owner, Turn, unknown_answer, unknown_session
from services.runtime.errors import DependencyFailed
from services.runtime.valkey import connection_pool

log = logging.getLogger(__name__)

# A store that does not answer is left alone for so long, so that not every question waits for it.
_PAUSE_SECONDS = 1.0


class ValkeyConversations:
    """A ConversationStore. Every method is one script."""

    def __init__(
        self, client: Redis | RedisCluster, bounds: Bounds | None = None, *, timeout_seconds: float = 0.5
    ) -> None:
        """`client`: with bytes as answers. `timeout_seconds`: of one script."""
        self._bounds = bounds or Bounds()
        self._timeout = timeout_seconds
        self._walk, self._read, self._append, self._forget = (
            client.register_script(script)
            for script in (valkey_scripts.WALK, valkey_scripts.READ, valkey_scripts.APPEND, valkey_scripts.FORGET)
        )
        self._client = client
        self._paused_until = 0.0

    async def close(self) -> None:
        """Ends the connections."""
        await self._client.aclose()

    async def in_session(self, owner: Owner, session_id: str) -> Sequence[Turn]:
        """See ConversationStore."""
        return _turns(await self._walked(owner, "s", session_id))

    async def up_to(self, owner: Owner, answer_id: str) -> Sequence[Turn]:
        """See ConversationStore."""
        found = await self._walked(owner, "a", answer_id)
        if not found:
            raise unknown_answer(answer_id)
        return _turns(found)

    async def read(self, owner: Owner, answer_id: str) -> Turn:
        """See ConversationStore."""
        found = cast(list[bytes], await self._answer(self._read, owner, answer_id, self._ttl_ms))
        if not found:
            raise unknown_answer(answer_id)
        previous, value, record = found
        return _turn(answer_id, previous, value, record)

    async def append(self, owner: Owner, turn: Turn, session_id: str = "") -> None:
        """See ConversationStore."""
        said = {"labels": turn.labels, "messages": [(one.role, one.text) for one in turn.messages]}
        facts = [turn.answer_id, session_id, turn.previous, turn.size_bytes, json.dumps(said)]
        record = self._bounds.kept_record(turn)
        await self._answer(self._append, owner, *facts, self._ttl_ms, self._bounds.max_names, record)

    async def forget(self, owner: Owner, *, session_id: str = "", answer_id: str = "") -> int:
        """See ConversationStore."""
        kind = "s" if session_id else "a" if answer_id else "*"
        count = int(await self._answer(self._forget, owner, kind, session_id or answer_id))
        if count < 0:
            raise unknown_session(session_id) if session_id else unknown_answer(answer_id)
        return count

    @property
    def _ttl_ms(self) -> int:
        return self._bounds.ttl_seconds * 1000

    async def _walked(self, owner: Owner, kind: str, name: str) -> list[bytes]:
        bounds = self._ttl_ms, self._bounds.max_turns, self._bounds.max_bytes
        return cast(list[bytes], await self._answer(self._walk, owner, kind, name, *bounds))

    async def _answer(self, script: Callable[..., Awaitable[Any]], owner: Owner, *arguments: str | int | bytes) -> Any:
        if time.monotonic() < self._paused_until:
            raise _lost()
        try:
            async with asyncio.timeout(self._timeout):
                return await script([_prefix(owner)], arguments)
        except (RedisError, RedisClusterException, OSError, TimeoutError) as error:
            log.warning("the store of conversations does not answer", extra={"reason": type(error).__name__})
            self._paused_until = time.monotonic() + _PAUSE_SECONDS
            raise _lost() from None


def valkey_conversations(
    url: str, bounds: Bounds | None = None, *, timeout_seconds: float = 0.5, cluster: bool = False
) -> ValkeyConversations:
    """A store with connections of its own, which are made when they are needed; close it.

    `cluster`: `url` is a node of one.
    """
    if cluster:
        client = RedisCluster.from_url(url, socket_timeout=None)  # as with the pool: whole scripts are bounded
        return ValkeyConversations(client, bounds, timeout_seconds=timeout_seconds)
    pool = connection_pool(url, retries=1, retry_after_seconds=0.02, health_check_interval=15)
    return ValkeyConversations(Redis.from_pool(pool), bounds, timeout_seconds=timeout_seconds)


def _lost() -> DependencyFailed:
    return DependencyFailed("Conversations cannot be kept or read just now.", dependency="valkey")


def _prefix(owner: Owner) -> str:
    """Of the keys of one owner. The principal is hashed: it may hold any characters, and names a person."""
    whose = hashlib.sha256(f"{owner.tenant}\0{owner.principal}".encode()).hexdigest()[:32]
    return f"sabueso:sessions:{owner.tenant}:{{{whose}}}:"


def _turns(found: Sequence[bytes]) -> list[Turn]:
    """The turns that a walk has found, oldest first."""
    turns: list[Turn] = []
    for at in range(1, len(found), 3):
        answer_id, previous, value = found[at : at + 3]
        turns.insert(0, _turn(answer_id.decode(), previous, value))
    return turns


def _turn(answer_id: str, previous: bytes, value: bytes, record: bytes = b"") -> Turn:
    said: dict[str, Any] = json.loads(value)
    messages = tuple(Message(role, text) for role, text in said["messages"])
    return Turn(answer_id, messages, tuple(said["labels"]), previous.decode(), record)
