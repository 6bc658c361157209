"""Reads files of the Berkeley function-calling leaderboard, version 4 (Patil et al., ICML 2025), single-turn."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from services.evaluation.answered import Json
from services.evaluation.golden.item import ExpectedCall, Item, Stratum

# Its names for what JSON Schema calls otherwise.
_TYPES = {"dict": "object", "float": "number", "tuple": "array", "any": "string"}
# Of one turn, with functions described in Python's types; the others need a simulated world, or another language.
_CURATED = ("simple_python", "multiple", "parallel", "parallel_multiple", "irrelevance")
_LIVE = ("live_simple", "live_multiple", "live_parallel", "live_parallel_multiple", "live_irrelevance")
CATEGORIES = (*_CURATED, *_LIVE)


class BrokenFile(ValueError):
    """A file that is not one of the leaderboard's. The message names the file and the line."""


@dataclass(frozen=True)
class Function:
    """A function that the model may call; `parameters` are JSON Schema."""

    name: str
    description: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True)
class Case:
    """A question, with the functions that are there for it alone."""

    item: Item
    functions: tuple[Function, ...]
    # (role, text) of the conversation, the question last.
    messages: tuple[tuple[str, str], ...] = ()

    @property
    def parameters(self) -> dict[str, Mapping[str, Any]]:
        """JSON Schema by function."""
        return {one.name: one.parameters for one in self.functions}


def read(folder: Path, category: str) -> list[Case]:
    """The cases of a category, as `BFCL_v4_<category>.json` and its possible answers hold them. Raises BrokenFile."""
    name = f"BFCL_v4_{category}.json"
    answers = {str(row["id"]): row["ground_truth"] for row in _rows(folder / "possible_answer" / name, missing_ok=True)}
    irrelevant = category.endswith("irrelevance")
    cases: list[Case] = []
    for row in _rows(folder / name):
        try:
            if not irrelevant and row["id"] not in answers:
                raise KeyError("possible answer")
            cases.append(_case(row, [] if irrelevant else answers[row["id"]]))
        except (KeyError, TypeError, IndexError) as error:
            raise BrokenFile(f"{folder / name}: `{row.get('id')}` lacks {error}") from None
    return cases


def there(folder: Path) -> list[str]:
    """Categories whose files are in the folder."""
    return [one for one in CATEGORIES if (folder / f"BFCL_v4_{one}.json").exists()]


def _case(row: Mapping[str, Any], answers: list[Mapping[str, Any]]) -> Case:
    calls = tuple(
        ExpectedCall(name, {key: accepted(values) for key, values in arguments.items()}, closed=True)
        for answer in answers
        for name, arguments in answer.items()
    )
    question = "\n".join(message["content"] for message in row["question"][0] if message["role"] == "user")
    item = Item(
        str(row["id"]),
        question,
        "en",
        Stratum.SINGLE_HOP if calls else Stratum.NO_TOOL,
        calls=calls,
        provenance="BFCL v4, Apache-2.0",
    )
    functions = tuple(Function(one["name"], one["description"], _schema(one["parameters"])) for one in row["function"])
    messages = tuple((str(message["role"]), str(message["content"])) for message in row["question"][0])
    return Case(item, functions, messages)


def accepted(values: list[Any]) -> Json:
    """An expectation from the leaderboard's list of accepted values; "" in it means that it may be left out."""
    choices = [_value(one) for one in values if one != ""]
    # Only "" is accepted: left out, or said to be empty.
    wanted: Json = {"any_of": choices} if choices else {"equals": ""}
    return {"optional": wanted} if "" in values else wanted


def _value(value: Any) -> Json:
    """In objects, each field has its own list of accepted values."""
    if isinstance(value, dict):
        fields = cast(dict[str, Any], value)
        return {"fields": {name: accepted(_listed(values)) for name, values in fields.items()}}
    if isinstance(value, list):
        return {"items": [_value(one) for one in cast(list[Any], value)]}
    return value


def _listed(values: Any) -> list[Any]:
    return cast(list[Any], values) if isinstance(values, list) else [values]


def _schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """JSON Schema of what the leaderboard writes with Python's names of types."""
    made = dict(schema)
    if isinstance(kind := made.get("type"), str):
        made["type"] = _TYPES.get(kind, kind)
    if isinstance(items := made.get("items"), dict):
        made["items"] = _schema(cast(dict[str, Any], items))
    if isinstance(fields := made.get("properties"), dict):
        made["properties"] = {name: _schema(one) for name, one in cast(dict[str, Any], fields).items()}
    return made


def _rows(path: Path, *, missing_ok: bool = False) -> list[dict[str, Any]]:
    if missing_ok and not path.exists():
        return []
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise BrokenFile(f"{path}: {error}") from None
    rows: list[dict[str, Any]] = []
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                rows.append(json.loads(line))
            except ValueError as error:
                raise BrokenFile(f"{path}: line {number}: {error}") from None
    return rows
