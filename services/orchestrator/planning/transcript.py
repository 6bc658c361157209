"""What nested runs called and found, for the transcript of the run above them."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from services.orchestrator.model import Message
from services.orchestrator.run import Run

_MARK = re.compile(r"\[(\d{1,4})\]")
_NUMBER = re.compile(r'"n":\s?(\d{1,4})\b')


def calls_of(runs: Iterable[Run], most_tokens: int) -> list[Message]:
    """The calls and observations of runs, in their order and form, without what was said in between.

    What another run had seen too is given once. Where all of it is more than `most_tokens`, observations that the runs
    cite come before others.
    """
    rounds = [one for run in runs for one in _rounds(run)]
    kept, left = set[int](), most_tokens
    for wanted in (True, False):
        for index, (cited, messages) in enumerate(rounds):
            size = sum(message.tokens for message in messages)
            if cited is wanted and size <= left:
                left -= size
                kept.add(index)
    seen, told = set[str](), list[Message]()
    for index in sorted(kept):
        told += _unseen(rounds[index][1], seen)
    return told


def _rounds(run: Run) -> Iterator[tuple[bool, list[Message]]]:
    """Each turn with calls and what they gave, and whether the run's answer cites any of it."""
    cited = set(_MARK.findall(run.text))
    current: list[Message] = []
    for message in [*run.messages, Message("assistant", "")]:
        if message.role == "tool" and current:
            current.append(message)
        elif message.role == "assistant":
            if len(current) > 1:
                numbers = {one for each in current[1:] for one in _NUMBER.findall(each.text)}
                yield bool(numbers & cited), current
            current = [replace(message, text="")] if message.calls else []


def _unseen(messages: list[Message], seen: set[str]) -> list[Message]:
    """The turn without observations that were given before, and without the calls that made them."""
    fresh = {message.call_id: message for message in messages[1:] if message.text not in seen}
    seen.update(message.text for message in fresh.values())
    calls = tuple(call for call in messages[0].calls if call.id in fresh)
    return [replace(messages[0], calls=calls), *fresh.values()] if calls else []
