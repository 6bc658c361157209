"""Compares what an answer says with what a source says: figures, names, words, and whether one denies the other."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from services.orchestrator.citing.arithmetic import Pool, is_computed, is_rounded, is_year
from services.orchestrator.citing.denial import contradicts, denies, is_denial
from services.orchestrator.citing.derived import counts_list, fraction_of, has_share, is_shifted, within_bounds
from services.orchestrator.citing.figures import SECTION, Figure, Kind, figures
from services.orchestrator.citing.names import has_name, labels, named_runs
from services.orchestrator.citing.source_text import Sentence, SourceText, squeeze
from services.orchestrator.citing.words import OTHER, Word, content, key, language, words
from services.runtime.expressions.folding import fold

# Of the words of an answer's sentence this share must stand in one sentence of the source before the two can differ.
_ALIGNED, _LEAST_ALIGNED = 0.5, 2
# `a discount` is not one per cent.
# The answer to a question, before what the sentence says.
_SAYS_YES_OR_NO = re.compile(r"^[\s*_]*(?:no|s[ií]|yes)[*_]*\s*[,;:.!–—]", re.IGNORECASE)
_MANY_DIGITS, _READABLE_PLACES, _NEAR_CHARS = 3, 4, 30
_PRECISE = frozenset(("%", "EUR", "USD", "GBP"))


@dataclass(frozen=True)
class Statement:
    """One sentence of an answer, or a part of one, as far as it can be compared.

    `labelled`: names that may be none, as they stand where all words have capitals; `label_keys`: of those words.
    """

    text: str
    words: tuple[Word, ...]
    keys: frozenset[str]
    figures: tuple[Figure, ...]
    names: tuple[tuple[str, ...], ...]
    labelled: tuple[tuple[str, ...], ...]
    label_keys: frozenset[str]
    language: str


@dataclass(frozen=True)
class Comparison:
    """What of a statement its sources have.

    `coverage`: share of its words that they have. `missing`: figures that they have not and that cannot be computed
    from them; `misplaced`: those of them in whose place they have another; `differing`: what they say, where they have
    the figure with another unit. `absent`: names that they have not, of so many `names`. `denied`: they say the
    contrary, None where words do not tell. `foreign`: they are in another language, so that words prove nothing;
    `tabular`: rows of a table. `telling`: how many figures of those found are hardly there by chance; a year is half
    of one.
    """

    coverage: float
    missing: tuple[Figure, ...]
    misplaced: tuple[Figure, ...]
    differing: str
    names: int
    absent: tuple[str, ...]
    denied: bool | None
    foreign: bool
    tabular: bool
    figures_found: int
    telling: float


@lru_cache(maxsize=2_048)
def statement(text: str) -> Statement:
    """Reads a sentence of an answer."""
    text = _SAYS_YES_OR_NO.sub(lambda match: " " * len(match.group()), text)
    found = tuple(words(text))
    spoken = language(found)
    titled = labels(text, found)
    runs = named_runs(text, found) if spoken != OTHER else []
    apart = [any(start <= run[0].start < end for start, end in titled) for run in runs]
    named = [tuple(word.text for word in run) for run in runs]
    return Statement(
        text,
        found,
        frozenset(key(word.folded) for word in content(found)),
        tuple(figures(text)),
        tuple(run for run, label in zip(named, apart, strict=True) if not label),
        tuple(run for run, label in zip(named, apart, strict=True) if label),
        frozenset(key(one.folded) for one in content(found) if any(a <= one.start < b for a, b in titled)),
        spoken,
    )


def compare(
    said: Statement,
    sources: Sequence[SourceText],
    asked: Sequence[SourceText] = (),
    beside: Sequence[SourceText] = (),
) -> Comparison:
    """Compares with all sources together. Figures and names in `asked` may be repeated, names in `beside` too."""
    keys = frozenset(one for source in sources for one in source.keys)
    unknown = [one for one in said.figures if not any(has(source, one) for source in sources)]
    missing = tuple(unexplained(said, unknown, sources, asked))
    foreign, tabular = is_foreign(said, sources), all(one.tabular for one in sources)
    names = said.names
    if said.language and not foreign and not said.label_keys & keys:
        names += said.labelled
    return Comparison(
        coverage=len(said.keys & keys) / max(1, len(said.keys)),
        missing=missing,
        misplaced=tuple(one for one in missing if any(has_another(source, one, said) for source in sources)),
        differing=next((why for one in missing for source in sources if (why := _other_unit(source, one))), ""),
        names=sum(map(len, names)),
        absent=tuple(_absent(names, [*sources, *asked, *beside], foreign=foreign, tabular=tabular)),
        denied=False if tabular else _denied(said, sources, foreign=foreign),
        foreign=foreign,
        tabular=tabular,
        figures_found=len(said.figures) - len(unknown),
        telling=sum(map(_tells, (one for one in said.figures if one not in unknown))),
    )


def _is_unit(figure: Figure) -> bool:
    """Whether it is one of something: `a discount` is not one per cent."""
    return bool(figure.unit) and figure.value == 1


def _tells(figure: Figure) -> float:
    if figure.kind is not Kind.NUMBER:
        return 0.5
    return 0.5 if is_year(figure) else float(sum(map(str.isdigit, figure.text)) >= _MANY_DIGITS)


def is_foreign(said: Statement, sources: Sequence[SourceText]) -> bool:
    """Whether all sources are in another language than the statement."""
    spoken = {source.language for source in sources if source.language}
    return said.language == OTHER or (bool(said.language and spoken) and said.language not in spoken)


def _denied(said: Statement, sources: Sequence[SourceText], *, foreign: bool) -> bool | None:
    """Whether the sources say the contrary; None where their words do not tell."""
    if denies(said.words, said.keys, sources, foreign=foreign) or (
        len(sources) == 1 and turned_round(said, sources[0])
    ):
        return True
    if foreign or len(sources) > 1:
        return False
    sentences = sources[0].sentences
    aligned = max(sentences, key=lambda one: len(said.keys & one.keys) / (1 + len(one.keys) ** 0.25), default=None)
    if aligned is None or len(said.keys & aligned.keys) < max(_LEAST_ALIGNED, _ALIGNED * len(said.keys)):
        return None if is_denial(said.words) or (aligned and is_denial(aligned.words)) else False
    return contradicts(said.words, said.keys, aligned, related(said, sentences, aligned), foreign=False)


def related(said: Statement, sentences: Iterable[Sentence], but: Sentence) -> list[Sentence]:
    """Other sentences that share a word with the statement."""
    return [one for one in sentences if one is not but and said.keys & one.keys]


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
    ]
    folded = [word.folded for word in said.words]
    told = frozenset([*folded, *map(" ".join, pairwise(folded))])
    known = [one for one in said.figures if one not in left]
    pools = {years: Pool.of(sources, known, years=years) for years in {one.unit == "year" for one in left}}
    return [
        one for one in left if not is_computed(one, pools[one.unit == "year"], told) and not _counts_itself(one, said)
    ]


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
            return any(one.kind is Kind.DATE and figure.day.agrees(one.day) for one in source.figures)
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


def turned_round(said: Statement, source: SourceText) -> bool:
    """Whether the statement sets a bound to a number that in the source is the other one: `at least` for `at most`.

    What lies on the other side of a bound is often told without the number, as by `above that`: then nothing is said.
    """
    for mine in said.figures:
        alike = [one.rounded for one in source.figures if one.kind is mine.kind is Kind.NUMBER and _same(mine, one)]
        other = {"over": "under", "under": "over"}.get(mine.rounded)
        if other and alike and set(alike) == {other} and not _BOUNDS[mine.rounded].search(fold(source.text)):
            return True
    return False


_BOUNDS = {
    "over": re.compile(
        r"\b(?:over|more|above|least|exceed\w*|beyond|mas|encima|minimo|supera\w*|demas|otros?|others?|rest)\b"
    ),
    "under": re.compile(
        r"\b(?:less|fewer|below|under|most|up to|menos|debajo|maximo|hasta|demas|otros?|others?|rest)\b"
    ),
}


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


def _other_unit(source: SourceText, figure: Figure) -> str:
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


def _absent(
    runs: Sequence[tuple[str, ...]], sources: Sequence[SourceText], *, foreign: bool, tabular: bool
) -> list[str]:
    """Names that the sources have not. Of one in several words, in another language, it is enough to have one."""
    absent: list[str] = []
    for run in runs:
        missing = [name for name in run if not has_name(name, sources, translated=foreign or tabular)]
        if len(missing) == len(run) or not foreign:
            absent.extend(missing)
    return absent
