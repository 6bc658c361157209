"""Says the rows of a SQL result in words, in Spanish and English."""

import re
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

from services.understudy.evidence import Rows, clean
from services.understudy.schema_reader import Schema
from services.understudy.schema_words import words_of
from services.understudy.words import fold, stem

_SIGNS = {"EUR": "€", "USD": "$", "GBP": "£"}
_COUNT_NAME = re.compile(
    r"^(?:count|n|num|number|total_count|how_many|cuantos|numero|recuento)$|(?:^|_)(?:count|"
    r"num|numero)(?:_|$)|^(?:num|n)_"
)
_SUM_NAME = re.compile(r"(?:^|_)(?:total|sum|suma)(?:_|$)")
_AVERAGE_NAME = re.compile(r"(?:^|_)(?:average|avg|mean|media|promedio)(?:_|$)")
_MAX_NAME, _MIN_NAME = (
    re.compile(r"(?:^|_)(?:max|maximum|maximo)(?:_|$)"),
    re.compile(r"(?:^|_)(?:min|minimum|minimo)(?:_|$)"),
)
_MONEY_NAME = re.compile(
    r"(?:^|_)(?:total|sum|suma|amount|importe|avg|average|media|price|precio|cost|coste|valor|value|max|min)(?:_|$)"
)
_COUNTED = re.compile(r"\b(?:how many|number of|cuant[oa]s|numero de|cantidad de)\s+(?P<noun>[^\W\d_]+)")
_CODE_NAME = re.compile(r"(?:^|_)(?:id|code|codigo|year|ano|month|mes|quarter|date|fecha|on|at|phone|zip)$")
_MAX_ROWS = 20
_PHRASES = {
    "es": {
        "sum": "por un total de {}",
        "avg": "con una media de {}",
        "max": "con un máximo de {}",
        "min": "con un mínimo de {}",
    },
    "en": {
        "sum": "for a total of {}",
        "avg": "with an average of {}",
        "max": "with a maximum of {}",
        "min": "with a minimum of {}",
    },
}
_ALONE = {
    "es": {
        "sum": "El total es de {}",
        "avg": "La media es de {}",
        "max": "El máximo es de {}",
        "min": "El mínimo es de {}",
    },
    "en": {
        "sum": "The total is {}",
        "avg": "The average is {}",
        "max": "The maximum is {}",
        "min": "The minimum is {}",
    },
}


def number_text(value: Decimal, spoken: str, *, places: int = 2) -> str:
    """`8.300.000,5` in Spanish, `8,300,000.5` in English; at most `places` decimals, none that are zero."""
    rounded = round(value, places)
    text = f"{rounded:,.{places}f}" if places else f"{rounded:,f}"
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return text.translate(str.maketrans(",.", ".,")) if spoken == "es" else text


def money_text(value: Decimal, unit: str, spoken: str) -> str:
    """`8.300.000 €` in Spanish, `€8,300,000` in English; cents in full or not at all."""
    whole = round(value, 2) == value.to_integral_value()
    text = number_text(value, spoken, places=0) if whole else f"{round(value, 2):,.2f}"
    if not whole and spoken == "es":
        text = text.translate(str.maketrans(",.", ".,"))
    sign = _SIGNS.get(unit, unit)
    if spoken == "es" or unit not in _SIGNS:
        return f"{text} {sign}"
    return f"-{sign}{text[1:]}" if text.startswith("-") else f"{sign}{text}"


def rows_text(question: str, found: Rows, spoken: str, schema: Schema) -> str:
    """The result with its mark; empty when there is nothing in it."""
    rows = [row for row in found.rows if any(value is not None for value in row)]
    if not rows:
        return ""
    columns = [_Column(name, question, schema, rows, index) for index, name in enumerate(found.columns)]
    mark = f" [{found.number}]" if found.number else ""
    if len(rows) == 1:
        return _one(columns, rows[0], question, spoken) + mark + "."
    lines = [f"- {_line(columns, row, question, spoken)}{mark}" for row in rows[:_MAX_ROWS]]
    if len(rows) > _MAX_ROWS or found.truncated:
        shown = min(len(rows), _MAX_ROWS)
        note = (
            f"Se muestran las {shown} primeras filas; hay más"
            if spoken == "es"
            else f"The first {shown} rows are shown; there are more"
        )
        lines.append(f"\n{note}{mark}.")
    return "\n".join(lines)


class _Column:
    """A column of a result: what kind of number it holds, and in which unit."""

    def __init__(self, name: str, question: str, schema: Schema, rows: Sequence[Sequence[Any]], index: int) -> None:
        self.name = name
        self.words = words_of(schema)
        folded = fold(name)
        values = [row[index] for row in rows if index < len(row) and row[index] is not None]
        numeric = bool(values) and all(_decimal(value) is not None for value in values)
        self.numeric = numeric and not _CODE_NAME.search(folded)
        self.unit = _unit(folded, question, schema) if self.numeric else ""
        kinds = (
            ("count", _COUNT_NAME),
            ("avg", _AVERAGE_NAME),
            ("max", _MAX_NAME),
            ("min", _MIN_NAME),
            ("sum", _SUM_NAME),
        )
        self.kind = next((kind for kind, pattern in kinds if pattern.search(folded)), "") if self.numeric else ""

    @property
    def label(self) -> str:
        """The name for people, without its unit."""
        return re.sub(r"_(?:eur|usd|gbp)$", "", self.name).replace("_", " ")

    def say(self, value: Any, spoken: str) -> str:
        if value is None:
            return "sin dato" if spoken == "es" else "no value"
        if isinstance(value, bool):
            return (("sí", "no") if spoken == "es" else ("yes", "no"))[not value]
        number = _decimal(value)
        if not self.numeric or number is None:
            return clean(str(value))[:200]
        if self.unit and self.kind != "count":
            return money_text(number, self.unit, spoken)
        return number_text(number, spoken)


def _decimal(value: Any) -> Decimal | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        number = Decimal(str(value))
    elif isinstance(value, str) and re.fullmatch(r"-?\d{1,24}(?:\.\d{1,20})?", value):
        number = Decimal(value)
    else:
        return None
    try:
        return number if number.is_finite() and abs(number) < Decimal("1e24") else None
    except InvalidOperation:
        return None


def _unit(name: str, question: str, schema: Schema) -> str:
    if match := re.search(r"_(eur|usd|gbp)$", name):
        return match[1].upper()
    if _COUNT_NAME.search(name):
        return ""
    parts = set(name.split("_"))
    for table in schema.tables.values():
        for column in table.columns.values():
            if re.fullmatch("[A-Z]{3}", column.unit) and set(column.name.split("_")) <= parts:
                return column.unit
    if not _MONEY_NAME.search(name):
        return ""
    units = {c.unit for t in schema.tables.values() for c in t.columns.values() if re.fullmatch("[A-Z]{3}", c.unit)}
    spelt = {"€": "EUR", "euro": "EUR", "$": "USD", "dolar": "USD", "dollar": "USD", "£": "GBP"}
    asked = next((unit for sign, unit in spelt.items() if sign in fold(question)), "")
    return asked or (units.pop() if len(units) == 1 else "")


def _noun(column: _Column, question: str) -> str:
    """What was counted, as the question calls it, else as the column does."""
    if match := _COUNTED.search(fold(question)):
        return question[match.start("noun") : match.end("noun")].lower()
    name = re.sub(r"^(?:num|n|number_of|count_of)_|_?count$", "", column.name)
    if name in column.words.schema.tables:
        spoken = (
            word for word in re.findall(r"[^\W\d_]+", question) if column.words.table_of(stem(fold(word))) == name
        )
        return next(spoken, name).lower()
    return "" if name in ("count", "n", "num", "number", "total") else name.replace("_", " ")


def _one(columns: Sequence[_Column], row: Sequence[Any], question: str, spoken: str) -> str:
    text = _line(columns, row, question, spoken)
    numbers = [column for column, value in zip(columns, row, strict=False) if column.numeric and value is not None]
    if len(numbers) == 1 == len(columns) and numbers[0].kind in _ALONE[spoken]:
        return _ALONE[spoken][numbers[0].kind].format(numbers[0].say(row[0], spoken))
    if columns and columns[0].kind == "count":
        return ("Hay " if spoken == "es" else "There are ") + text
    return text


def _line(columns: Sequence[_Column], row: Sequence[Any], question: str, spoken: str) -> str:
    """`Norte: 12 contratos, por un total de 3.400.000 €`: names first, then numbers with their meaning."""
    names: list[str] = []
    facts: list[str] = []
    for column, value in zip(columns, row, strict=False):
        said = column.say(value, spoken)
        if column.kind == "count" and value is not None:
            facts.append(f"{said} {_noun(column, question)}".strip())
        elif column.kind in _PHRASES[spoken] and value is not None and facts:
            facts.append(_PHRASES[spoken][column.kind].format(said))
        elif column.numeric or names:
            facts.append(f"{column.label}: {said}" if len(columns) > 1 and not (names and len(columns) == 2) else said)
        else:
            names.append(said)
    return f"{', '.join(names)}: {', '.join(facts)}" if names and facts else ", ".join([*names, *facts])
