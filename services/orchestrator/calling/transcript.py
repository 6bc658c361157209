"""Brings a transcript into the shape that a family's chat template takes."""

import hashlib
from collections.abc import Sequence
from dataclasses import replace

from services.orchestrator.calling.profiles import Profile
from services.orchestrator.model import Message, ToolCall

# What the model is made to say where a template wants it to speak between a result and the user.
_HAVING_READ = "I have read the results."


def shaped(messages: Sequence[Message], profile: Profile) -> list[Message]:
    """The same conversation. What stood at the beginning stands there still when more is added at the end."""
    shape = list(messages)
    if profile.calls_per_message:
        shape = _with_few_calls(shape, profile.calls_per_message)
    if profile.call_id_chars:
        shape = [_with_ids(message, profile.call_id_chars) for message in shape]
    if not profile.text_beside_calls:
        shape = [replace(message, text="") if message.calls else message for message in shape]
    if profile.one_system:
        shape = _with_one_system(shape)
    return _alternating(shape) if profile.alternating else shape


def _with_few_calls(messages: Sequence[Message], most: int) -> list[Message]:
    """Messages with many calls as several messages, each followed by its results."""
    shape: list[Message] = []
    results = {message.call_id: message for message in messages if message.role == "tool"}
    moved: set[str] = set()
    for message in messages:
        if len(message.calls) <= most:
            if message.call_id not in moved:
                shape.append(message)
            continue
        for start in range(0, len(message.calls), most):
            calls = message.calls[start : start + most]
            shape.append(Message("assistant", message.text if not start else "", calls))
            shape += [results[call.id] for call in calls if call.id in results]
            moved.update(call.id for call in calls)
    return shape


def _with_ids(message: Message, chars: int) -> Message:
    calls = tuple(_with_id(call, chars) for call in message.calls)
    return replace(message, calls=calls, call_id=_short(message.call_id, chars) if message.call_id else "")


def _with_id(call: ToolCall, chars: int) -> ToolCall:
    return replace(call, id=_short(call.id, chars))


def _short(call_id: str, chars: int) -> str:
    """An id of letters and digits; one that is right already stays."""
    if len(call_id) == chars and call_id.isalnum() and call_id.isascii():
        return call_id
    return hashlib.sha256(call_id.encode()).hexdigest()[:chars]


def _with_one_system(messages: Sequence[Message]) -> list[Message]:
    """The first system messages as one; later ones, such as the date, at the head of what the user says next."""
    first = 0
    while first < len(messages) and messages[first].role == "system":
        first += 1
    shape = [Message("system", "\n\n".join(message.text for message in messages[:first]))] if first else []
    said = ""
    for message in messages[first:]:
        if message.role == "system":
            said += message.text + "\n\n"
        elif said and message.role == "user":
            shape.append(replace(message, text=said + message.text))
            said = ""
        else:
            shape.append(message)
    return [*shape, Message("user", said.strip())] if said else shape


def _alternating(messages: Sequence[Message]) -> list[Message]:
    """User and model in turns; results come between the model's calls and what it says to them."""
    shape: list[Message] = []
    for message in messages:
        before = shape[-1] if shape else None
        plain = before is not None and before.role == message.role and not before.calls and not message.calls
        if before is not None and plain and message.role in ("user", "assistant"):
            shape[-1] = replace(before, text=f"{before.text}\n\n{message.text}")
            continue
        if message.role == "user" and before is not None and before.role == "tool":
            shape.append(Message("assistant", _HAVING_READ))
        shape.append(message)
    return shape
