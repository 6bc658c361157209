"""What each parameter of a reviewed statement is compared with, and how: read from the statement itself."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

_COLUMN = r"(?P<column>[a-z_][\w.]*)(?:::\w+)?"
_COMPARED = re.compile(
    rf"{_COLUMN}\s*(?P<operator><=|>=|<>|!=|=|<|>)\s*(?:(?P<any>any)\s*\(\s*)?\$(?P<number>\d+)", re.IGNORECASE
)
_TURNED = re.compile(rf"\$(?P<number>\d+)(?:::\w+)?\s*(?P<operator><=|>=|=|<|>)\s*{_COLUMN}", re.IGNORECASE)
_BETWEEN = re.compile(rf"{_COLUMN}\s+between\s+\$(?P<low>\d+)(?:::\w+)?\s+and\s+\$(?P<high>\d+)", re.IGNORECASE)
_LIMIT = re.compile(r"\blimit\s+\$(?P<number>\d+)", re.IGNORECASE)
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}


@dataclass(frozen=True)
class Comparison:
    """`column` stands left of `operator`, the parameter right. `limit` is the operator of LIMIT, without a column."""

    column: str
    operator: str


def comparisons(sql: str) -> Mapping[int, Comparison]:
    """By the number of the placeholder. One that is compared in two ways, or in none, is not in it."""
    found: dict[int, set[Comparison]] = {}

    def note(number: str, column: str, operator: str) -> None:
        found.setdefault(int(number), set()).add(Comparison(column.lower().rpartition(".")[2], operator))

    rest = sql
    for match in _BETWEEN.finditer(sql):
        note(match["low"], match["column"], ">=")
        note(match["high"], match["column"], "<=")
    rest = _BETWEEN.sub(" ", rest)
    for match in _COMPARED.finditer(rest):
        note(match["number"], match["column"], match["operator"])
    for match in _TURNED.finditer(rest):
        note(match["number"], match["column"], _MIRRORED[match["operator"]])
    for match in _LIMIT.finditer(rest):
        note(match["number"], "", "limit")
    uses = {number: len(re.findall(rf"\${number}(?!\d)", sql)) for number in found}
    return {number: next(iter(known)) for number, known in found.items() if len(known) == 1 and uses[number] == 1}
