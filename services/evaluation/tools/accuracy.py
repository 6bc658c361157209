"""Tool selection: which tools were called, with which arguments, against what was expected.

Tool selection accuracy is turns with the right tool ÷ turns in which a call is expected. "The right tool" is read
strictly here: all tools that are expected and no other, since whoever calls every tool would have them all; the looser
reading is reported beside it.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from services.evaluation.answered import Answered, Call
from services.evaluation.golden.item import ExpectedCall, Item, Stratum
from services.evaluation.tools.assignment import Assigned, Assigner

# What stands in the confusion matrix for no call.
NONE = "(none)"
# May be called beside any other, or alone where nothing needs to be looked up, and is never wrong; nor right unless it
# is expected.
FREE_TOOLS = frozenset({"calculate"})


@dataclass(frozen=True)
class Share:
    """`part` of `whole`; no value where there is no whole."""

    part: int = 0
    whole: int = 0

    @property
    def value(self) -> float | None:
        """Within [0, 1]."""
        return self.part / self.whole if self.whole else None

    def __add__(self, other: "Share") -> "Share":
        return Share(self.part + other.part, self.whole + other.whole)


@dataclass(frozen=True)
class OfTool:
    """One tool: `right` calls of those `called` (precision), and of those `expected` (recall)."""

    expected: int = 0
    called: int = 0
    right: int = 0

    @property
    def precision(self) -> float | None:
        return Share(self.right, self.called).value

    @property
    def recall(self) -> float | None:
        return Share(self.right, self.expected).value


@dataclass(frozen=True)
class Judged:
    """One question: what was expected, what was called, and how they went together."""

    item: Item
    assigned: Assigned
    calls: Sequence[Call]
    # False where nothing came back for the question; it counts as no call.
    answered: bool = True
    # The set of expected calls that was taken.
    expected: Sequence[ExpectedCall] = ()
    # Tools that may be called at any time.
    free: frozenset[str] = FREE_TOOLS

    @property
    def tools_right(self) -> bool:
        """All tools that are expected, and no other."""
        return not self.assigned.missed and not self.assigned.extra_tools(self.free)

    @property
    def tools_covered(self) -> bool:
        """All tools that are expected."""
        return not self.assigned.missed

    @property
    def none_called(self) -> bool:
        """It was answered, and nothing was looked up: a sum may be reckoned by a tool."""
        return self.answered and not self.assigned.extra_tools(self.free) and not self.assigned.pairs


@dataclass(frozen=True)
class Selection:
    """Figures over many questions, each with its counts."""

    # Turns with the right tools, of those in which a call is expected: strictly, and as long as they are among them.
    accuracy: Share = Share()
    covered: Share = Share()
    # Questions that need no tool and got no call, but for tools that may be called at any time.
    no_tool: Share = Share()
    # Arguments, of calls of the right tool; calls with all arguments right, of all that are expected.
    arguments: Share = Share()
    calls: Share = Share()
    # Of calls that may run side by side, those that were made in one turn.
    parallel: Share = Share()
    # Calls that could be read and fitted the schema.
    valid: Share = Share()
    tools: Mapping[str, OfTool] = field(default_factory=dict[str, OfTool])
    # (expected, called) → how often.
    confusion: Mapping[tuple[str, str], int] = field(default_factory=dict[tuple[str, str], int])
    question_count: int = 0
    # Questions without any answer, each counted as one without calls.
    missing_count: int = 0
    # Arguments that nothing could judge: statements, where there is no database to run them on.
    unjudged_count: int = 0


async def judge(item: Item, answered: Answered | None, assigner: Assigner, free: frozenset[str] = FREE_TOOLS) -> Judged:
    """Compares the calls of one answer with the set of expected ones that they fit best.

    `free`: tools that may be called at any time. Raises StatementFailed for a wrong expected statement.
    """
    calls = answered.calls if answered else ()
    ways = [
        Judged(item, await assigner.assign(expected, calls), calls, answered is not None, expected, free)
        for expected in (item.calls, *item.other_calls)
    ]
    return max(ways, key=_fit)


def _fit(judged: Judged) -> tuple[bool, int, int]:
    """Right tools first, then as few calls too many or too few as can be, then right arguments."""
    wrong = len(judged.assigned.missed) + len(judged.assigned.extra_tools(judged.free))
    return judged.tools_right, -wrong, sum(pair.arguments.right_count for pair in judged.assigned.pairs)


async def measure(items: Sequence[Item], answers: Mapping[str, Answered], assigner: Assigner) -> Selection:
    """The figures of `items`; `answers` by the items' ids. What has no answer counts as a failure."""
    return summed([await judge(item, answers.get(item.id), assigner) for item in items])


def summed(judged: Sequence[Judged]) -> Selection:
    """The figures of questions that were judged."""
    expecting = [one for one in judged if one.item.calls]
    idle = [one for one in judged if not one.item.calls and one.item.stratum is Stratum.NO_TOOL]
    # A question that an answer may look for in vain says nothing about tools.
    counted = [*expecting, *idle]
    pairs = [pair for one in counted for pair in one.assigned.pairs]
    confusion = Counter(cell for one in counted for cell in _cells(one))
    return Selection(
        accuracy=Share(sum(one.tools_right for one in expecting), len(expecting)),
        covered=Share(sum(one.tools_covered for one in expecting), len(expecting)),
        no_tool=Share(sum(one.none_called for one in idle), len(idle)),
        arguments=Share(
            sum(pair.arguments.right_count for pair in pairs), sum(pair.arguments.judged_count for pair in pairs)
        ),
        calls=_calls_right(counted),
        parallel=sum((_parallel(one) for one in expecting), Share()),
        valid=Share(sum(call.valid for one in judged for call in one.calls), sum(len(one.calls) for one in judged)),
        tools=_by_tool(confusion),
        confusion=dict(confusion),
        question_count=len(judged),
        missing_count=sum(not one.answered for one in judged),
        unjudged_count=sum(list(pair.arguments.verdicts.values()).count(None) for pair in pairs),
    )


def _calls_right(judged: Sequence[Judged]) -> Share:
    """Calls that could not be judged whole are in neither number."""
    verdicts = [pair.arguments.all_right for one in judged for pair in one.assigned.pairs]
    missed = sum(len(one.assigned.missed) for one in judged)
    return Share(verdicts.count(True), len(verdicts) - verdicts.count(None) + missed)


def _parallel(judged: Judged) -> Share:
    """Of each group of several calls: those in the turn that has the most of them."""
    turns = {id(pair.expected): pair.made.turn for pair in judged.assigned.pairs}
    total = Share()
    for group in {call.group for call in judged.expected}:
        together = [call for call in judged.expected if call.group == group]
        if len(together) < 2:
            continue
        made = Counter(turns[id(way)] for call in together for way in call.ways if id(way) in turns)
        total += Share(max(made.values(), default=0), len(together))
    return total


def _cells(judged: Judged) -> list[tuple[str, str]]:
    """Pairs of (expected, called). What is left over on both sides is paired in order; the rest faces NONE."""
    right = [(pair.expected.tool, pair.made.tool) for pair in judged.assigned.pairs]
    missed = [one.tool for one in judged.assigned.missed]
    extra = judged.assigned.extra_tools(judged.free)
    wrong = list(zip(missed, extra, strict=False))
    left = [(tool, NONE) for tool in missed[len(extra) :]] + [(NONE, tool) for tool in extra[len(missed) :]]
    cells = [*right, *wrong, *left]
    return cells or [(NONE, NONE)]


def _by_tool(confusion: Mapping[tuple[str, str], int]) -> dict[str, OfTool]:
    names = sorted({name for cell in confusion for name in cell} - {NONE})
    return {
        name: OfTool(
            sum(count for (expected, _), count in confusion.items() if expected == name),
            sum(count for (_, called), count in confusion.items() if called == name),
            confusion.get((name, name), 0),
        )
        for name in names
    }
