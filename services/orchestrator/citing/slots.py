"""Finds names and dates that a source has, but where it speaks of something else: who won it, when it began."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise

from services.orchestrator.citing.arithmetic import is_year
from services.orchestrator.citing.calendar_dates import Day
from services.orchestrator.citing.figures import Kind, figures
from services.orchestrator.citing.lexicon import Term, terms
from services.orchestrator.citing.names import named_runs
from services.orchestrator.citing.words import has_content, key, words

_CUT = re.compile(r"(?<=[.;:!?])\s+|,\s+|\s+(?=(?:and|but|while|whereas|y|e|pero|mientras)\s)")
_JOINED = re.compile(r"(?:and|y|e)\s")
_GENITIVE = re.compile(r"['’]s?$")
# Of what a part of an answer says beside its name, date or party, the other place in the source must have this share.
_LEAST_SHARED = {"name": 0.5, "date": 0.5, "party": 0.6}
_SUBJECT, _CLOSE, _LEAST_NAME = 2, 2, 4
_MOST_CHARS = 1_200


@dataclass(frozen=True)
class Filler:
    """What fills a slot: a `name` by its words' keys, a `date`, or a `party`. `strong`: it is one for sure."""

    kind: str
    keys: frozenset[str] = frozenset()
    day: Day = field(default_factory=Day)
    strong: bool = True

    def agrees(self, other: "Filler") -> bool:
        """Whether both may be the same."""
        if self.kind != other.kind:
            return False
        return bool(self.keys & other.keys) or self.day.agrees(other.day) or other.day.agrees(self.day)


# A filler and where it stands.
_Placed = tuple[int, int, Filler]


@dataclass(frozen=True)
class Segment:
    """A part of a sentence: what it says, without its fillers, and these.

    `around`: with what it goes on with by `and`; `leading`: the fillers before all that, `subject`: its first word.
    """

    text: str
    anchors: frozenset[str]
    around: frozenset[str]
    fillers: tuple[Filler, ...]
    leading: tuple[Filler, ...]
    subject: str


@dataclass(frozen=True)
class Misplaced:
    """A segment of an answer that has a filler from `own` where `rival` has another."""

    said: str
    own: str
    rival: str


def misplaced(said: str, sources: Sequence[str]) -> Iterator[Misplaced]:
    """Where a sentence gives the role that a source gives to one name, date or party to another of the source's."""
    told = [mine for mine in segments(said) if mine.fillers]
    known = [one for text in sources for one in segments(text)] if told else []
    for mine in told:
        for filler in mine.fillers:
            own = [one for one in known if any(filler.agrees(other) for other in one.fillers)]
            if not own or _is_sure_of_place(filler, own, known, mine):
                continue
            about = mine.anchors - {mine.subject} if filler.kind == "date" and len(mine.anchors) > 1 else mine.anchors
            least = _LEAST_SHARED[filler.kind] * len(about)
            for rival in (one for one in known if _has_rival(one, filler, mine)):
                shared = about & rival.around
                if shared and len(shared) >= least and all(about & one.around < shared for one in own):
                    yield Misplaced(mine.text, own[0].text, rival.text)
                    break


def _is_sure_of_place(filler: Filler, own: Sequence[Segment], known: Sequence[Segment], mine: Segment) -> bool:
    """Whether the source has another filler of the answer's beside it; or is about it, and need not name it again."""
    if any(sum(any(one.agrees(its) for its in place.fillers) for one in mine.fillers) > 1 for place in own):
        return True
    return filler.kind != "date" and (len(own) > 1 or any(filler.agrees(one) for one in known[0].leading))


def _has_rival(one: Segment, filler: Filler, mine: Segment) -> bool:
    """Whether it has another of the kind, and none that the answer has."""
    others = [other for other in one.fillers if other.kind == filler.kind and other.strong]
    return bool(others) and not any(other.agrees(said) for other in others for said in (*mine.fillers, filler))


@lru_cache(maxsize=4_096)
def segments(text: str) -> tuple[Segment, ...]:
    """The segments of a text, in order. Those that name things only go with what stands beside them."""
    text = text[:_MOST_CHARS]
    fillers = sorted(_fillers(text), key=lambda one: one[0])
    found = [
        (one.start, anchor)
        for one in terms(text)
        if not any(start <= one.start < end for start, end, _ in fillers) and (anchor := _anchor(one))
    ]
    spans = _spans(text, fillers, [start for start, _ in found])
    subject = [anchor for start, anchor in found if spans and start < spans[0][1]][:_SUBJECT]
    return tuple(
        Segment(
            text[start:end].strip(" ,"),
            (own := frozenset(anchor for at, anchor in found if start <= at < end)),
            own.union(subject if _JOINED.match(text[start:end].lstrip(" ,")) else []),
            tuple(one for at, _, one in fillers if start <= at < end),
            tuple(one for at, _, one in fillers if start <= at < min((a for a, _ in found if a >= start), default=end)),
            next((anchor for at, anchor in found if start <= at < end), ""),
        )
        for start, end in spans
    )


def _spans(text: str, fillers: Sequence[_Placed], anchors: Sequence[int]) -> list[tuple[int, int]]:
    """Where the segments stand: each has words of its own, and none ends within a list of fillers."""
    cuts = [
        match.start()
        for match in _CUT.finditer(text)
        if not any(start < match.start() < end for start, end, _ in fillers) and not _lists(match, fillers)
    ]
    spans: list[tuple[int, int]] = []
    for start, end in pairwise([0, *cuts, len(text)]):
        bare = not any(start <= at < end for at in anchors)
        if spans and (bare or not any(spans[-1][0] <= at < spans[-1][1] for at in anchors)):
            spans[-1] = (spans[-1][0], end)
        else:
            spans.append((start, end))
    return spans


def _lists(match: re.Match[str], fillers: Sequence[_Placed]) -> bool:
    """Whether fillers of one kind stand on both sides: `Orio and Hibaika`, `1701 and 1750`."""
    before = {one.kind for _, end, one in fillers if match.start() - _CLOSE <= end <= match.start()}
    behind = {one.kind for start, _, one in fillers if match.end() <= start <= match.end() + _CLOSE + 4}
    return bool(before & behind)


def _anchor(term: Term) -> str:
    if term.sense:
        return term.sense
    if term.contraries:
        pair, side = term.contraries[0]
        return f"~{pair}{side:+}"
    if term.party:
        return f"@{term.party}"
    if "light" in term.labels or not has_content(term.text):
        return ""
    return key(term.text)


def _fillers(text: str) -> Iterator[_Placed]:
    taken: list[_Placed] = []
    for reader in (_dates, _names, _parties, _openings):
        for start, end, filler in reader(text):
            if reader is _dates or not any(a < end and start < b for a, b, _ in taken):
                taken.append((start, end, filler))
                yield start, end, filler


def _dates(text: str) -> Iterator[_Placed]:
    for one in figures(text):
        if one.kind is Kind.DATE:
            yield one.start, one.end, Filler("date", day=one.day)
        elif one.kind is Kind.NUMBER and is_year(one):
            yield one.start, one.end, Filler("date", day=Day(int(one.value)))


def _names(text: str) -> Iterator[_Placed]:
    for run in named_runs(text, words(text)):
        yield run[0].start, run[-1].start + len(run[-1].text), Filler("name", frozenset(key(one.folded) for one in run))


def _parties(text: str) -> Iterator[_Placed]:
    listed = terms(text)
    for at, one in enumerate(listed):
        owns = _GENITIVE.search(text[one.start : one.end]) or (at and listed[at - 1].text in ("de", "del", "of"))
        if one.party and not owns:
            yield one.start, one.end, Filler("party", frozenset((one.party,)))


def _openings(text: str) -> Iterator[_Placed]:
    """Words with a capital that no list knows: at the beginning of a sentence a name cannot be told for sure."""
    for one in terms(text):
        known = one.sense or one.party or one.labels or one.contraries
        if one.capitalised and not known and len(one.text) >= _LEAST_NAME and has_content(one.text):
            yield one.start, one.end, Filler("name", frozenset((key(one.text),)), strong=False)
