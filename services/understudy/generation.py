"""A reply in pieces, as a model would produce it token by token: cut at limits and stop texts."""

import re
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from services.understudy.conversation import CALL_ID
from services.understudy.reply import Reply
from services.understudy.tokens import count_tokens

_WORDS = re.compile(r"\s*\S+|\s+$")
_ARGUMENT_CHARS = 24


@dataclass(frozen=True)
class Piece:
    """Some tokens. `call` is the index of the tool call that they belong to, or None; `name` opens that call."""

    text: str
    tokens: int
    call: int | None = None
    call_id: str = ""
    name: str = ""


@dataclass(frozen=True)
class Generation:
    """All pieces of a reply and why it ended: stop, tool_calls or length."""

    pieces: tuple[Piece, ...]
    finish_reason: str
    stop_reason: str | None = None

    @property
    def tokens(self) -> int:
        """Tokens of all pieces."""
        return sum(piece.tokens for piece in self.pieces)

    @property
    def calls_tools(self) -> bool:
        """Whether it holds tool calls."""
        return any(piece.call is not None for piece in self.pieces)

    @property
    def text(self) -> str:
        """The content without tool calls."""
        return "".join(piece.text for piece in self.pieces if piece.call is None)

    def calls(self) -> list[tuple[str, str, str]]:
        """(id, name, arguments) of each call."""
        found: dict[int, tuple[str, str, str]] = {}
        for piece in self.pieces:
            if piece.call is not None:
                call_id, name, arguments = found.get(piece.call, (piece.call_id, piece.name, ""))
                found[piece.call] = (call_id, name, arguments + piece.text)
        return list(found.values())


def generate(reply: Reply, *, max_tokens: int, stops: Sequence[str] = (), named: bool = False) -> Generation:
    """Cuts a reply into pieces, at most `max_tokens` of them in tokens. `named`: the caller chose the tool."""
    text, stop_reason = reply.text, None
    ends = [(text.find(stop), stop) for stop in stops if stop in text]
    if ends and not reply.calls:
        end, stop_reason = min(ends)
        text = text[:end]
    kept: list[Piece] = []
    left = max_tokens
    for piece in _pieces(Reply(text, reply.calls)):
        if piece.tokens > left:
            return Generation(tuple(kept), "length")
        left -= piece.tokens
        kept.append(piece)
    # vLLM, like OpenAI, ends a call that the caller named with `stop`.
    return Generation(tuple(kept), "tool_calls" if reply.calls and not named else "stop", stop_reason)


def _pieces(reply: Reply) -> Iterator[Piece]:
    for match in _WORDS.finditer(reply.text):
        yield Piece(match[0], max(1, count_tokens(match[0])))
    for index, call in enumerate(reply.calls):
        call_id = f"{CALL_ID}{uuid.uuid4().hex}"
        yield Piece("", max(1, count_tokens(call.name)), index, call_id, call.name)
        for start in range(0, len(call.arguments), _ARGUMENT_CHARS):
            text = call.arguments[start : start + _ARGUMENT_CHARS]
            yield Piece(text, max(1, count_tokens(text)), index, call_id, call.name)
