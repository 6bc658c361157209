"""Reads calls from what stands between the marks of a family, or from JSON without marks."""

import difflib
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, cast

from services.orchestrator.arguments import strict_json
from services.orchestrator.calling.profiles import Form
from services.orchestrator.calling.tolerant_json import NotReadable, read_object, read_values

# JSON Schema of each tool's arguments by name.
Offered = Mapping[str, Mapping[str, Any]]

_NAME = re.compile(r"[\w.-]{1,64}")
_XML_CALL = re.compile(r"<function\s*=\s*([\w.-]{1,64})\s*>(.*?)(?=</function>|<function\s*=|\Z)", re.DOTALL)
_XML_PARAMETER = re.compile(
    r"<parameter\s*=\s*([\w.-]{1,64})\s*>(.*?)(?:</parameter>|(?=<parameter\s*=)|\Z)", re.DOTALL
)
_AFTER_MARK = re.compile(r"\s*([\w.-]{1,64})\s*(?:\[CALL_ID\][\w-]{1,64}\s*)?(?:\[ARGS\])?\s*")
_NEAR = 0.8
_ARGUMENTS = {"arguments", "parameters"}
_KEYS = _ARGUMENTS | {"name", "function", "type", "id"}
_BEGUN = re.compile(
    r"\s*(?:```[a-z_]*\s*)?[\[\s]*\{\s*(?:[\"']type[\"']\s*:\s*[\"']function[\"']\s*,\s*)?[\"'](?:name|function)[\"']\s*:\s*"
    r"[\"']([\w.-]{1,64})[\"']\s*,\s*[\"'](?:arguments|parameters)[\"']"
)
_REQUEST = "Nothing was run. Call the tool again, its arguments as one valid JSON object."


class WrittenCall(NamedTuple):
    """A call as it was written; its arguments are the text of a JSON object."""

    name: str
    arguments_json: str


class NotACall(Exception):
    """Something was meant as a call and cannot be read as one; the message is a line for the model."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"[Your call could not be read: {reason}. {_REQUEST}]")


def marked_calls(form: Form, body: str, offered: Offered, *, cut: bool) -> list[WrittenCall]:
    """The calls in what follows the mark of `form`. `cut`: the text ends there because no more could be written.

    Raises NotACall.
    """
    try:
        match form:
            case Form.TOOL_CALL_TAG:
                return [call for part in _parts(body, form) for call in _tagged(part, offered, cut=cut)]
            case Form.FUNCTION_TAG:
                return _tagged(form.value + body, offered, cut=cut)
            case Form.TOOL_CALLS_MARK:
                return [call for part in _parts(body, form) for call in _after_mark(part, cut=cut)]
            case _:
                return _calls(read_values(body, cut=cut))
    except NotReadable as error:
        raise NotACall(str(error)) from None


def bare_calls(text: str, offered: Offered, *, cut: bool) -> list[WrittenCall]:
    """The calls that `text` is, without any mark; none where it is something else: JSON that is shown, say.

    Raises NotACall for what begins as a call of a tool on offer and cannot be read.
    """
    try:
        values = read_values(text, cut=cut)
        calls = _calls(values)
    except NotReadable as error:
        begun = _BEGUN.match(text)
        # Only where it is clear to its end that nothing else was meant.
        if begun and begun[1] in offered and (cut or text.rstrip()[-1:] in "}]`\"'"):
            raise NotACall(str(error)) from None
        return []
    return calls if _nothing_but_calls(values) and all(is_near(call.name, offered) for call in calls) else []


def _nothing_but_calls(values: Iterable[Any]) -> bool:
    """Whether each object has arguments, and nothing that calls have not: descriptions of tools do."""
    flat = [cast(dict[str, Any], one) for one in _flat(values)]
    bodies = [one["function"] if isinstance(one.get("function"), dict) else one for one in flat]
    return all(body.keys() <= _KEYS and body.keys() & _ARGUMENTS for body in bodies)


def is_near(name: str, names: Iterable[str]) -> bool:
    """Whether `name` is one of `names`, or such a one misspelt."""
    return bool(difflib.get_close_matches(name, list(names), 1, _NEAR))


def _parts(body: str, form: Form) -> list[str]:
    """What stands behind each mark: some models leave out what ends a call."""
    parts = [part for part in body.split(form.value) if part.strip()]
    if not parts:
        raise NotReadable("it is empty")
    return parts


def _tagged(text: str, offered: Offered, *, cut: bool) -> list[WrittenCall]:
    """Calls as JSON, or in the form of Qwen3-Coder (XML) or Llama (JSON behind the name)."""
    if "<function" not in text.split("{", 1)[0]:
        return _calls(read_values(text, cut=cut))
    calls = [_function(match[1], match[2], offered, cut=cut) for match in _XML_CALL.finditer(text)]
    if not calls:
        raise NotReadable("the function has no name")
    return calls


def _function(name: str, body: str, offered: Offered, *, cut: bool) -> WrittenCall:
    body = body.strip()
    if body.startswith(("{", "`")):
        return _call(name, read_object(body, cut=cut))
    if body and not body.startswith("<parameter"):
        raise NotReadable("after the name of the function come its arguments")
    if cut and not body.endswith("</parameter>"):
        raise NotReadable("it breaks off")
    properties = cast(Mapping[str, Any], offered.get(name, {}).get("properties", {}))
    found = {match[1]: _value(match[2], properties.get(match[1])) for match in _XML_PARAMETER.finditer(body)}
    return _call(name, found)


def _value(text: str, schema: Any) -> Any:
    """A parameter's value: text is taken as it is, without the line breaks around it; the rest is JSON."""
    text = text.removeprefix("\n").removesuffix("\n")
    kind = cast(Mapping[str, Any], schema).get("type") if isinstance(schema, Mapping) else None
    if kind == "string":
        return text
    word = text.strip()
    literals = {"true": True, "false": False, "null": None, "none": None}
    if kind is not None and word.lower() in literals:
        return literals[word.lower()]
    try:
        return strict_json(word)
    except ValueError:
        pass
    try:
        return read_values(word)[0] if kind in ("array", "object") else text
    except (NotReadable, IndexError):
        return text


def _after_mark(text: str, *, cut: bool) -> list[WrittenCall]:
    """What follows Mistral's mark: a list of calls, or a name and its arguments."""
    if text.lstrip()[:1] in "[{`":
        return _calls(read_values(text, cut=cut))
    match = _AFTER_MARK.match(text)
    if match is None:
        raise NotReadable("the name of the tool is missing")
    return [_call(match[1], read_object(text[match.end() :] or "{}", cut=cut))]


def _calls(values: Iterable[Any]) -> list[WrittenCall]:
    """Raises NotReadable where one is no call."""
    flat = _flat(values)
    if not flat:
        raise NotReadable("it is empty")
    return [_from_object(one) for one in flat]


def _flat(values: Iterable[Any]) -> list[Any]:
    return [one for value in values for one in (cast(list[Any], value) if isinstance(value, list) else [value])]


def _from_object(value: Any) -> WrittenCall:
    if not isinstance(value, dict):
        raise NotReadable("a call is an object with a name and arguments")
    body = cast(dict[str, Any], value)
    function = body.get("function")
    if isinstance(function, dict):
        body = cast(dict[str, Any], function)
    name = body.get("name") or (function if isinstance(function, str) else "")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise NotReadable("the name of the tool is missing")
    written = [body[key] for key in ("arguments", "parameters") if body.get(key) is not None]
    arguments: Any = written[0] if written else {}
    if isinstance(arguments, str):
        arguments = read_object(arguments or "{}")
    if not isinstance(arguments, dict):
        raise NotReadable("the arguments are no object")
    return _call(name, cast(dict[str, Any], arguments))


def _call(name: str, arguments: Mapping[str, Any]) -> WrittenCall:
    return WrittenCall(name, json.dumps(arguments, ensure_ascii=False))
