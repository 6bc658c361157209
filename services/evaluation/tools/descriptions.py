"""Which tools are taken for each other, with their descriptions side by side: look there before the model."""

from collections.abc import Mapping
from dataclasses import dataclass

from services.evaluation.tools.accuracy import Selection

# The least accuracy for production.
THRESHOLD = 0.85


@dataclass(frozen=True)
class Confused:
    """`count` times one tool was called where another was expected."""

    expected: str
    called: str
    count: int
    expected_description: str
    called_description: str


def confused(selection: Selection, descriptions: Mapping[str, str]) -> list[Confused]:
    """The pairs, most frequent first. A call where none was due, and none where one was, are pairs with NONE."""
    cells = [(cell, count) for cell, count in selection.confusion.items() if cell[0] != cell[1]]
    ordered = sorted(cells, key=lambda one: (-one[1], one[0]))
    return [
        Confused(expected, called, count, descriptions.get(expected, ""), descriptions.get(called, ""))
        for (expected, called), count in ordered
    ]
