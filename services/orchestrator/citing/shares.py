"""Shares in words: `three quarters of`, `un tercio`, `two fifths`."""

import re
from collections.abc import Iterator
from decimal import Decimal

_COUNTS = {
    "a": 1, "an": 1, "one": 1, "un": 1, "una": 1, "two": 2, "dos": 2, "three": 3, "tres": 3, "four": 4, "cuatro": 4,
    "five": 5, "cinco": 5, "seven": 7, "siete": 7, "nine": 9, "nueve": 9,
}  # fmt: skip
_PARTS = {
    "third": 3, "tercio": 3, "tercera": 3, "quarter": 4, "cuarto": 4, "cuarta": 4, "fifth": 5, "quinto": 5, "quinta": 5,
    "sixth": 6, "sexto": 6, "sexta": 6, "eighth": 8, "octavo": 8, "octava": 8, "tenth": 10, "decimo": 10, "decima": 10,
}  # fmt: skip
_ENGLISH = r"(?P<part>third|quarter|fifth|sixth|eighth|tenth)s?"
_SPANISH = (
    r"(?P<part>tercio|tercera|cuarto|cuarta|quinto|quinta|sexto|sexta|octavo|octava|decimo|decima)s?(?P<of> partes?)?"
)
_COUNT = rf"(?P<count>{'|'.join(_COUNTS)})"
# Behind `a` only where it is a part of something: `a third man` and `un cuarto de hora` are no shares.
_FORMS = (
    re.compile(rf"(?<![\w-]){_COUNT}[\s-]{_ENGLISH}(?=\s(?:of|as|more|less|fewer|were|was|are|is|came)\b|[.,;:)]|$)"),
    re.compile(rf"(?<![\w-]){_COUNT}\s{_SPANISH}(?=\s(?:de(?! hora)|del|mas|menos|son|eran|fueron)\b|[.,;:)]|$)"),
)
_HUNDRED = Decimal(100)


def shares(folded: str) -> Iterator[tuple[Decimal, int, int]]:
    """The shares of a folded text in per cent, each with its place."""
    for form in _FORMS:
        for match in form.finditer(folded):
            count, part = _COUNTS[match["count"]], _PARTS[match["part"]]
            feminine = match["part"].endswith("a")
            if count < part and not (feminine and not match["of"]):
                yield _HUNDRED * count / part, match.start(), match.end()
