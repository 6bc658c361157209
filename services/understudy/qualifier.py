"""Finds the clauses that are of the kind a question names: special conditions, exceptions, clauses on insurance."""

import re
from collections.abc import Sequence

from services.understudy.clauses import Clause
from services.understudy.extract import Asked
from services.understudy.words import content, fold, stem, stems

# Words for clauses of any kind, and of their being many.
_GENERIC = frozenset(
    stem(word)
    for word in """condicion condiciones condition conditions clausula clausulas clause clauses termino terminos term
    terms contrato contratos contract contracts acuerdo acuerdos agreement agreements documento documentos document
    documents disposicion disposiciones provision provisions punto puntos point points patron patrones pattern
    patterns elemento elementos item items aspecto aspectos aspect aspects cosa cosas thing things texto
    text parte partes part parts tipo tipos type types kind""".split()
)
_RECUR = (
    r"se repit\w+|repetid[oa]s?|recurr?\w*|repeat\w*|in common|en comun|comun(?:es)?|common|habitual(?:es)?|"
    r"frecuentes?|frequent\w*|usual\w*|typical\w*|tipic[oa]s?|most|mas|aparec\w+|appear\w*|suelen|often"
)
_START = re.compile(
    r"^\W*(?:(?:y|and)\s+)?(?:(?:what|which|que|cuales)\b)?(?:\s*(?:are|is|son|es)\b)?(?:\s*(?:the|l[oa]s?|el)\b)?\s*"
)
_ABOUT = r"(?:de|of|sobre|about|on|regarding|para|for|acerca de|relativ[oa]s? a)\s+(?:the\s+|l[oa]s?\s+|el\s+)?"
# Where the name of what recurs ends. What it is about goes on with it: `conditions of payment`.
_END = re.compile(
    rf"\b(?:{_RECUR}|en|in|with|con|a|to|that|que|are|is|son|have|has|do|does|tienen|tiene|hay|firma\w*|sign\w*|entre|"
    r"among|between|across|y|and)\b|[,;:?.]"
)
_LEADING_RECUR = re.compile(rf"^(?:(?:{_RECUR})\b\s*)+")
_OF = re.compile(rf"\b{_ABOUT}")
_LABEL_WORDS = 6
_MIN_COVERAGE = 0.5


def qualified(question: str, found: Sequence[Clause]) -> list[Clause] | None:
    """The clauses of the kind that the question names; None when it names no kind that can be recognised in them.

    Where some are called so, by their own label or a heading over them, those that only mention it are left out. None
    are left when the question asks for something other than conditions, such as guarantees, and there are none.
    """
    wanted, any_kind = _kind(question)
    if not wanted:
        return None
    known = Asked(" ".join(wanted), [[*one.words, *stems(one.heading)] for one in found])
    headings = {one.heading: known.coverage(stems(one.heading)) for one in found}
    alone = {heading for heading in headings if _names_only(heading, wanted)}
    called: list[tuple[float, Clause]] = []
    mentioned: list[tuple[float, Clause]] = []
    for one in found:
        own = known.coverage([*one.words, *stems(one.heading)])
        mentioned.append((own, one))
        label = known.coverage([*stems(_label(one.text)), *stems(one.heading)])
        # `Delivery and penalties` is over more than penalties; `Penalties` over nothing else.
        by_heading = one.heading in alone or label > headings[one.heading] or known.coverage(one.words) > 0
        called.append((label if by_heading else 0, one))
    for scored in (called, mentioned):
        best = max((score for score, _ in scored), default=0)
        if best >= _MIN_COVERAGE:
            return [one for score, one in scored if score >= best - 0.01]
    return None if any_kind else []


def _names_only(heading: str, wanted: Sequence[str]) -> bool:
    """Whether the last part of a section path is about the kind and nothing else."""
    own = [word for word in content(heading.rsplit(" > ", 1)[-1]) if stem(word) not in _GENERIC and word.isalpha()]
    named = [stem(word) for word in wanted]
    return Asked(" ".join(own), [named]).coverage(named) >= 0.99


def _kind(question: str) -> tuple[list[str], bool]:
    """The words, folded, that say of what kind the clauses are, and whether a word for any kind stands with them."""
    text = _LEADING_RECUR.sub("", _START.sub("", fold(question), count=1))
    text = _START.sub("", text, count=1)
    ends = _END.search(text)
    name = text[: ends.start()] if ends else text
    head, *about = _OF.split(name, maxsplit=1)
    words = content(head)
    if about and all(stem(word) in _GENERIC for word in words):
        words += content(about[0])[:2]
    own = [word for word in words if stem(word) not in _GENERIC and not word[0].isdigit()]
    return own, any(stem(word) in _GENERIC for word in words)


def _label(text: str) -> str:
    """What a clause calls itself: its first few words, up to a full stop or colon; empty when it begins at once."""
    first = re.split(r"[:.]\s|\n", f"{text}\n", maxsplit=1)[0]
    return first if len(first.split()) <= _LABEL_WORDS else ""
