"""A tool as a foreign server describes it, and the hash by which a person's approval of it is known."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol


@dataclass(frozen=True)
class RemoteTool:
    """What a server says of one of its tools: untrusted text, until its hash is pinned. `schema`: of the arguments."""

    name: str
    description: str
    schema: Mapping[str, Any]
    annotations: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def writes(self) -> bool:
        """Whether it may change something: all do that do not say that they only read (MCP's own default)."""
        return self.annotations.get("readOnlyHint") is not True

    def definition(self) -> dict[str, Any]:
        """All that approval is about: what the model reads, and what is said of effects."""
        return {
            "name": self.name,
            "description": self.description,
            "inputSchema": dict(self.schema),
            "annotations": dict(self.annotations),
        }

    @property
    def fingerprint(self) -> str:
        """SHA-256, in hex, of the definition in canonical JSON: keys sorted, no spaces, UTF-8."""
        text = json.dumps(self.definition(), sort_keys=True, ensure_ascii=False, separators=(",", ":"))
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True)
class RemoteResult:
    """What a tool said. `failed`: it says itself that it could not do it."""

    text: str
    failed: bool = False


class RemoteSession(Protocol):
    """A connection to one server. Both methods raise SessionLost when it is of no use any more, and ServiceError."""

    @property
    def lost(self) -> bool:
        """Whether it is of no use any more."""
        ...

    async def tools(self) -> Sequence[RemoteTool]:
        """All tools of the server."""
        ...

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> RemoteResult:
        """What the tool says. Cancelling it tells the server."""
        ...

    async def close(self) -> None:
        """Ends the session; the server is told."""
        ...


class SessionLost(Exception):
    """The connection broke, or the server knows the session no more. `unheard`: the call has surely not been made."""

    def __init__(self, *, unheard: bool) -> None:
        super().__init__("the session is lost")
        self.unheard = unheard
