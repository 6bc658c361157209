"""What was approved of foreign tools: kept beside the tenant's file, so that a change can be shown as one."""

import difflib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

Definition = dict[str, Any]
_RECORD = TypeAdapter(dict[str, dict[str, dict[str, Definition]]])


class BadRecord(Exception):
    """The record cannot be read or written; the message says why."""


class Approvals:
    """`<tenant's file>.mcp.json`: definitions by server, tool and hash. The pins in that file are what counts."""

    def __init__(self, tenant_file: Path) -> None:
        """Raises BadRecord."""
        self.path = tenant_file.with_suffix(".mcp.json")
        self._known: dict[str, dict[str, dict[str, Definition]]] = {}
        try:
            if self.path.exists():
                self._known = _RECORD.validate_json(self.path.read_bytes())
        except OSError as error:
            raise BadRecord(f"{self.path.name} cannot be read: {error.strerror}.") from None
        except ValidationError:
            raise BadRecord(f"{self.path.name} is not a record that `pin` has written; move it away.") from None

    def of(self, server: str, tool: str, pin: str) -> Definition | None:
        """The tool as it was when `pin` was printed; None where that is not known."""
        return self._known.get(server, {}).get(tool, {}).get(pin)

    def keep(self, server: str, tool: str, pin: str, definition: Definition) -> None:
        """Notes what is approved now, in place of what was before."""
        self._known.setdefault(server, {})[tool] = {pin: definition}

    def write(self) -> None:
        """Writes the file. Raises BadRecord."""
        text = json.dumps(self._known, ensure_ascii=False, indent=2, sort_keys=True)
        try:
            self.path.write_text(text + "\n", encoding="utf-8", errors="backslashreplace")
        except OSError as error:
            raise BadRecord(f"{self.path.name} cannot be written: {error.strerror}.") from None


def changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    """What differs between two definitions, line by line, as `diff -u` shows it."""
    yield from difflib.unified_diff(_lines(before), _lines(after), "approved", "now", lineterm="")


def _lines(definition: Mapping[str, Any]) -> list[str]:
    return json.dumps(definition, ensure_ascii=False, indent=2, sort_keys=True).replace("\\n", "\n    ").splitlines()
