"""Whether the sources bear out the figures of a sentence: as they stand, rounded, counted or computed from theirs."""

import re
from collections.abc import Sequence
from itertools import pairwise

from services.orchestrator.citing.arithmetic import Pool, is_computed, is_rounded, is_year
from services.orchestrator.citing.calendar_dates import Day
from services.orchestrator.citing.counting import may_count
from services.orchestrator.citing.derived import counts_list, fraction_of, has_share, is_shifted, within_bounds
from services.orchestrator.citing.figures import SECTION, Figure, Kind
from services.orchestrator.citing.listing import counts_things
from services.orchestrator.citing.reckoning import Ground, follows
from services.orchestrator.citing.source_text import SourceText, squeeze
from services.orchestrator.citing.statement import Statement, is_foreign
from services.orchestrator.citing.words import content, key, words
from services.runtime.expressions.folding import fold

# March alone is a verb, too: only a capital tells.
_MARCH, _MARCH_ALONE = 3, re.compile(r"\bMarch\b")
_READABLE_PLACES, _NEAR_CHARS = 4, 30


def _is_unit(figure: Figure) -> bool:
    """Whether it is one of something: `a discount` is not one per cent."""
    return bool(figure.unit) and figure.value == 1


def unexplained(
    said: Statement, unknown: Sequence[Figure], sources: Sequence[SourceText], allowed: Sequence[SourceText]
) -> list[Figure]:
    """Those of `unknown` that were neither asked about nor can be computed from the sources."""
    left = [one for one in unknown if not any(has(source, one) for source in allowed)]
    if not left:
        return []
    within = within_bounds(said.figures, said.text, sources)
    foreign = is_foreign(said, sources)
    left = [
        one
        for one in left
        if one not in within
        and not is_shifted(one, sources)
        and not ((share := fraction_of(one, said.text)) and has_share(share, sources))
        and not counts_list(one, said.keys, sources, foreign=foreign)
        and (may_count(one, said) or not counts_things(one, said.text, sources))
    ]
    folded = [word.folded for word in said.words]
    told = frozenset([*folded, *map(" ".join, pairwise(folded))])
    known = [one for one in said.figures if one not in left]
    pools = {years: Pool.of(sources, known, years=years) for years in {one.unit == "year" for one in left}}
    left = [
        one for one in left if not is_computed(one, pools[one.unit == "year"], told) and not _counts_itself(one, said)
    ]
    if not left:
        return []
    ground = Ground.of(sources, known)
    return [one for one in left if may_count(one, said) or not follows(one, said.text, ground)]


def follows_with(
    said: Statement, missing: Sequence[Figure], sources: Sequence[SourceText], others: Sequence[SourceText]
) -> set[Figure]:
    """Those of `missing` that follow from a figure of the sources and one of the others together."""
    mine, its = Ground.of(sources), Ground.of(others)
    return {one for one in missing if follows(one, said.text, mine, its)}


def has_another(source: SourceText, figure: Figure, said: Statement) -> bool:
    """Whether the source has another figure where the statement has this one: of its unit, or beside the same word.

    A code is a name: it is right or wrong.
    """
    if figure.kind is Kind.CODE:
        return True
    others = [one for one in source.figures if one.kind is figure.kind]
    if figure.kind is not Kind.NUMBER:
        return bool(others)
    if figure.unit:
        family = figure.measure[0]
        return any(one.measure[0] == family for one in others) or any(one.value == figure.value for one in others)
    if is_year(figure):
        return any(map(is_year, others))
    mine = _beside(figure, said.text)
    return any(mine & _beside(one, source.text) for one in others if not one.unit and one.end)


def _beside(figure: Figure, text: str) -> set[tuple[str, str]]:
    """The words right before and behind a figure, as keys."""
    before = content(words(text[max(0, figure.start - _NEAR_CHARS) : figure.start]))[-1:]
    behind = content(words(text[figure.end : figure.end + _NEAR_CHARS]))[:1]
    return {("before", key(word.folded)) for word in before} | {("behind", key(word.folded)) for word in behind}


def has(source: SourceText, figure: Figure) -> bool:
    """Whether the source has the figure."""
    match figure.kind:
        case Kind.CODE:
            return squeeze(figure.text) in source.squeezed or _is_short_for(figure.text, source)
        case Kind.DATE:
            found = any(one.kind is Kind.DATE and figure.day.agrees(one.day) for one in source.figures)
            return found or (figure.day == Day(month=_MARCH) and _MARCH_ALONE.search(source.text) is not None)
        case Kind.TIME:
            return any(one.kind is Kind.TIME and one.value == figure.value for one in source.figures)
        case Kind.NUMBER if figure.unit == SECTION:
            return figure.text in source.numerals
        case Kind.NUMBER:
            said = figure.value in source.loose or (not figure.unit and figure.value in source.parts)
            if said and not _is_unit(figure):
                return True
            return any(one.kind is Kind.NUMBER and _same(figure, one) for one in source.figures)


def _is_short_for(code: str, source: SourceText) -> bool:
    """`P1` for `priority 1`."""
    match = _LETTER_AND_NUMBER.fullmatch(fold(code))
    return match is not None and re.search(rf"\b{match[1]}[a-z]+ {match[2]}\b", fold(source.text)) is not None


_LETTER_AND_NUMBER = re.compile(r"([a-z])-?(\d{1,2})")


def _same(mine: Figure, its: Figure) -> bool:
    (family, value), (its_family, its_value) = mine.measure, its.measure
    if family and its_family:
        if family != its_family or (mine.qualifier and its.qualifier and mine.qualifier != its.qualifier):
            return False
    else:
        value, its_value = mine.value, its.value
    if its.places > _READABLE_PLACES and mine.places < its.places:  # nobody repeats 16.9014084507
        return round(its.value, mine.places) == mine.value
    return value == its_value or (bool(mine.rounded) and is_rounded(mine, value, its_value))


def other_unit(source: SourceText, figure: Figure) -> str:
    """What the source says where it has the bare number with another unit."""
    for one in source.figures:
        if figure.unit and one.unit and one.kind is figure.kind is Kind.NUMBER and one.value == figure.value:
            return " ".join(filter(None, (one.text, one.qualifier, one.unit if one.unit not in one.text else "")))
    return ""


def _counts_itself(figure: Figure, said: Statement) -> bool:
    """`three things: a, b and c`: the number of what the sentence itself lists."""
    tail = said.text[figure.end :]
    listed = tail.partition(":")[2] or tail
    return (
        figure.spelt and figure.value <= 12 and len(re.findall(r",|;|\s(?:y|e|and|o|or)\s", listed)) + 1 == figure.value
    )
