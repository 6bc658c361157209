"""GET /v1/responses/{id}/input_items: what a stored response was asked with, as items of OpenAI's API, page by page."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal, cast

from services.gateway.errors import ApiError
from services.gateway.responses.asked import ResponsesRequest

Item = dict[str, Any]
Order = Literal["asc", "desc"]

# Its name in the note that is kept with the answer. Longer inputs are not kept: the note is bounded.
_INPUT = "input"
_MAX_KEPT_CHARS = 40_000


def with_input(echoed: Mapping[str, Any], wanted: ResponsesRequest) -> Mapping[str, Any]:
    """What is noted down of a request: what its answer repeats, and its input, unless that is too long to be kept."""
    kept = json.dumps(wanted.input, ensure_ascii=False)
    return {**echoed, _INPUT: wanted.input} if len(kept) <= _MAX_KEPT_CHARS else echoed


def without_input(noted: Mapping[str, Any]) -> dict[str, Any]:
    """What the answer itself repeats of what was noted down."""
    return {name: value for name, value in noted.items() if name != _INPUT}


def items_of(noted: Mapping[str, Any], uid: str) -> list[Item]:
    """The items of the input in their order, each with an id. `uid`: of the answer.

    Raises ApiError where the input was not kept.
    """
    given = noted.get(_INPUT)
    if given is None:
        problem = "The input of this response was not kept: it was too long, or came by another API."
        raise ApiError(404, problem, code="input_not_kept", param="response_id")
    listed = [{"role": "user", "content": given}] if isinstance(given, str) else cast(list[Item], given)
    return [_item(one, f"{uid}_{place}") for place, one in enumerate(listed)]


def page(items: Sequence[Item], after: str | None, limit: int, order: Order) -> dict[str, Any]:
    """One page of a list. `after`: the id of the item that came last on the page before.

    Raises ApiError where no item has that id.
    """
    listed = list(items) if order == "asc" else list(reversed(items))
    start = 0
    if after is not None:
        places = [place for place, one in enumerate(listed, start=1) if one["id"] == after]
        if not places:
            raise ApiError(400, f"after: there is no item `{after[:100]}`.", code="invalid_field", param="after")
        start = places[0]
    data = listed[start : start + limit]
    return {
        "object": "list",
        "data": data,
        "first_id": data[0]["id"] if data else None,
        "last_id": data[-1]["id"] if data else None,
        "has_more": start + limit < len(listed),
    }


def _item(given: Item, number: str) -> Item:
    """An item as the API lists it: a message in parts, anything else as it came."""
    kind = given.get("type") or "message"
    known = {"id": given.get("id") or f"{'msg' if kind == 'message' else 'item'}_{number}", "type": kind}
    if kind != "message":
        return {"status": "completed", **given, **known}
    role = given.get("role")
    return {**known, "status": "completed", "role": role, "content": _parts(given.get("content"), str(role))}


def _parts(content: Any, role: str) -> list[Item]:
    if content is None:
        return []
    parts = cast(list[Item], content if isinstance(content, list) else [content])
    return [_part(one, role) for one in parts]


def _part(given: Item | str, role: str) -> Item:
    """A part by its role: what the assistant said has the form of an output."""
    part: Item = {"type": "text", "text": given} if isinstance(given, str) else given
    if part.get("type") == "refusal":
        return part
    if role == "assistant":
        return {"annotations": [], "logprobs": [], **part, "type": "output_text"}
    return {"type": "input_text", "text": part.get("text", "")}
