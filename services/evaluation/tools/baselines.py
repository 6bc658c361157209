"""What no thought at all would score: to be printed beside every figure of tool selection."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence

from services.evaluation.answered import Answered, Call
from services.evaluation.golden.item import Item
from services.evaluation.tools.accuracy import Selection, measure
from services.evaluation.tools.assignment import Assigner

_WORDS = re.compile(r"\w{3,}")


def always(items: Sequence[Item], tools: Sequence[str]) -> dict[str, Answered]:
    """The same tools for every question, side by side; with none of them, no call at all."""
    calls = tuple(Call(tool, {}) for tool in tools)
    return {one.id: _answered(one, calls) for one in items}


def most_expected(items: Sequence[Item]) -> str:
    """The tool that is expected most often: the best choice for whoever looks at no question. "" where none is."""
    counts = Counter(call.tool for one in items for call in one.calls)
    return min(counts, key=lambda tool: (-counts[tool], tool), default="")


def by_words(items: Sequence[Item], descriptions: Mapping[str, str]) -> dict[str, Answered]:
    """The tool whose description shares most words with the question; no call where it shares none."""
    known = {tool: _words(text) for tool, text in descriptions.items()}

    def nearest(question: str) -> tuple[Call, ...]:
        asked = _words(question)
        tool = max(sorted(known), key=lambda one: len(asked & known[one]), default="")
        return (Call(tool, {}),) if tool and asked & known[tool] else ()

    return {one.id: _answered(one, nearest(one.question)) for one in items}


async def selections(items: Sequence[Item], descriptions: Mapping[str, str]) -> dict[str, Selection]:
    """Figures of choosing without looking, by how it is chosen; none where no call is expected."""
    if not (usual := most_expected(items)):
        return {}
    tools = sorted({*descriptions, *(call.tool for one in items for call in one.calls)})
    ways = {f"always {usual}": always(items, [usual]), "every tool": always(items, tools), "no tool": always(items, [])}
    if descriptions:
        ways["the description that shares most words"] = by_words(items, descriptions)
    return {name: await measure(items, answers, Assigner()) for name, answers in ways.items()}


def _words(text: str) -> set[str]:
    return set(_WORDS.findall(text.casefold()))


def _answered(item: Item, calls: tuple[Call, ...]) -> Answered:
    return Answered(item.question, "", item.language, calls=calls)
