"""Evaluates small expressions over decimal numbers and dates. Nothing of it is ever run as code."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from decimal import ROUND_HALF_UP, Context, Decimal, localcontext

from services.orchestrator.calculator.functions import (
    FUNCTIONS,
    SHOWN_DIGITS,
    BadExpression,
    Value,
    added,
    bounded,
    day_of,
    plain,
    raised,
)

MAX_CHARS = 400
_MAX_DEPTH, _MAX_ARGUMENTS, _MAX_DIGITS = 24, 60, 30
# Precise enough that no sum or product of permitted numbers is rounded; quotients are.
_PRECISION = 100


@dataclass(frozen=True)
class Result:
    """A number or a day. `exact`: nothing was rounded away."""

    value: Value
    exact: bool = True

    def __str__(self) -> str:
        if isinstance(self.value, date):
            return self.value.isoformat()
        text = f"{self.value:f}"
        return (text.rstrip("0").rstrip(".") if "." in text else text) or "0"


_TOKEN = re.compile(
    r"\s*(?:(?P<date>\d{4}-\d{2}-\d{2})(?![\d-])|(?P<number>\d[\d.,']*)|(?P<name>[^\W\d_]+)|(?P<sign>\*\*|[-+*/%^(),;]))"
)
_SPELT_SIGNS = str.maketrans({"×": "*", "·": "*", "÷": "/", "−": "-", "–": "-", "[": "(", "]": ")", "{": "(", "}": ")"})
# Dates in other forms would be read as subtractions and divisions.
_OTHER_DATE = re.compile(
    r"(?<![\d.])(?:\d{4}-\d{1,2}-\d{1,2}|\d{1,2}[/-]\d{1,2}[/-]\d{2,4}|\d{4}/\d{1,2}/\d{1,2})(?![\d.])"
)
_ISO_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_PLAIN = re.compile(r"\d+(?:\.\d+)?")
_ADVICE = "write numbers as 1234.5, with a point before the decimals and nothing between thousands"
_UNITS = "numbers alone, without currencies, units or words; the functions are: "


def evaluate(text: str) -> Result:
    """The value of an expression: `+ - * / ^ ( )`, `15%` for 0.15, dates as 2025-03-01, and the functions below.

    Raises BadExpression. Bounded in length, depth, digits and so in time. Halves are rounded away from zero.
    """
    if len(text) > MAX_CHARS:
        raise BadExpression(f"the expression has {len(text)} characters; at most {MAX_CHARS} are allowed")
    tokens = _tokens(text.translate(_SPELT_SIGNS))
    if not tokens:
        raise BadExpression("the expression is empty")
    with localcontext(Context(prec=_PRECISION, rounding=ROUND_HALF_UP)) as context:
        context.clear_flags()
        reader = _Reader(tokens)
        value = reader.whole()
        if isinstance(value, date):
            return Result(value)
        inexact = bool(reader.divided and value != round(value, SHOWN_DIGITS))
        return Result(round(value, SHOWN_DIGITS) if inexact else value, not inexact)


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str


def _tokens(text: str) -> list[_Token]:
    for match in _OTHER_DATE.finditer(text):
        if _ISO_DATE.fullmatch(match.group()) is None:
            raise BadExpression(
                f"`{match.group()}` looks like a date; write dates as 2025-03-01, and blanks around signs"
            )
    found: list[_Token] = []
    at = 0
    while at < len(text.rstrip()):
        match = _TOKEN.match(text, at)
        if match is None:
            raise BadExpression(f"`{text[at:].strip()[:1]}` is not understood; {_UNITS}{', '.join(FUNCTIONS)}")
        kind = match.lastgroup or ""
        written = match[kind]
        # `max(3,4)`: a comma between numbers parts them, unless it may part thousands or decimals.
        while kind == "number" and written[-1] in ".,'":
            written = written[:-1]
        if kind == "number" and _PLAIN.fullmatch(written) is None:
            raise BadExpression(f"`{written}` can be read in several ways; {_ADVICE}, and `; ` between arguments")
        found.append(_Token(kind, written))
        at = match.start(kind) + len(written)
    return found


def _number(text: str) -> Decimal:
    whole, _, decimals = text.partition(".")
    if len(whole) + len(decimals) > _MAX_DIGITS:
        raise BadExpression(f"a number has more than {_MAX_DIGITS} digits")
    if len(decimals) == 3 and len(whole) <= 3 and whole.strip("0"):
        raise BadExpression(f"`{text}` may be {whole}{decimals} or {text}0; {_ADVICE} (or one more digit: {text}0)")
    return Decimal(text)


class _Reader:
    """Reads one expression by recursive descent."""

    def __init__(self, tokens: Sequence[_Token]) -> None:
        self._tokens = tokens
        self._at = 0
        self._depth = 0
        self.divided = False

    def whole(self) -> Value:
        value = self._sum()
        if self._at < len(self._tokens):
            raise BadExpression(f"`{self._tokens[self._at].text}` is not expected there; an operator may be missing")
        return value

    def _next(self, *signs: str) -> str:
        """The sign that comes next, if it is one of `signs`; it is taken."""
        if (
            self._at < len(self._tokens)
            and self._tokens[self._at].kind == "sign"
            and self._tokens[self._at].text in signs
        ):
            self._at += 1
            return self._tokens[self._at - 1].text
        return ""

    def _sum(self) -> Value:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise BadExpression(f"the expression is nested more than {_MAX_DEPTH} levels deep")
        start = self._at
        value = self._product()
        of_percents = self._is_percent(start)
        while sign := self._next("+", "-"):
            start = self._at
            right = self._product()
            if self._is_percent(start) and not of_percents and value != 1:
                raise BadExpression("per cent of what? Write 200 * (1 + 10%) for 10 % more than 200")
            value = bounded(added(value, right, sign))
        self._depth -= 1
        return value

    def _is_percent(self, start: int) -> bool:
        """Whether what was read since `start` is a percentage by itself."""
        return [token.text if token.kind == "sign" else "" for token in self._tokens[start : self._at]] == ["", "%"]

    def _product(self) -> Value:
        value = self._signed()
        while sign := self._next("*", "/"):
            left, right = plain(value), plain(self._signed())
            if sign == "/" and not right:
                raise BadExpression("a division by zero")
            self.divided = self.divided or sign == "/"
            value = bounded(left * right if sign == "*" else left / right)
        return value

    def _signed(self) -> Value:
        negative = False
        while sign := self._next("+", "-"):
            negative ^= sign == "-"
        value = self._power()
        return -plain(value) if negative else value

    def _power(self) -> Value:
        value = self._percent()
        if self._next("^", "**"):
            return bounded(raised(plain(value), plain(self._exponent())))
        return value

    def _exponent(self) -> Value:
        negative = self._next("-") == "-"
        value = self._percent()
        if self._next("^", "**"):
            raise BadExpression("a power of a power; put parentheses")
        return -plain(value) if negative else value

    def _percent(self) -> Value:
        value = self._atom()
        while self._next("%"):
            if self._at < len(self._tokens) and self._tokens[self._at].kind != "sign":
                raise BadExpression("`%` is per cent here, as in 300 * 15%; there is no remainder")
            value = plain(value) / 100
        return value

    def _atom(self) -> Value:
        if self._at == len(self._tokens):
            raise BadExpression("the expression ends too early")
        token = self._tokens[self._at]
        self._at += 1
        match token.kind:
            case "number":
                return _number(token.text)
            case "date":
                return day_of(token.text)
            case "name":
                return self._call(token.text)
            case _:
                if token.text != "(":
                    raise BadExpression(f"`{token.text}` is not expected there")
                value = self._sum()
                self._close()
                return value

    def _call(self, name: str) -> Value:
        function = FUNCTIONS.get(name.lower())
        if function is None:
            raise BadExpression(f"`{name[:20]}` is not known; {_UNITS}{', '.join(FUNCTIONS)}")
        if not self._next("("):
            raise BadExpression(f"`{name}` needs parentheses")
        arguments = [self._sum()]
        while self._next(",", ";"):
            arguments.append(self._sum())
        self._close()
        if len(arguments) > _MAX_ARGUMENTS:
            raise BadExpression(f"`{name}` has more than {_MAX_ARGUMENTS} arguments")
        if name.lower() in ("avg", "mean"):
            self.divided = True
        return bounded(function(arguments))

    def _close(self) -> None:
        if not self._next(")"):
            raise BadExpression("a parenthesis is not closed")
