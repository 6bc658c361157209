"""Which replica has seen the beginning of a prompt before, and which one a session belongs to."""

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from xxhash import xxh3_64_intdigest

# About 128 tokens a block; vLLM's own blocks are 16, but a shared beginning pays from some hundred tokens on.
_BLOCK_CHARS, _MOST_BLOCKS = 512, 64
_MOST_ENTRIES = 131_072


def prefix_hashes(tenant: str, model: str, asked: Mapping[str, Any]) -> list[int]:
    """Hashes of the prompt's beginnings, shortest first: of one block, of two, and so on, at most 64.

    The tenant is in each, so that nobody's speed tells what others ask.
    """
    text = "".join(_beginning(asked, _BLOCK_CHARS * _MOST_BLOCKS))
    found: list[int] = []
    seed = xxh3_64_intdigest(f"{tenant}\0{model}".encode())
    for start in range(0, len(text) - _BLOCK_CHARS + 1, _BLOCK_CHARS):
        block = text[start : start + _BLOCK_CHARS].encode("utf-8", "surrogatepass")
        seed = xxh3_64_intdigest(block, seed)
        found.append(seed)
        if len(found) == _MOST_BLOCKS:
            break
    return found


class PrefixTable:
    """Remembers who served which beginning last; what was not used for longest is forgotten first."""

    def __init__(self, most_entries: int = _MOST_ENTRIES) -> None:
        self._most_entries = most_entries
        self._served: OrderedDict[int, str] = OrderedDict()

    def __len__(self) -> int:
        return len(self._served)

    def preferred(self, hashes: Sequence[int]) -> str | None:
        """Who served the longest of these beginnings."""
        for one in reversed(hashes):
            found = self._served.get(one)
            if found is not None:
                return found
        return None

    def note(self, hashes: Iterable[int], replica: str) -> None:
        """`replica` has read a prompt with these beginnings."""
        served = self._served
        for one in hashes:
            served[one] = replica
            served.move_to_end(one)
        while len(served) > self._most_entries:
            served.popitem(last=False)


def session_owner(tenant: str, session: str, replicas: Sequence[tuple[str, float]]) -> str | None:
    """The replica (name, weight) of a session: the same while it is there, and few move when others come and go.

    Weighted rendezvous hashing (Schindelhauer and Schomaker, 2005): each scores -weight / ln(hash).
    """
    # The logarithm is not needed to compare: u^(1/w) orders as -w/ln(u) does.
    best, owner = -1.0, None
    for name, weight in replicas:
        digest = xxh3_64_intdigest(f"{tenant}\0{session}\0{name}".encode("utf-8", "surrogatepass"))
        score = ((digest + 1) / 2**64) ** (1 / weight)
        if score > best:
            best, owner = score, name
    return owner


def _beginning(asked: Mapping[str, Any], most_chars: int) -> Iterable[str]:
    """The prompt's text in the order in which chat templates put it: tools, then the messages."""
    left = most_chars
    for text in _texts(asked):
        yield text[:left]
        left -= len(text)
        if left <= 0:
            return


def _texts(asked: Mapping[str, Any]) -> Iterable[str]:
    tools = asked.get("tools")
    if isinstance(tools, list):
        for tool in cast(list[Any], tools)[:64]:
            yield repr(tool)
    prompt = asked.get("prompt", asked.get("input"))
    if isinstance(prompt, str):
        yield prompt
    messages = asked.get("messages")
    for message in cast(list[Any], messages) if isinstance(messages, list) else ():
        if isinstance(message, dict):
            message = cast(dict[str, Any], message)
            yield f"\0{message.get('role')}\0"
            yield from _content(message.get("content"))


def _content(content: Any) -> Iterable[str]:
    if isinstance(content, str):
        yield content
    elif isinstance(content, list):
        for part in cast(list[Any], content):
            text = cast(dict[str, Any], part).get("text") if isinstance(part, dict) else None
            if isinstance(text, str):
                yield text
