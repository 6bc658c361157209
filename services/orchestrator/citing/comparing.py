"""Compares what an answer says with what a source says: figures, names, words, and whether one denies the other."""

from collections.abc import Sequence
from dataclasses import dataclass

from services.orchestrator.citing.alignment import Alignment
from services.orchestrator.citing.arithmetic import is_year
from services.orchestrator.citing.denial import denies, is_denial
from services.orchestrator.citing.figure_support import has, has_another, other_unit, unexplained
from services.orchestrator.citing.figures import Figure, Kind
from services.orchestrator.citing.names import has_name
from services.orchestrator.citing.opposing import Opposition, oppositions
from services.orchestrator.citing.source_text import SourceText
from services.orchestrator.citing.statement import Statement, is_foreign

# Of the words of an answer's sentence this share must stand in one sentence of the source before the two can differ.
_ALIGNED, _LEAST_ALIGNED = 0.5, 2
# Only so many sentences of the sources are taken apart, those that share most words.
_MOST_COMPARED = 12
_MANY_DIGITS = 3


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
        coverage=coverage(said, keys),
        missing=missing,
        misplaced=tuple(one for one in missing if any(has_another(source, one, said) for source in sources)),
        differing=next((why for one in missing for source in sources if (why := other_unit(source, one))), ""),
        names=sum(map(len, names)),
        absent=tuple(_absent(names, [*sources, *asked, *beside], foreign=foreign, tabular=tabular)),
        denied=False if tabular else _denied(said, sources, foreign=foreign),
        foreign=foreign,
        tabular=tabular,
        figures_found=len(said.figures) - len(unknown),
        telling=sum(map(_tells, (one for one in said.figures if one not in unknown))),
    )


def coverage(said: Statement, keys: frozenset[str]) -> float:
    """Share of the statement's words that are among `keys`, a source's."""
    return len(said.keys & keys) / max(1, len(said.keys))


def _tells(figure: Figure) -> float:
    if figure.kind is not Kind.NUMBER:
        return 0.5
    return 0.5 if is_year(figure) else float(sum(map(str.isdigit, figure.text)) >= _MANY_DIGITS)


def _denied(said: Statement, sources: Sequence[SourceText], *, foreign: bool) -> bool | None:
    """Whether the sources say the contrary; None where their words do not tell."""
    if denies(said.words, said.keys, sources, foreign=foreign):
        return True
    if foreign:
        return False
    sentences = [one for source in sources for one in source.sentences]
    aligned = max(sentences, key=lambda one: len(said.keys & one.keys) / (1 + len(one.keys) ** 0.25), default=None)
    if aligned is None or len(said.keys & aligned.keys) < max(_LEAST_ALIGNED, _ALIGNED * len(said.keys)):
        return None if is_denial(said.words) or (aligned and is_denial(aligned.words)) else False
    return False


def contraries(said: Statement, sources: Sequence[SourceText]) -> list[Opposition]:
    """Where the sources, in the statement's language, say the contrary of it. Rows of a table deny nothing."""
    listed = [one for source in sources if not source.tabular for one in source.sentences]
    places = sorted(range(len(listed)), key=lambda at: -len(said.keys & listed[at].keys))[:_MOST_COMPARED]
    near = [listed[at] for at in sorted(places)]
    return oppositions(Alignment(said.text, [one.text for one in near]))


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
