"""Words of an answer and of its sources in a form in which they can be compared, in Spanish and English."""

import re
from collections.abc import Sequence
from functools import lru_cache
from importlib.resources import files
from typing import Any, NamedTuple, cast

import yaml

from services.runtime.expressions.folding import fold

_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)?")
_LISTS = cast(
    dict[str, Any],
    yaml.safe_load(files("services.orchestrator.citing").joinpath("words.yaml").read_text(encoding="utf-8")),
)
_STOPS = frozenset(_LISTS["stops"].split() + _LISTS["about_sources"].split())
_ENDINGS = (
    "amientos amiento imientos imiento aciones acion iciones icion uciones ucion ations ation itions ition tions tion "
    "siones sion sions adores ador idades idad ities ity mente ings ing ments ment ados adas ado ada idos idas ido ida "
    "aron ieron amos emos imos ando iendo aban aba arse erse irse ness able ible ably ed es s as os a o e ar er ir an "
    "en y ly"
).split()
_BY_LENGTH = sorted(_ENDINGS, key=len, reverse=True)
_SOUNDS = (("ph", "f"), ("th", "t"), ("qu", "c"), ("k", "c"), ("y", "i"), ("ck", "c"))
_DOUBLED = re.compile(r"([b-df-hj-np-tv-z])\1")
_MIN_STEM, _KEY_LETTERS = 3, 5
# A sentence is read by several checks, and remembered for them; longer texts are not.
_SHORT_CHARS = 1_500

_NEGATORS = frozenset(_LISTS["negators"].split())
_CONTRACTED = re.compile(r"n['’]t$")
_WITHOUT = re.compile(r"^(?!unless$|regard|neverthe|nonethe|doubt)\w{3,}less(?:ly)?$")
_SIDES = {
    word: (pair, side)
    for pair, listed in enumerate(_LISTS["contraries"])
    for side, words_of in enumerate(listed)
    for word in words_of.split()
}
_LANGUAGES = {
    name: frozenset(_LISTS[listed].split())
    for name, listed in {"es": "spanish", "en": "english", "other": "other"}.items()
}
# Neither Spanish nor English: some words of it are known, and no more.
OTHER = "other"
_SPANISH_LETTERS = frozenset("ñáíóú")


class Word(NamedTuple):
    """A word as written, without accents in lower case, and where it stands."""

    text: str
    folded: str
    start: int

    @property
    def capitalised(self) -> bool:
        """Whether it looks like a name."""
        return self.text[0].isupper()


def words(text: str) -> tuple[Word, ...]:
    """The words of a text, in order."""
    return _short_words(text) if len(text) <= _SHORT_CHARS else _words(text)


def _words(text: str) -> tuple[Word, ...]:
    folded = fold(text)
    return tuple([Word(text[m.start() : m.end()], m.group(), m.start()) for m in _WORD.finditer(folded)])


_short_words = lru_cache(maxsize=4_096)(_words)


@lru_cache(maxsize=65_536)
def key(folded: str) -> str:
    """What forms of a word have in common, cognates of both languages included: `contratos`, `contracts`."""
    stem = folded
    for ending in _BY_LENGTH:
        if len(stem) - len(ending) >= _MIN_STEM and stem.endswith(ending):
            stem = stem[: -len(ending)]
            break
    for written, sound in _SOUNDS:
        stem = stem.replace(written, sound)
    return _DOUBLED.sub(r"\1", stem)[:_KEY_LETTERS]


def content(found: Sequence[Word]) -> list[Word]:
    """The words that say something: no function words, no digits."""
    return [word for word in found if _says_something(word.folded)]


@lru_cache(maxsize=65_536)
def has_content(term: str) -> bool:
    """Whether a word, or one of several, says something."""
    return bool(content(_words(term)))


@lru_cache(maxsize=65_536)
def _says_something(folded: str) -> bool:
    return folded not in _STOPS and len(folded) > 1 and not any(map(str.isdigit, folded))


@lru_cache(maxsize=65_536)
def is_negator(folded: str) -> bool:
    """Whether the word negates, `blameless` among them."""
    return folded in _NEGATORS or bool(_CONTRACTED.search(folded)) or bool(_WITHOUT.search(folded))


def sides(found: Sequence[Word]) -> dict[int, set[int]]:
    """For each pair of contraries that a text touches, which of the two it has."""
    touched: dict[int, set[int]] = {}
    for word in found:
        if known := _SIDES.get(word.folded):
            touched.setdefault(known[0], set()).add(known[1])
    return touched


def language(found: Sequence[Word]) -> str:
    """`es`, `en`, `other`, or empty where the words do not tell."""
    counts = dict.fromkeys(_LANGUAGES, 0)
    for word in found:
        for name in _languages_of(word.text.lower(), word.folded):
            counts[name] += 1
    first, second = sorted(counts.values())[-1:-3:-1]
    return "" if first == second else max(counts, key=lambda name: counts[name])


@lru_cache(maxsize=65_536)
def _languages_of(lower: str, folded: str) -> tuple[str, ...]:
    """The languages that a word speaks for; Spanish once more for its letters."""
    known = [name for name, listed in _LANGUAGES.items() if folded in listed]
    return tuple(known + ["es"] * (not _SPANISH_LETTERS.isdisjoint(lower)))
