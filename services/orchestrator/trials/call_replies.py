"""Writes replies of families into tests/data/calls: `python -m services.orchestrator.trials.call_replies <folder>`.

The folder holds the Berkeley Function-Calling Leaderboard (data of v4, Apache-2.0). Each reply is an accepted answer to
one of its questions, written in the form that the family's model card and vLLM's parser publish, whole or broken in the
ways that people report. No model was asked.
"""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, cast

from services.orchestrator.arguments import ForeignForm, WrongArguments
from services.orchestrator.trials.call_forms import FAMILIES, Case

_TARGET = Path("tests/data/calls")
_TYPES = {"dict": "object", "float": "number", "tuple": "array", "any": None}


def main(folder: Path) -> None:
    """Writes one file a family."""
    single = list(_cases(folder, ("simple_python", "multiple", "live_simple"), 60))
    several = list(_cases(folder, ("parallel", "parallel_multiple", "live_parallel_multiple"), 40))
    without = list(_cases(folder, ("irrelevance",), 10))
    for family, kinds in FAMILIES.items():
        lines: list[str] = []
        ones, manys, nones = iter(single), iter(several), iter(without)
        for kind, (source, write, count) in kinds.items():
            for case in islice({"one": ones, "many": manys, "none": nones}[source], count):
                body = {"id": case.id, "kind": kind, "question": case.question, "tools": case.tools}
                calls = [{"name": name, "arguments": arguments} for name, arguments in case.calls]
                body |= {"replies": write(case), "calls": calls}
                lines.append(json.dumps(body, ensure_ascii=False))
        (_TARGET / f"{family}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
        print(f"{family}: {len(lines)} replies")


def _cases(folder: Path, names: Sequence[str], most: int) -> Iterator[Case]:
    """Short ones of each file in turn, whose accepted answer is within the schema."""
    files = [_of_file(folder, name) for name in names]
    found = 0
    while files and found < most:
        for file in list(files):
            case = next(file, None)
            if case is None:
                files.remove(file)
            else:
                found += 1
                yield case


def _of_file(folder: Path, name: str) -> Iterator[Case]:
    answers = folder / "possible_answer" / f"BFCL_v4_{name}.json"
    known = {one["id"]: one["ground_truth"] for one in _lines(answers)} if answers.exists() else {}
    for one in _lines(folder / f"BFCL_v4_{name}.json"):
        tools = [_tool(each) for each in one["function"]]
        truth = cast(list[dict[str, dict[str, list[Any]]]], known.get(one["id"], []))
        calls = [(_name(name), _first(accepted)) for call in truth for name, accepted in call.items()]
        question = one["question"][0][-1]["content"]
        if len(json.dumps(tools)) < 2_500 and len(question) < 400 and _are_valid(calls, tools):
            yield Case(one["id"], question, tools, calls)


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line]


def _tool(function: Mapping[str, Any]) -> dict[str, Any]:
    parameters = _schema(function["parameters"])
    return {"name": _name(function["name"]), "description": function["description"], "parameters": parameters}


def _name(name: str) -> str:
    """Names of tools have no dots."""
    return name.replace(".", "_")


def _schema(value: Any) -> Any:
    if isinstance(value, list):
        return [_schema(one) for one in cast(list[Any], value)]
    if not isinstance(value, dict):
        return value
    schema = {key: _schema(one) for key, one in cast(dict[str, Any], value).items() if key != "optional"}
    kind = schema.get("type")
    if isinstance(kind, str) and kind in _TYPES:
        schema["type"] = _TYPES[kind]
        if schema["type"] is None:
            del schema["type"]
    return schema


def _first(accepted: Mapping[str, list[Any]]) -> dict[str, Any]:
    return {key: values[0] for key, values in accepted.items() if "" not in values}


def _are_valid(calls: Sequence[tuple[str, Mapping[str, Any]]], tools: Sequence[Mapping[str, Any]]) -> bool:
    forms = {tool["name"]: ForeignForm(tool["parameters"]) for tool in tools}
    try:
        return all(forms[name].read(json.dumps(arguments)) == arguments for name, arguments in calls)
    except (WrongArguments, KeyError):
        return False


if __name__ == "__main__":
    main(Path(sys.argv[1]))
