"""Who does it to whom: whether a statement tells of the deed with the roles that the question gives.

`A acquired B` does not answer `when did B acquire A`, and what is told of one thing does not answer who did it to
another. Only within one language, and only where the order of words shows the roles; where it does not, nothing is held
against the statement.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from services.understudy.words import ENGLISH_STOPS, SPANISH_STOPS, alike, content, fold, stem

_TOKEN = re.compile(r"[^\W_]+|[,;:]")
_BREAKS = frozenset(", ; : and but while who which that whose y e pero mientras que quien cuyo cuya".split())
_BE = frozenset("is are was were be been being es son fue fueron ser sido siendo esta estan".split())
_CLITICS = frozenset("lo la los las le les him her it them".split())
_PARTICIPLE = re.compile(r"(?:[ai]d[oa]s?|[stch]t[oa]s?|ed|en|[lnt]t)$")
_RELATIVE = frozenset("that which who whose que quien cuyo cuya or o".split())
_POINTING = frozenset("this that these those se ello esto eso este esta".split())
_STOPS = ENGLISH_STOPS | SPANISH_STOPS
_ENGLISH_DID = re.compile(r"\b(?:did|does|do)\s+(?P<rest>.+)")
_ENGLISH_WHO = re.compile(r"^\W*who\s+(?:has\s+|had\s+|did\s+)?(?P<rest>\w+.*)")
_SPANISH_WHO = re.compile(r"^\W*quien(?:es)?\s+(?P<rest>.+)")
_SPANISH_WHOM = re.compile(r"^\W*(?:a|de) quien(?:es)?\s+(?P<rest>.+)")
_SPANISH_WHEN = re.compile(r"^\W*(?:cuando|por que|donde|como|en que \w+|por cuanto|cuanto)\s+(?P<rest>.+)")
_OBJECT_ENDS = frozenset(
    """in on at from for with during after before since until under over about by to as when because than
    en desde por para con durante tras antes despues hasta sobre segun cuando porque sin""".split()
)
_STARTS = frozenset("el la los las un una su sus".split())


@dataclass(frozen=True)
class Roles:
    """Stems of those who do it and of those it is done to, as a question gives them; either may be empty."""

    actors: frozenset[str] = frozenset()
    objects: frozenset[str] = frozenset()
    asks_actor: bool = False
    spoken: str = "en"


def roles(question: str, predicate: str, spoken: str) -> Roles:
    """The roles of the question's predicate; empty where they do not show."""
    folded = fold(question)
    if not predicate:
        return Roles()
    return _spanish(folded, question, predicate) if spoken == "es" else _english(folded, predicate)


def _english(folded: str, predicate: str) -> Roles:
    if match := _ENGLISH_WHO.search(folded):
        before, found, after = match["rest"].partition(predicate)
        return Roles(objects=_noun(after), asks_actor=True) if found and not before.strip() else Roles()
    if match := _ENGLISH_DID.search(folded):
        before, found, after = match["rest"].partition(f" {predicate}")
        return Roles(_stems(before), _stems(after)) if found else Roles()
    return Roles()


def _spanish(folded: str, question: str, predicate: str) -> Roles:
    if match := _SPANISH_WHOM.search(folded):
        before, found, after = match["rest"].partition(predicate)
        return Roles(actors=_noun(after)) if found and not before.strip() else Roles()
    if match := _SPANISH_WHO.search(folded):
        before, found, after = match["rest"].partition(predicate)
        return Roles(objects=_noun(after), asks_actor=True, spoken="es") if found and not before.strip() else Roles()
    match = _SPANISH_WHEN.search(folded)
    if match is None:
        return Roles()
    before, found, after = match["rest"].partition(predicate)
    if not found or before.strip():
        return Roles()
    # The verb stands first: then who does it, then to whom. One alone may be either.
    own = question[len(question) - len(after) :]
    parts = _phrases(own)
    return Roles(_stems(parts[0]), _stems(parts[1])) if len(parts) == 2 else Roles()


def _phrases(text: str) -> list[str]:
    """The noun phrases before the first preposition, each from its article or its name on."""
    parts: list[list[str]] = []
    joined = named = False
    for word in re.findall(r"[^\W_]+", text):
        plain = fold(word)
        if plain in _OBJECT_ENDS or plain in ("a", "al"):
            break
        if plain in ("de", "del", "y"):
            joined = True
            continue
        starts = plain in _STARTS or (word[:1].isupper() and not named and not parts)
        if (starts and not joined) or not parts:
            parts.append([])
        parts[-1].append(word)
        joined = joined and plain in _STARTS
        named = word[:1].isupper()
    return [" ".join(part) for part in parts]


def _noun(text: str) -> frozenset[str]:
    """The stems up to the first preposition of time or place."""
    words: list[str] = []
    for word in _TOKEN.findall(text):
        if word in _OBJECT_ENDS or word in _BREAKS:
            break
        words.append(word)
    return _stems(" ".join(words))


def _stems(text: str) -> frozenset[str]:
    return frozenset(stem(word) for word in content(text) if not word.isdigit())


def against(wanted: Roles, text: str, is_predicate: Callable[[str], bool]) -> bool:
    """Whether a statement tells of the deed only with other roles than those wanted."""
    if not wanted.actors and not wanted.objects:
        return False
    words = [fold(word) for word in _TOKEN.findall(text)]
    places = [at for at, word in enumerate(words) if is_predicate(word)]
    return bool(places) and all(_contrary(wanted, words, at) for at in places)


def _contrary(wanted: Roles, words: Sequence[str], at: int) -> bool:
    start, end = _clause(words, at)
    before, after = list(words[start:at]), list(words[at + 1 : end])
    suffered = any(word in _BE for word in words[max(start, at - 3) : at])
    rest = list(words[at + 1 :]) if suffered else after
    passive = suffered or bool(_PARTICIPLE.search(words[at]))
    agent = next((index for index, word in enumerate(rest) if passive and word in ("by", "por")), None)
    if suffered or agent is not None:
        # What is told of first is what it is done to.
        after = [*before, *(after if agent is None else rest[:agent])]
        before = [] if agent is None else _up_to_comma(rest[agent + 1 :])
        if wanted.asks_actor and agent is None:
            return True
    if wanted.asks_actor:
        told = words if start and words[start - 1] in _RELATIVE else [*before, *after]
        if not _meet(wanted.objects, told) and not any(word in _CLITICS for word in told):
            return True
        # In Spanish who does it may stand behind.
        behind = wanted.spoken == "es" and _others(wanted.objects, after)
        return agent is None and not suffered and _last_is(wanted.objects, before) and not behind
    if wanted.actors and not wanted.objects:
        return bool(before) and before[-1] in _CLITICS and _others(wanted.actors, after)
    objects, actors = wanted.objects - wanted.actors, wanted.actors - wanted.objects
    if objects and not _meet(objects, words) and not any(word in _CLITICS or word in _POINTING for word in words):
        return True
    return not _meet(actors, before) and _meet(actors, after) and _meet(objects, before)


def _up_to_comma(words: Sequence[str]) -> list[str]:
    end = next((index for index, word in enumerate(words) if word in _BREAKS), len(words))
    return list(words[:end])


def _clause(words: Sequence[str], at: int) -> tuple[int, int]:
    """From where to where the words go with the verb; one without a subject of its own takes the clause before."""
    start = next((index + 1 for index in range(at - 1, -1, -1) if words[index] in _BREAKS), 0)
    if start and not any(word not in _STOPS and word not in _BREAKS for word in words[start:at]):
        start = next((index + 1 for index in range(start - 2, -1, -1) if words[index] in _BREAKS), 0)
    end = next((index for index in range(at + 1, len(words)) if words[index] in (";", ":")), len(words))
    return start, next((index for index in range(at + 2, end) if words[index] in ("and", "y", "but", "pero")), end)


def _meet(stems: frozenset[str], words: Sequence[str]) -> bool:
    return any(alike(stem(word), one) for word in words if word not in _STOPS for one in stems)


def _last_is(stems: frozenset[str], words: Sequence[str]) -> bool:
    """Whether the last noun of words is one of the stems."""
    telling = [word for word in words if word not in _STOPS and word not in _BREAKS and not word.endswith("ly")]
    return bool(telling) and _meet(stems, telling[-1:])


def _others(stems: frozenset[str], words: Sequence[str]) -> bool:
    """Whether words name something besides the stems."""
    telling = [word for word in words if word not in _STOPS and word not in _BREAKS and word.isalpha()]
    return any(not _meet(stems, [word]) for word in telling[:2])
