"""Which call answers which expected call, where several were made."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from scipy.optimize import linear_sum_assignment  # pyright: ignore[reportMissingTypeStubs, reportUnknownVariableType]

from services.evaluation.answered import Call, Json
from services.evaluation.golden.item import ExpectedCall
from services.evaluation.tools import expectation, matching
from services.evaluation.tools.matching import Arguments
from services.evaluation.tools.statements import Executes, equivalent

_solve = cast(Any, linear_sum_assignment)
# Values of a statement's placeholders, in the tool that takes free SQL.
_SQL_VALUES = "params"
# How statements in calls are judged, as runs record it: figures of calls compare only where it is the same.
BY_ROWS, NOT_JUDGED = "by rows", "not judged"


@dataclass(frozen=True)
class Pair:
    """An expected call, in the way that was taken, with the call that was made for it."""

    expected: ExpectedCall
    made: Call
    arguments: Arguments


@dataclass(frozen=True)
class Assigned:
    """Pairs of the same tool; what was expected and not called; what was called and not expected."""

    pairs: Sequence[Pair]
    missed: Sequence[ExpectedCall]
    extra: Sequence[Call]

    def extra_tools(self, free: Collection[str]) -> list[str]:
        """Tools of calls that were not expected, without those that may be called at any time."""
        return [call.tool for call in self.extra if call.tool not in free]


class Assigner:
    """Pairs calls. `parameters`: JSON Schemas by tool; without `executes` equivalent statements are not judged."""

    def __init__(self, parameters: Mapping[str, Any] | None = None, executes: Executes | None = None) -> None:
        self._parameters = parameters or {}
        self._executes = executes

    @property
    def statements(self) -> str:
        """`BY_ROWS` or `NOT_JUDGED`."""
        return NOT_JUDGED if self._executes is None else BY_ROWS

    async def assign(self, expected: Sequence[ExpectedCall], made: Sequence[Call]) -> Assigned:
        """The pairing with the most calls of the right tool and, among those, the most right arguments.

        The order of calls means nothing. Raises StatementFailed when the expected statement fails.
        """
        best = [[await self._best_way(one, call) for call in made] for one in expected]
        # A tool is worth more than all of its arguments, so arguments only decide between equals.
        worth = np.array([[_worth(pair) for pair in row] for row in best], dtype=float).reshape(
            len(expected), len(made)
        )
        rows, columns = _solve(worth, maximize=True)
        places = {int(row): int(column) for row, column in zip(rows, columns, strict=True) if worth[row, column] > 0}
        pairs = [pair for row, column in places.items() if (pair := best[row][column])]
        taken = set(places.values())
        return Assigned(
            pairs,
            [one for index, one in enumerate(expected) if index not in places],
            [call for index, call in enumerate(made) if index not in taken],
        )

    async def _best_way(self, expected: ExpectedCall, call: Call) -> Pair | None:
        ways = [Pair(way, call, await self._judged(way, call)) for way in expected.ways if way.tool == call.tool]
        return max(ways, key=_worth, default=None)

    async def _judged(self, way: ExpectedCall, call: Call) -> Arguments:
        compared = matching.arguments(way, call, self._parameters.get(way.tool))
        if self._executes is None:
            return compared
        verdicts = dict(compared.verdicts)
        for name, wanted in way.arguments.items():
            statement = expectation.sql_of(wanted)
            if statement is None or verdicts[name] is not None:
                continue
            verdicts[name] = await self._same_rows(self._executes, *statement, call.arguments[name], call)
        return replace(compared, verdicts=verdicts)

    async def _same_rows(
        self, executes: Executes, wanted: str, values: Sequence[Json], actual: Json, call: Call
    ) -> bool:
        given = call.arguments.get(_SQL_VALUES) or []
        if not isinstance(actual, str) or not isinstance(given, list):
            return False
        return await equivalent(executes, wanted, values, actual, given)


def _worth(pair: Pair | None) -> float:
    if pair is None:
        return 0
    count = max(pair.arguments.judged_count, 1)
    return 2 + pair.arguments.right_count / count + (0.5 if pair.arguments.all_right else 0)
