"""Turns the parts of a question into tool calls, with arguments that fit the tools' own schemas."""

import json
import re
from collections.abc import Mapping, Sequence
from datetime import date
from functools import lru_cache
from typing import Any, cast

from services.runtime.expressions.dates import date_ranges
from services.runtime.expressions.quantities import comparisons
from services.understudy.conversation import Call, Tool
from services.understudy.extract import FRAME
from services.understudy.glossary import counterpart
from services.understudy.intent import Part, need_of, points_back, recurring, split
from services.understudy.schema_reader import Schema, read_schema
from services.understudy.schema_words import words_of
from services.understudy.signs import Need
from services.understudy.sql_request import codes, without_codes
from services.understudy.sql_writer import write_sql
from services.understudy.words import alike, content, fold, stem, stems

# How many passages to ask for: of many documents, of several, of one that is named.
_RECURRING_TOP_K, _WIDE_TOP_K, _NAMED_TOP_K = 20, 12, 10
_WIDE = re.compile(
    r"\b(?:all|every|each|todos?|todas?|compare|compara\w*|list|lista\w*|which contracts|que contratos)\b"
)
_WORD = re.compile(r"[^\W_]+")
_QUESTION_WORD = re.compile(
    r"^\W*(?:(?:y|and)\s+)?(?:cuales son|cual es|que|cuales|which|what are|what is|"
    r"what)\b\s*(?:the\s+|los\s+|las\s+|el\s+|la\s+)?"
)


def schema_of(tools: Mapping[str, Tool]) -> Schema:
    """The tables that the description of sql_query tells of."""
    tool = tools.get(Need.SQL.value)
    return read_schema(tool.description) if tool else Schema({})


@lru_cache(maxsize=256)
def read_parts(question: str, schema: Schema) -> tuple[Part, ...]:
    """Parts with their needs, without talk beside a real question.

    Neighbours for the database are one part when the second names no table of its own.
    """
    words = words_of(schema) if schema.tables else None
    parts: list[Part] = []
    for text, stage in split(question):
        need = need_of(text, words)
        before = parts[-1] if parts else None
        joins = before is not None and before.need is need is Need.SQL and before.stage == stage
        if joins and before and words and not any(words.table_of(stem(word)) for word in content(text)):
            parts[-1] = Part(f"{before.text}, {text}", need, stage)
        else:
            parts.append(Part(text, need, stage))
    real = [part for part in parts if part.need is not Need.TALK]
    return tuple(real or parts)


def calls_for(
    parts: Sequence[Part], stage: int, question: str, tools: Mapping[str, Tool], today: date, names: Sequence[str] = ()
) -> list[Call]:
    """The calls of one stage, each once. Parts for a tool that is not on offer go to the nearest that is.

    `names` were found by earlier stages; searches that point back to them carry them.
    """
    schema = schema_of(tools)
    calls: list[Call] = []
    for part in parts:
        if part.stage != stage:
            continue
        call = _call(part, question, tools, schema, today, names)
        if call is not None and call not in calls:
            calls.append(call)
    return calls


def _call(
    part: Part, question: str, tools: Mapping[str, Tool], schema: Schema, today: date, names: Sequence[str]
) -> Call | None:
    need = part.need
    if need is Need.SQL and need.value in tools:
        pointed = f'{part.text} "{names[0]}"' if names and points_back(part.text) else part.text
        statement = write_sql(pointed, schema, today)
        if statement is not None:
            return _json(need.value, {"query": statement.sql, "params": statement.params})
        need = Need.DOCUMENTS
    elif need is Need.SQL:
        need = Need.DOCUMENTS
    if need is Need.DOCUMENTS and need.value not in tools and Need.WEB.value in tools:
        need = Need.WEB
    tool = tools.get(need.value)
    if tool is None:
        return None
    if need is Need.DOCUMENTS:
        pointed = f"{' '.join(names)} " if names and points_back(part.text) else ""
        return _json(tool.name, document_arguments(pointed + part.text, question, tool))
    # Nothing but the part itself: what was found inside must not reach the web.
    return _json(tool.name, {"query": part.text.strip(" ¿?¡!")[:400]})


def document_arguments(text: str, question: str, tool: Tool) -> dict[str, Any]:
    """Arguments of vector_search: the part's own words, and what it refers to."""
    arguments: dict[str, Any] = {"query": (_for_codes(text) or _searched(text, question))[:2000]}
    properties = _object(tool.parameters.get("properties"))
    wanted = _top_k(text)
    if "top_k" in properties and wanted:
        maximum = _object(properties["top_k"]).get("maximum")
        arguments["top_k"] = min(wanted, maximum) if isinstance(maximum, int) else wanted
    collection = _collection(text, _object(properties.get("collection")), tool.description)
    if collection:
        arguments["collection"] = collection
    return arguments


def _top_k(text: str) -> int:
    """How many passages a text needs; 0 leaves it to the tool."""
    if recurring(text):
        return _RECURRING_TOP_K
    if _WIDE.search(fold(text)):
        return _WIDE_TOP_K
    return _NAMED_TOP_K if codes(text) else 0


def _for_codes(text: str) -> str:
    """The codes that a text names, its words that carry meaning, and those in the other language; empty without codes.

    A code stands for one document, whose language is not known. The words of asking, and what kind of thing has the
    code, would bring other documents of that kind before it.
    """
    named = codes(text)
    if not named:
        return ""
    words = [word for word in _WORD.findall(without_codes(text)) if any(one not in FRAME for one in stems(word))]
    others = [other for word in words if (other := counterpart(stem(fold(word))))]
    return " ".join(dict.fromkeys([*(code for code, _, _ in named), *words, *others]))


def _searched(text: str, question: str) -> str:
    """What to search for; a part that leans on another also carries the other's content words."""
    own = _QUESTION_WORD.sub("", fold(text))
    query = text[len(text) - len(own) :].strip(" ¿?¡!.,;") if fold(text).endswith(own) else text
    if text.strip(" ¿?") == question.strip(" ¿?") or not points_back(text):
        return text.strip(" ¿?") if not query or not points_back(text) else query
    spans = [(one.start, one.end) for one in (*comparisons(question), *date_ranges(question, date(2000, 1, 1)))]
    known = set(stems(text))
    context: list[str] = []
    for match in _WORD.finditer(question):
        word = match[0]
        outside = not any(start <= match.start() < end for start, end in spans)
        if outside and content(word) and stem(fold(word)) not in known and not word.isdigit():
            known.add(stem(fold(word)))
            context.append(word)
    return f"{query}, {' '.join(context)}" if context else query


def _collection(text: str, schema: Mapping[str, Any], description: str) -> str:
    """The collection that the question clearly names, when the tool lists its collections."""
    names = [name for name in _enumerated(schema) if isinstance(name, str)]
    if len(names) < 2:
        return ""
    words = set(stems(text))
    about = {name: set(stems(re.sub("[-_]", " ", name))) | _described(name, description) for name in names}
    named = [name for name, known in about.items() if any(alike(word, one) for word in words for one in known)]
    return named[0] if len(named) == 1 else ""


def _described(name: str, description: str) -> set[str]:
    """Words of what the description says of a collection: the line or clause that begins with its name."""
    match = re.search(rf"[`'\"]?{re.escape(name)}[`'\"]?\s*[:=(–-]\s*([^\n;]+)", description)
    return set(stems(match[1])) if match else set()


def _enumerated(schema: Mapping[str, Any]) -> list[Any]:
    values = schema.get("enum")
    if isinstance(values, list):
        return cast(list[Any], values)
    options = schema.get("anyOf")
    for option in cast(list[Any], options) if isinstance(options, list) else []:
        if found := _enumerated(_object(option)):
            return found
    return []


def _object(value: Any) -> Mapping[str, Any]:
    return cast(Mapping[str, Any], value) if isinstance(value, dict) else {}


def _json(name: str, arguments: Mapping[str, Any]) -> Call:
    return Call(name, json.dumps(arguments, ensure_ascii=False))
