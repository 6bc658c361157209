"""Whether a tool is still the one that a person has approved."""

import json
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, cast

from services.orchestrator.external.remote import RemoteTool
from services.runtime.recognition.injections.detector import Detector
from services.runtime.tenants import McpServer

# Longer ones are no descriptions: they fill the model's context.
MAX_DESCRIPTION_CHARS, MAX_SCHEMA_CHARS = 8_000, 32_000
# Of Unicode's categories: format (zero width, direction, tags), private, surrogate, unassigned; and control.
_UNSEEN = {"Cf", "Co", "Cs", "Cn", "Cc"}
_LAYOUT = "\n\r\t"


class Standing(Enum):
    """How a tool stands. Only approved ones exist for the model."""

    APPROVED = "approved"
    NOT_APPROVED = "not_approved"
    CHANGED = "changed"
    MISSING = "missing"
    UNFIT = "unfit"


_REASONS: Mapping[Standing, str] = {
    Standing.APPROVED: "",
    Standing.NOT_APPROVED: "it was not approved yet",
    Standing.CHANGED: "it was changed since it was approved",
    Standing.MISSING: "its server offers it no more",
    Standing.UNFIT: "its description or its arguments are not fit for a model",
}


@dataclass(frozen=True)
class Judged:
    """One tool of a tenant's file. `remote` is None where its server does not list it."""

    name: str
    standing: Standing
    pin: str
    remote: RemoteTool | None = None

    @property
    def reason(self) -> str:
        """Why it may not be used, in words."""
        return _REASONS[self.standing]


def judged(server: McpServer, listed: Mapping[str, RemoteTool]) -> dict[str, Judged]:
    """All tools that the file allows, by the name that the server knows them by."""
    return {
        name: Judged(name, _standing(pin, listed.get(name)), pin, listed.get(name))
        for name, pin in server.tools.items()
    }


def unlisted(server: McpServer, listed: Mapping[str, RemoteTool]) -> list[RemoteTool]:
    """Tools of the server that the file does not name."""
    return [tool for name, tool in listed.items() if name not in server.tools]


def unfit(tool: RemoteTool) -> str:
    """Why no model should read it whatever a person says; empty if it may."""
    if len(tool.description) > MAX_DESCRIPTION_CHARS:
        return f"the description has {len(tool.description)} characters; at most {MAX_DESCRIPTION_CHARS} are read"
    size = len(json.dumps(tool.schema, ensure_ascii=False))
    if size > MAX_SCHEMA_CHARS:
        return f"the schema has {size} characters; at most {MAX_SCHEMA_CHARS} are read"
    return "" if tool.schema.get("type") == "object" else "the schema is not that of an object"


def hidden(tool: RemoteTool) -> list[str]:
    """Characters of its definition that a person does not see and a model reads, as `U+200B`, each once."""
    found = dict.fromkeys("".join(_texts(tool.definition())))
    return [f"U+{ord(one):04X}" for one in found if unicodedata.category(one) in _UNSEEN and one not in _LAYOUT]


def orders(tool: RemoteTool, detector: Detector) -> list[str]:
    """Sentences of its definition that give a model orders beyond the use of the tool; false alarms are possible."""
    texts = dict.fromkeys(_texts(tool.definition()))
    return [text[one.start : one.end].strip() for text in texts for one in detector.suspects(text)]


def _texts(value: Any) -> Iterator[str]:
    """All texts in a JSON value, in order; names of arguments are read, too."""
    left: list[Any] = [value]
    while left:
        one = left.pop()
        if isinstance(one, str):
            yield one
        elif isinstance(one, dict):
            left += reversed([part for pair in cast(dict[str, Any], one).items() for part in pair])
        elif isinstance(one, list):
            left += reversed(cast(list[Any], one))


def schema_for_model(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema without what servers of models do not take."""
    return {key: value for key, value in schema.items() if key not in ("$schema", "$id", "title")}


def _standing(pin: str, tool: RemoteTool | None) -> Standing:
    if tool is None:
        return Standing.MISSING
    if not pin:
        return Standing.NOT_APPROVED
    if tool.fingerprint != pin:
        return Standing.CHANGED
    return Standing.UNFIT if unfit(tool) else Standing.APPROVED
