"""Cuts a conversation to what fits, at places that stay where they are while it grows.

A window that moved with every question would begin with other words each time, and a server that remembers prompts by
their beginning (vLLM's prefix cache) would read all of it anew.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from services.orchestrator.model import Message

# Of a conversation, what anything but its fitting looks at: a request may carry megabytes, and reading all of them for
# words, figures and addresses would take the loop, and with it everybody, many seconds.
MOST_CHARS = 60_000


def newest(messages: Sequence[Message], chars: int = MOST_CHARS) -> list[Message]:
    """System messages as they are, and of the others the newest `chars`; the oldest of them may be cut at its end."""
    kept: list[Message] = []
    for message in reversed(messages):
        if message.role == "system":
            kept.insert(0, message)
        elif chars > 0:
            kept.insert(0, message if len(message.text) <= chars else replace(message, text=message.text[:chars]))
            chars -= len(message.text)
    return kept


def windowed(messages: Sequence[Message], tokens: int) -> list[Message]:
    """The newest messages within `tokens`, beginning with the user's: most chat templates want that."""
    return list(messages[cut(messages, tokens) :])


def cut(messages: Sequence[Message], tokens: int) -> int:
    """Where the kept part begins: at the first place, of those that lie half of `tokens` apart, from where it fits.

    So it moves only once in a while. Where none fits, the newest messages that do.
    """
    left = sum(message.tokens for message in messages)
    for place, before in _places(messages, tokens / 2):
        if left - before <= tokens:
            return place
    start = len(messages)
    while start and messages[start - 1].tokens <= tokens:
        start -= 1
        tokens -= messages[start].tokens
    while start < len(messages) and messages[start].role != "user":
        start += 1
    return start


def _places(messages: Sequence[Message], apart: float) -> Iterator[tuple[int, int]]:
    """Places where the user begins to speak, and the tokens before each; counted from the beginning, which stays."""
    before = since = 0
    first = True
    for index, message in enumerate(messages):
        if message.role == "user" and (first or since >= apart):
            yield index, before
            first, since = False, 0
        before += message.tokens
        since += message.tokens
