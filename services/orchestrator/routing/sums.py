"""Sums that a question spells out: what the calculator's own grammar takes needs no source."""

import re

from services.orchestrator.calculator.expression import evaluate
from services.orchestrator.calculator.functions import BadExpression
from services.runtime.expressions.folding import fold

_MAX_CHARS = 200
_OPENING = re.compile(
    r"^(?:(?:and|y) )?"
    r"(?:(?:how much (?:is|are|does)|what(?: is|'s| are| does| do you get from)|calculate|compute|work out|solve|"
    r"cuanto (?:es|son|da|dan|hace|hacen|vale|suma|suman)|cual es|calcula(?:me)?|halla|resuelve|"
    r"(?:the )?result of|el resultado de)\b(?: the result of| el resultado de)?\s*)?"
)
# In this order: `15 % of 300` before `%`, `divided by` before `by`.
_SPOKEN = (
    (r"%\s*(?:of|de|del)\b|\b(?:per ?cent|por ciento) (?:of|de|del)\b", "%*"),
    (r"\b(?:per ?cent|por ciento)\b", "%"),
    (r"\b(?:plus|added to|mas)\b", "+"),
    (r"\b(?:minus|less|menos)\b", "-"),
    (r"\b(?:divided by|over|dividido (?:por|entre)|entre)\b", "/"),
    (r"\b(?:times|multiplied by|multiplicado por|por)\b|(?<=\d)\s*x\s*(?=\d)", "*"),
    (r"\b(?:to the power of|elevado a)\b", "^"),
    (r"\b(?:squared|al cuadrado)\b", "^2"),
    (r"\b(?:cubed|al cubo)\b", "^3"),
    (r"^(?:the|el) (?=\d)", ""),
)
_SIGN = re.compile(r"[-+*/^]")
_SEPARATOR = re.compile(r"(?<=\d)[.,](?=\d)")
_DATE = re.compile(r"\d{4}-\d{1,2}-\d{1,2}")


def is_sum(question: str) -> bool:
    """Whether the question is a sum and nothing else: `What is 17 times 23?`, `¿Cuánto es el 15 % de 300?`."""
    text = fold(question).strip("¿?¡!.= ")
    if len(text) > _MAX_CHARS or _DATE.search(text):
        return False
    text = _OPENING.sub("", text, count=1)
    for spoken, sign in _SPOKEN:
        text = re.sub(spoken, sign, text)
    if not _SIGN.search(text) or re.search(r"[a-z]", text):
        return False
    try:
        # Which separator is the decimal one does not matter here: nothing is made of the result.
        evaluate(_SEPARATOR.sub("", text))
    except BadExpression:
        return False
    return True
