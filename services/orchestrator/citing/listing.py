"""How many things a source lists, where a sentence tells their number instead of naming them."""

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

from services.orchestrator.citing.calendar_dates import Day, is_month
from services.orchestrator.citing.figures import Figure, Kind
from services.orchestrator.citing.source_text import SourceText
from services.orchestrator.citing.words import content, key, words
from services.runtime.expressions.folding import fold

_SEPARATOR = re.compile(r"[,;]\s(?:(?:y|e|and|o|or|u)\s)?|\s(?:y|e|and|o|or|u|&)\s")
_PART_OF = re.compile(
    r"\s(?:\w+\s)?(?:of (?:them|these|those|the|which|its|their)\b|de (?:ellos|ellas|los|las|estos|estas|esos|sus)\b)"
)
_WEEKDAY = re.compile(r"\b(?:(?:mon|tues|wednes|thurs|fri|satur|sun)days?|lunes|martes|miercoles|jueves|viernes"
                      r"|sabados?|domingos?)\b")  # fmt: skip
_LONGEST, _LARGEST, _ITEM_WORDS = 20, 40, 6
# So often a noun that is counted may stand where its bearers are told one by one.
_NEAR_CHARS, _FEW = 40, 3
_TIMES = frozenset(("day", "week", "month", "year"))


def counts_things(figure: Figure, text: str, sources: Sequence[SourceText]) -> bool:
    """Whether the sources list, or name one by one, as many things as the figure of the sentence `text` counts."""
    if not (1 < figure.value <= _LARGEST and figure.value == int(figure.value)) or figure.kind is not Kind.NUMBER:
        return False
    count, running = int(figure.value), [source for source in sources if not source.tabular]
    if figure.unit:
        return figure.unit in _TIMES and count in {_named_times(figure.unit, source) for source in running}
    listed = {length for source in running for length in _lengths(source.text)}
    if count in listed or count in _occurrences(figure, text, running):
        return True
    return bool(listed) and _PART_OF.match(fold(text), figure.end) is not None and count < max(listed)


@lru_cache(maxsize=512)
def _lengths(text: str) -> frozenset[int]:
    """Lengths of what the sentences of a text enumerate."""
    found: set[int] = set()
    for sentence in re.split(r"(?<=[.!?…:])\s+|\n+|:\s", text):
        found.update(_enumerations(sentence))
    return frozenset(one for one in found if 1 < one <= _LONGEST)


def _enumerations(sentence: str) -> Iterator[int]:
    """The whole sentence as a list, and each run of short items in it."""
    items = _SEPARATOR.split(fold(sentence))
    yield len(items)
    run = 1
    for at, item in enumerate(items[1:], start=1):
        short = len(item.split()) <= _ITEM_WORDS
        run += 1
        if not short or at == len(items) - 1:
            yield run
            if not short:
                yield run - 1
                run = 1


def _occurrences(figure: Figure, text: str, sources: Sequence[SourceText]) -> set[int]:
    """How often the noun behind the figure stands in the sources; less often, too, for the few that are told so."""
    behind = content(words(text[figure.end : figure.end + _NEAR_CHARS]))[:2]
    found: set[int] = set()
    for noun in behind:
        same = key(noun.folded)
        times = sum(key(word.folded) == same for source in sources for one in source.sentences for word in one.words)
        found |= {times, *range(2, min(times, _FEW) + 1)}
    return found


def _named_times(unit: str, source: SourceText) -> int:
    """How many different days, months or years a source names."""
    days: list[Day] = [one.day for one in source.figures if one.kind is Kind.DATE]
    match unit:
        case "day":
            weekdays = {one[:3] for one in _WEEKDAY.findall(fold(source.text))}
            return len(weekdays) or len({(one.month, one.day) for one in days if one.day})
        case "month":
            named = {one.month for one in days if one.month}
            return len(named) or len({w.folded for s in source.sentences for w in s.words if is_month(w.folded)})
        case "year":
            return len({one.year for one in days if one.year})
        case _:
            return 0
