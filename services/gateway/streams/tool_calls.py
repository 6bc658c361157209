"""Tool calls put together from the deltas of a stream, as servers of every make send them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast


@dataclass
class ToolCall:
    """One call."""

    id: str = ""
    name: str = ""
    arguments: str = ""


class ToolCalls:
    """Collects the entries of `delta.tool_calls` of one choice; `calls` are in the order of their beginning.

    A known id is its call's, a new id opens one, whatever the index. Without an id the index decides; without both
    an entry belongs to the call that is open.
    """

    def __init__(self) -> None:
        self.calls: list[ToolCall] = []
        self._by_index: dict[int, ToolCall] = {}

    def add(self, entries: Iterable[Mapping[str, Any]]) -> None:
        """Takes the entries of one delta."""
        for entry in entries:
            self._append(entry)

    def call_of(self, entry: Mapping[str, Any]) -> ToolCall:
        """The call that an entry belongs to, opened if there is none yet."""
        given, index = entry.get("id"), entry.get("index")
        known = self._known(given, index)
        if known is None:
            known = ToolCall()
            self.calls.append(known)
        if isinstance(given, str) and given:
            known.id = given
        if isinstance(index, int):
            self._by_index[index] = known
        return known

    def _known(self, given: object, index: object) -> ToolCall | None:
        if isinstance(given, str) and given:
            return next((call for call in self.calls if call.id == given), None)
        if isinstance(index, int):
            return self._by_index.get(index)
        return self.calls[-1] if self.calls else None

    def _append(self, entry: Mapping[str, Any]) -> None:
        call = self.call_of(entry)
        function = entry.get("function")
        if not isinstance(function, dict):
            return
        said = cast(dict[str, Any], function)
        name, arguments = said.get("name"), said.get("arguments")
        # Some send the whole name with every piece of the arguments.
        if isinstance(name, str) and not (call.arguments and name == call.name):
            call.name += name
        if isinstance(arguments, str):
            call.arguments += arguments
