"""How an item is shown to whoever reviews it: on one screen, with what of its passages bears on the answer."""

import json
import re
import unicodedata
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.panel import Panel
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from services.evaluation.answered import Json
    from services.evaluation.golden.item import ExpectedCall, Item

# Of a passage, unless all of it is wanted; and passages.
_SHOWN_CHARS, _SHOWN_PASSAGES = 500, 3
# Of what is asked and answered: a card stays on a screen whatever a model wrote.
_MOST_CHARS, _MOST_LINES = 1_200, 10
_WIDTH, _BAR = 100, 24
_WORD = re.compile(r"\w{4,}|\w*\d\w*")


def progress(number: int, of: int) -> Rule:
    """Where in the sitting this is."""
    done = _BAR * (number - 1) // max(of, 1)
    return Rule(Text(f"{'━' * done}{'─' * (_BAR - done)}  {number} of {of}", style="dim"), style="dim", align="left")


def card(item: "Item", passages: list[str], *, whole: bool = False) -> Panel:
    """`whole`: with all of the passages."""
    facts = Table.grid(padding=(0, 2))
    facts.add_column(style="dim", justify="right", no_wrap=True)
    facts.add_column(overflow="fold")
    facts.add_row("question", Text(_cut(item.question), style="bold"))
    facts.add_row("right answer", _answer(item))
    for name, text in _rest(item):
        facts.add_row(name, Text(_cut(text)))
    parts: list[RenderableType] = [facts]
    shown = passages if whole else passages[:_SHOWN_PASSAGES]
    for place, passage in enumerate(shown, 1):
        parts.append(Text(f"\npassage {place} of {len(passages)}", style="dim"))
        text = _printable(passage).strip()
        # Its lines are of use where all of it is read.
        parts.append(Padding(_passage(text if whole else " ".join(text.split()), item, whole=whole), (0, 0, 0, 2)))
    if len(shown) < len(passages):
        parts.append(Text(f"\n… {len(passages) - len(shown)} more", style="dim"))
    kind = item.stratum.value.replace("_", " ")
    return Panel(Group(*parts), title=f"{kind} · {item.language}", subtitle=item.id, padding=(1, 2), width=_WIDTH)


def _answer(item: "Item") -> Text:
    if item.reference is not None:
        return Text(_cut(item.reference), style="green")
    if item.calls or item.stratum.value == "no_tool":
        return Text("the set does not say which text", style="dim")
    return Text("a refusal: nothing answers it", style="yellow")


def _rest(item: "Item") -> Iterator[tuple[str, str]]:
    if item.contains:
        yield "must say", "; ".join(" or ".join(forms) for forms in item.contains)
    if item.calls:
        yield "tools", "\n".join(_call(one) for one in item.calls)
    elif item.stratum.value == "no_tool":
        yield "tools", "none"
    yield "sources", ", ".join(item.sources or item.made_from) or "none"
    if item.provenance:
        yield "written by", item.provenance


def _call(call: "ExpectedCall") -> str:
    lines = [f"  {name}: {_expectation(value)}" for name, value in call.arguments.items()]
    others = "".join(f"\n  or {one.tool}" for one in call.alternatives)
    return "\n".join([call.tool, *lines]) + others


def _expectation(value: "Json") -> str:
    """What an argument has to be, in words where there are some for it."""
    match value:
        case {"contains": list(words)}:
            return "has " + ", and ".join(
                " or ".join(map(str, one if isinstance(one, list) else [one])) for one in words
            )
        case {"sql": str(statement)}:
            return f"the rows of {' '.join(statement.split())}"
        case {"optional": inner}:
            return f"{_expectation(inner)}, or left out"
        case {"any_of": list(values)}:
            return " or ".join(map(_expectation, values))
        case str():
            return value
        case _:
            return json.dumps(value, ensure_ascii=False)


def _passage(passage: str, item: "Item", *, whole: bool) -> Text:
    """The part with most words of the answer, these underlined."""
    sought = {_folded(word) for word in _WORD.findall(item.reference or item.question)}
    places = [one.span() for one in _WORD.finditer(passage) if _folded(one.group()) in sought]
    start = 0 if whole else _start(len(passage), [begin for begin, _ in places])
    end = len(passage) if whole else start + _SHOWN_CHARS
    text = Text(("… " if start else "") + passage[start:end] + (" …" if end < len(passage) else ""))
    shift = (2 if start else 0) - start
    for begin, finish in places:
        if start <= begin and finish <= end:
            text.stylize("underline", begin + shift, finish + shift)
    return text


def _start(length: int, places: list[int]) -> int:
    """Where to begin, so that most of `places` are within what is shown."""
    if length <= _SHOWN_CHARS or not places:
        return 0
    best = max(places, key=lambda begin: sum(begin <= one < begin + _SHOWN_CHARS // 2 for one in places))
    return max(0, min(best - _SHOWN_CHARS // 4, length - _SHOWN_CHARS))


def _folded(word: str) -> str:
    plain = unicodedata.normalize("NFKD", word.casefold())
    return "".join(one for one in plain if not unicodedata.combining(one))


def _cut(text: str) -> str:
    lines = _printable(text).splitlines()
    kept = "\n".join(lines[:_MOST_LINES])[:_MOST_CHARS]
    return kept if len(lines) <= _MOST_LINES and len(text) <= _MOST_CHARS else f"{kept} …"


def _printable(text: str) -> str:
    """Without what would move a terminal's cursor, or worse."""
    return "".join(one if one in "\n\t" or unicodedata.category(one) != "Cc" else " " for one in text)
