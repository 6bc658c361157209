"""How each family of models writes calls, whole and broken in the ways that people report."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

# A question's name and arguments as one call in text.
_WriteCall = Callable[[str, Mapping[str, Any]], str]
_PROSE, _THOUGHT = "I will look that up.\n", '<think>\nThe user wants a call. {"name": is how one begins.\n</think>\n\n'


@dataclass(frozen=True)
class Case:
    """A question, its tools, and calls that are right."""

    id: str
    question: str
    tools: Sequence[Mapping[str, Any]]
    calls: Sequence[tuple[str, Mapping[str, Any]]]


# The replies to a question: the second is what comes after a complaint about the first.
Write = Callable[[Case], list[dict[str, Any]]]
# From which questions: with one call, with many, or with tools that do not help; how; and how many.
Kinds = Mapping[str, tuple[str, Write, int]]


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _with(key: str, write: Callable[[Any], str] = _json) -> _WriteCall:
    return lambda name, arguments: write({"name": name, key: dict(arguments)})


def _in_tag(write: _WriteCall) -> _WriteCall:
    return lambda name, arguments: f"<tool_call>\n{write(name, arguments)}\n</tool_call>"


def _in_fence(write: _WriteCall) -> _WriteCall:
    return lambda name, arguments: f"```json\n{write(name, arguments)}\n```"


def _function_tag(name: str, arguments: Mapping[str, Any]) -> str:
    return f"<function={name}>{_json(dict(arguments))}</function>"


def _arguments_as_text(name: str, arguments: Mapping[str, Any]) -> str:
    return _json({"name": name, "parameters": _json(dict(arguments))})


def _marked(name: str, arguments: Mapping[str, Any]) -> str:
    return f"[TOOL_CALLS]{name}[ARGS]{_json(dict(arguments))}"


def _xml(name: str, arguments: Mapping[str, Any]) -> str:
    lines = (
        f"<parameter={key}>\n{one if isinstance(one, str) else _json(one)}\n</parameter>\n"
        for key, one in arguments.items()
    )
    return f"<tool_call>\n<function={name}>\n{''.join(lines)}</function>\n</tool_call>"


def _without(part: str, write: _WriteCall) -> _WriteCall:
    return lambda name, arguments: write(name, arguments).replace(part, "")


def _half(write: _WriteCall, end: str = "") -> _WriteCall:
    """Broken off in the middle of a string."""

    def half(name: str, arguments: Mapping[str, Any]) -> str:
        text = write(name, arguments)
        return text[: text.rindex('"') - 1] + end

    return half


def _as(write: _WriteCall, joint: str = "\n", before: str = "", after: str = "", *, cut: bool = False) -> Write:
    return lambda case: [{"text": before + joint.join(write(*call) for call in case.calls) + after, "cut": cut}]


def _native(write: Callable[[Any], str] = _json) -> Write:
    return lambda case: [
        {
            "text": "",
            "calls": [
                {"id": f"call_{at}", "name": name, "arguments": write(dict(arguments))}
                for at, (name, arguments) in enumerate(case.calls)
            ],
        }
    ]


def _says(text: str) -> Write:
    return lambda _: [{"text": text}]


def _then(broken: Write, right: Write) -> Write:
    return lambda case: [*broken(case), *right(case)]


def _shows(case: Case) -> list[dict[str, Any]]:
    """An answer that explains a call and makes none."""
    tool = case.tools[0]["name"]
    text = f'None of my tools does that. `{tool}` for one is called so:\n```json\n{{"name": "{tool}", "arguments": '
    return [{"text": text + "{}}\n```\nIt would not answer your question."}]


_LLAMA, _OPENAI = _with("parameters"), _with("arguments")
_TAG, _PYTHON = _in_tag(_OPENAI), _with("arguments", repr)
_NATIVE: Kinds = {
    "native": ("one", _native(), 3),
    "native, as Python writes it": ("one", _native(repr), 2),
    "native, a comma too many": ("one", _native(lambda one: _json(one)[:-1] + ",}"), 2),
}
_NATIVE_SEVERAL: Kinds = {"native, several": ("many", _native(), 2)}
_ANSWERS: Kinds = {
    "answer in prose": ("none", _says("None of my tools does that."), 2),
    "answer in JSON": ("none", _says('{"answer": "none", "reason": "no tool does that"}'), 1),
    "answer that shows a call": ("none", _shows, 2),
}
FAMILIES: Mapping[str, Kinds] = {
    "llama3_json": {
        **_NATIVE,
        "bare": ("one", _as(_LLAMA), 4),
        "python_tag": ("one", _as(_LLAMA, before="<|python_tag|>", after="<|eom_id|>"), 2),
        "function tag": ("one", _as(_function_tag), 2),
        "behind prose": ("one", _as(_LLAMA, before=_PROSE), 2),
        "in a fence": ("one", _as(_in_fence(_LLAMA)), 2),
        "several, by semicolon": ("many", _as(_LLAMA, "; "), 3),
        "several, by line": ("many", _as(_LLAMA), 3),
        "several, as a list": ("many", _as(_LLAMA, ", ", "[", "]"), 2),
        "as Python writes it": ("one", _as(_with("parameters", repr)), 2),
        "a brace too many": ("one", _as(_LLAMA, after="}"), 1),
        "a brace too few": ("one", _as(lambda name, arguments: _LLAMA(name, arguments)[:-1]), 1),
        "arguments as text": ("one", _as(_arguments_as_text), 1),
        "python code": ("one", _then(_as(lambda name, _: f"<|python_tag|>{name}.call(x=1)"), _as(_LLAMA)), 2),
        "string without end": ("one", _then(_as(_half(_LLAMA), before="<|python_tag|>"), _native()), 2),
        "cut off": ("one", _then(_as(_half(_LLAMA), cut=True), _as(_LLAMA)), 1),
        **_ANSWERS,
    },
    "hermes": {
        **_NATIVE,
        **_NATIVE_SEVERAL,
        "tag": ("one", _as(_TAG), 4),
        "behind prose": ("one", _as(_TAG, before=_PROSE), 2),
        "behind a thought": ("one", _as(_TAG, before=_THOUGHT), 2),
        "several": ("many", _as(_TAG), 3),
        "several, none closed": ("many", _as(_without("</tool_call>", _TAG)), 2),
        "as Python writes it": ("one", _as(_in_tag(_PYTHON)), 2),
        "without a tag": ("one", _as(_OPENAI), 2),
        "parameters for arguments": ("one", _as(_in_tag(_LLAMA)), 1),
        "in a fence in the tag": ("one", _as(_in_tag(_in_fence(_OPENAI))), 1),
        "string without end": ("one", _then(_as(_in_tag(_half(_OPENAI))), _as(_TAG)), 2),
        "no name": ("one", _then(_says('<tool_call>{"arguments": {}}</tool_call>'), _as(_TAG)), 1),
        "cut off": ("one", _then(_as(_half(_TAG), cut=True), _as(_TAG)), 1),
        **_ANSWERS,
    },
    "mistral": {
        **_NATIVE,
        **_NATIVE_SEVERAL,
        "list": ("one", _as(_OPENAI, ", ", "[TOOL_CALLS] [", "]"), 4),
        "name and arguments": ("one", _as(_marked, ""), 4),
        "behind prose": ("one", _as(_marked, "", _PROSE), 2),
        "several, as a list": ("many", _as(_OPENAI, ", ", "[TOOL_CALLS] [", "]"), 3),
        "several, name and arguments": ("many", _as(_marked, ""), 3),
        "as Python writes it": ("one", _as(_PYTHON, ", ", "[TOOL_CALLS] [", "]"), 2),
        "without a mark": ("one", _as(_OPENAI, ", ", "[", "]"), 2),
        "string without end": ("one", _then(_as(_half(_marked), ""), _as(_marked, "")), 2),
        "no name": ("one", _then(_says('[TOOL_CALLS][{"arguments": {}}]'), _as(_marked, "")), 1),
        "cut off": ("one", _then(_as(_half(_marked), "", cut=True), _as(_marked, "")), 1),
        **_ANSWERS,
    },
    "qwen3": {
        **_NATIVE,
        **_NATIVE_SEVERAL,
        "tag": ("one", _as(_TAG), 2),
        "behind a thought": ("one", _as(_TAG, before=_THOUGHT), 3),
        "behind a thought begun in the prompt": ("one", _as(_TAG, before="</think>\n\n"), 2),
        "XML": ("one", _as(_xml), 4),
        "XML, its tag forgotten": ("one", _as(_without("<tool_call>\n", _xml)), 2),
        "several": ("many", _as(_TAG), 2),
        "several, XML": ("many", _as(_xml), 3),
        "as Python writes it": ("one", _as(_in_tag(_PYTHON)), 2),
        "without a tag": ("one", _as(_OPENAI), 1),
        "string without end": ("one", _then(_as(_in_tag(_half(_OPENAI))), _as(_xml)), 2),
        "XML without a name": ("one", _then(_says("<tool_call><function=>{}</function></tool_call>"), _as(_xml)), 1),
        "cut off": ("one", _then(_as(_half(_TAG), cut=True), _as(_TAG)), 1),
        **_ANSWERS,
    },
}
