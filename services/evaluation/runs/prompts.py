"""What a model is told that is asked without the agent: as a baseline, or with passages that the run has chosen."""

import json
import re
from collections.abc import Sequence

from services.evaluation.answered import Json, Passage

_ALONE = {
    "en": "Answer the question in one or two sentences. If you do not know the answer, reply only: {unknown}",
    "es": "Responde a la pregunta en una o dos frases. Si no sabes la respuesta, contesta solo: {unknown}",
}
_GIVEN = {
    "en": "Answer the question from what the tool returned and from nothing else, in its language, citing each claim "
    "by the number of its passage, such as [1]. If the answer is not in it, reply only: {unknown}",
    "es": "Responde a la pregunta solo con lo que devolvió la herramienta, en su idioma, citando cada afirmación con "
    "el número de su pasaje, como [1]. Si ahí no está la respuesta, contesta solo: {unknown}",
}
_UNKNOWN = {"en": "I do not know.", "es": "No lo sé."}
# How models say, in their own words, that they have nothing to say; looked for in what they say first.
_REFUSAL = re.compile(
    r"\b(?:do not|don't|did not|didn't|could not|couldn't|cannot|can't|am unable to)\s+"
    r"(?:know|find|answer|have (?:any |enough |sufficient |access))"
    r"|\bnot enough information|\bno information"
    r"|\bno (?:lo )?s[eé]\b|\bno (?:he encontrado|encuentro|puedo responder|dispongo de|tengo)\b"
    r"|\bno hay (?:suficiente )?informaci[oó]n",
    re.IGNORECASE,
)
_FIRST_CHARS = 160

_TOOL = "vector_search"


def alone(question: str, language: str) -> list[dict[str, Json]]:
    """Messages that ask a model for what it happens to know."""
    return [_system(_ALONE, language), {"role": "user", "content": question}]


def given(question: str, language: str, passages: Sequence[Passage]) -> list[dict[str, Json]]:
    """Messages that show a model passages as the result of a search, as the agent does."""
    found: Json = [
        {"n": number, "document_id": one.source, "title": one.source, "text": one.text}
        for number, one in enumerate(passages, start=1)
    ]
    function: Json = {"name": _TOOL, "arguments": json.dumps({"query": question}, ensure_ascii=False)}
    call: Json = {"id": "call_1", "type": "function", "function": function}
    return [
        _system(_GIVEN, language),
        {"role": "user", "content": question},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_1", "content": json.dumps({"passages": found}, ensure_ascii=False)},
    ]


def is_refusal(text: str) -> bool:
    """Whether a model says first of all that it does not know. The agent says by itself whether it refused."""
    return not text.strip() or _REFUSAL.search(text[:_FIRST_CHARS].replace("’", "'")) is not None


def _system(texts: dict[str, str], language: str) -> dict[str, Json]:
    known = language if language in texts else "en"
    return {"role": "system", "content": texts[known].format(unknown=_UNKNOWN[known])}
