"""Writes an honest partial answer from the evidence when the model cannot."""

import re
from collections.abc import Sequence

from services.orchestrator.evidence import Evidence
from services.orchestrator.results import Page, Passage, Reply, Rows, Source

_MAX_SOURCES = 8
_QUOTE_CHARS = 240
_SPANISH = frozenset(
    "el la los las un una de del que qué y en por para con cuántos cuál cuáles cómo dónde es son hay".split()
)
_ENGLISH = frozenset("the a an of and in for with how what which who where when is are do does did many much".split())

_TEXT = {
    "en": {
        "found": "I could not finish the answer ({why}). This is what I found so far:",
        "nothing": "I do not have enough information to answer ({why}), and found nothing that I could cite.",
        "missing": "What is not listed here could not be checked.",
        "cut": "The answer above is cut off ({why}).",
        "rest": "This was found too:",
        "rows": "{count} row(s) from the database",
        "iterations": "too many steps were needed",
        "tokens": "the token budget is used up",
        "calls": "the calls that one answer may make are used up",
        "repeated_calls": "the same calls were made again and again",
        "deadline": "the time is used up",
        "tool_failed": "a service that I need does not answer",
        "empty_answer": "the language model wrote none",
    },
    "es": {
        "found": "No he podido terminar la respuesta ({why}). Esto es lo que he encontrado hasta ahora:",
        "nothing": "No tengo información suficiente para responder ({why}) y no he encontrado nada que pueda citar.",
        "missing": "Lo que no figura aquí no se ha podido comprobar.",
        "cut": "La respuesta anterior está cortada ({why}).",
        "rest": "También se encontró:",
        "rows": "{count} fila(s) de la base de datos",
        "iterations": "hacían falta demasiados pasos",
        "tokens": "se ha agotado el presupuesto de tokens",
        "calls": "se han agotado las consultas que admite una respuesta",
        "repeated_calls": "se repetían una y otra vez las mismas consultas",
        "deadline": "se ha agotado el tiempo",
        "tool_failed": "un servicio necesario no responde",
        "empty_answer": "el modelo de lenguaje no ha escrito ninguna",
    },
}


def language(text: str) -> str:
    """`es` or `en`, by function words and letters that only Spanish has."""
    words = re.findall(r"\w+", text.lower())
    spanish = sum(word in _SPANISH for word in words) + 2 * len(re.findall("[¿¡ñáéíóú]", text.lower()))
    return "es" if spanish > sum(word in _ENGLISH for word in words) else "en"


def partial_answer(
    question: str, evidence: Evidence, reason: str, *, said: bool = False, used: Sequence[int] = ()
) -> str:
    """What was found, with marks, in the question's language.

    `said`: some of the answer was shown before; then only sources that it did not use are listed.
    """
    text = _TEXT[language(question)]
    why = text[reason]
    lines = [
        f"- {_described(source, text['rows'])} [{mark}]"
        for mark, source in evidence.sources.items()
        if mark not in used
    ][:_MAX_SOURCES]
    if said:
        return "\n".join([text["cut"].format(why=why), *([text["rest"], *lines] if lines else ())])
    if not evidence.has_content:
        return text["nothing"].format(why=why)
    return "\n".join([text["found"].format(why=why), *lines, "", text["missing"]])


def _described(source: Source, rows_text: str) -> str:
    match source:
        case Passage():
            place = ", ".join(filter(None, (source.title or source.document_id, source.section)))
            return f"{place}: «{_short(source.text)}»"
        case Page():
            return f"{_short(source.title)}: «{_short(source.snippet)}»"
        case Rows():
            rows = [
                ", ".join(f"{name} = {value}" for name, value in zip(source.columns, row, strict=False))
                for row in source.rows[:3]
            ]
            return _short("; ".join([rows_text.format(count=len(source.rows)), *rows]))
        case Reply():
            return f"{source.tool}: «{_short(source.text)}»"


def _short(text: str) -> str:
    """One line, without brackets that would read as marks."""
    line = " ".join(text.split()).replace("[", "(").replace("]", ")")
    return line if len(line) <= _QUOTE_CHARS else line[: _QUOTE_CHARS - 1] + "…"
