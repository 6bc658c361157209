"""Whether a sentence of an answer says the contrary of what its source says."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from services.orchestrator.citing.source_text import SourceText
from services.orchestrator.citing.words import Word, content, is_negator, key
from services.runtime.expressions.folding import fold

# Words that deny without a negation: `refused` is what `not accepted` stands for.
_DENY = re.compile(
    r"(?:forbid|forbad|ban(?:s|ned)?$|prohibi|refus|reject|declin|den(?:y|ie)|lack|fail|missing|unable|avoid|exempt|"
    r"exclu|abolish|rehus|rechaz|deneg|niega|carec|evit|exent|imposib|impossib|incapa|unlik|improbab)"
)
# Words that limit: what stands behind them can be said with and without a negation.
_LIMIT = re.compile(
    r"(?:only|just|solo|solamente|unicamente|except|salvo|excepto|unless|until|hasta|sino|beyond|instead|"
    r"without|sin|alone)$"
)
# `away from` is `never near`.
_APART = re.compile(r"(?:away|outside|apart|lejos|fuera|alejad\w*|instead|ruled|rules|descart\w+)$")
# `not more than` is `at most`.
_COMPARES = re.compile(r"(?:more|less|fewer|later|earlier|longer|mas|menos|exce|super|nada|beyond|rebas|solo|only)")
_LACKS = re.compile(
    r"""
    \b(?:do|does|did)(?:\ not|n't)\ (?:have(?!\ to)|contain|include|provide|set|foresee|require|offer|state|specify
        |define|establish|impose|grant|name|list)\b
    | \bthere\ (?:is|are|was|were)\ no\b
    | \b(?:has|have|had|contains?|includes?|sets?)\ no\b
    | \bno\ (?:tienen?(?!\ que)|contienen?|incluyen?|preven?|establecen?|contemplan?|fijan?|exigen?|ofrecen?|recogen?
        |hay(?!\ que)|habia|existen?|dicen?|imponen?|conceden?|nombran?)\b
    """,
    re.VERBOSE,
)
# A negation reaches over this many content words behind it.
_REACH = 4
_SEQUELS = frozenset("nada nadie nunca jamas tampoco ni nor ningun ninguna ninguno".split())
# Behind a comma, or right behind `or`: `the wrong one, or not the one that was ordered`.
_ASIDE = re.compile(r"[,;(—–]|\s(?:o|or|u)\s+$")


@dataclass(frozen=True)
class _Denials:
    """How often a text denies something, the limiting words in it, and whether all denials stand behind a comma."""

    count: int
    limits: int
    aside: bool


def denies(said: Sequence[Word], keys: frozenset[str], sources: Sequence[SourceText], *, foreign: bool) -> bool:
    """Whether the statement denies something, and nothing in its sources does in any way.

    `keys` of the statement's words, which tell related sentences unless they are `foreign`, in another language.
    """
    reached = _reached(said)
    known = {one for source in sources for one in source.keys}
    if not is_denial(said) or (not foreign and 2 * len(reached & known) < len(reached)):
        return False  # that something is not there at all, no source needs to say
    for source in sources:
        for sentence in source.sentences:
            found = _read(sentence.words, sentence.text)
            if found.count or (found.limits and (foreign or keys & sentence.keys)):
                return False
    return True


def lack_in(text: str) -> str:
    """What the text says is not there, as by `does not have`; empty where it says no such thing."""
    match = _LACKS.search(fold(text))
    return text[match.end() :] if match else ""


def is_lacking(said: Sequence[Word], sources: Sequence[SourceText], *, foreign: bool) -> bool:
    """Whether nothing in the sources tells otherwise, where the statement says that something is not there."""
    reached = _reached(said)
    known = {one for source in sources for one in source.keys}
    return foreign or 2 * len(reached & known) <= len(reached)


def is_denial(said: Sequence[Word]) -> bool:
    """Whether the statement denies something."""
    return _read(said, "").count > 0


def _reached(found: Sequence[Word]) -> frozenset[str]:
    """Keys of the words that a negation reaches."""
    reached: set[str] = set()
    left = 0
    for word in found:
        if is_negator(word.folded):
            left = _REACH
        elif left and content([word]):
            reached.add(key(word.folded))
            left -= 1
    return frozenset(reached)


def _read(found: Sequence[Word], text: str) -> _Denials:
    return _denials(tuple(word.folded for word in found), tuple(word.start for word in found), text)


@lru_cache(maxsize=16_384)
def _denials(found: tuple[str, ...], starts: tuple[int, ...], text: str) -> _Denials:
    places: list[int] = []
    for at, word in enumerate(found):
        if is_negator(word) and any(map(_COMPARES.match, found[at + 1 : at + 3])):
            continue  # a bound
        # `no … nada` denies once.
        if (is_negator(word) and not (places and word in _SEQUELS)) or _DENY.match(word):
            places.append(starts[at])
    limits = sum(_LIMIT.match(word) is not None for word in found)
    aside = bool(places) and all(_ASIDE.search(text[:place]) for place in places)
    return _Denials(len(places), limits, aside)
