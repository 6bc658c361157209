"""Says how a sentence turns to a machine that reads it: calls it, speaks of its answer, presses it, plays its part."""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.resources import files
from typing import Any, cast

import yaml

_MAX_REMEMBERED = 50_000
# What only a machine that writes is called, and what people, products and measures are called too.
_MACHINE = (
    r"\b(?:ai|ia|llms?|assistants?|asistentes?|chatbots?|bots?|copilots?|copilotos?|gpt|chatgpt|claude|gemini"
    r"|language models?|modelos? de lenguaje|inteligencias? artificial(?:es)?|artificial intelligences?)\b"
)
_WRITER = (
    rf"(?:{_MACHINE}|\b(?:machine readers?|automat(?:ed|ic) (?:readers?|systems?|reviewers?)"
    r"|(?:lectores|sistemas|revisores) automaticos|robots?|models?|modelos?|agents?|agentes?|whatever model)\b)"
)
# Of the words that name one, those that say it by themselves.
MACHINES = frozenset(
    "ai ia llm llms assistant assistants asistente asistentes chatbot chatbots bot bots copilot copiloto".split()
)
# An agent that is called so may be a person who writes on behalf of a firm.
_CALLED = _WRITER.replace("|agents?|agentes?", "")
_MACHINE_WORDS = (
    "ai ia llm llms assistant assistants asistente asistentes chatbot chatbots bot bots copilot copiloto gpt chatgpt"
    " claude gemini language lenguaje inteligencia inteligencias artificial"
)

# Letters that a stem has at least.
_LEAST_STEM = 3
_NONE = frozenset[str]()


@dataclass
class _Gestures:
    """`_exact` and `_stems`: names by the words that must be there; `_patterns`: the expression of each name.

    `_needs`: parts of which one is in the sentence where it is found.
    """

    _exact: Mapping[str, frozenset[str]]
    _stems: Mapping[str, frozenset[str]]
    _patterns: Mapping[str, re.Pattern[str]]
    _needs: Mapping[str, Sequence[str]]
    _known: dict[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])

    def __post_init__(self) -> None:
        self._beginnings = defaultdict[str, list[str]](list)
        for stem in self._stems:
            self._beginnings[stem[:_LEAST_STEM]].append(stem)

    @property
    def names(self) -> Iterable[str]:
        """Of all of them."""
        return self._patterns

    def of(self, sentence: str, words: Sequence[str], *, tries_all: bool) -> list[str]:
        known = self._known
        hinted = set(map(known.get, words))
        if None in hinted:
            hinted = {self._new(word) if word not in known else known[word] for word in words}
        hinted.discard(_NONE)
        if not hinted:
            return []
        possible = frozenset[str]().union(*cast(set[frozenset[str]], hinted))
        tried = possible if tries_all else [name for name in possible if self._may_be(name, sentence)]
        return [name for name in tried if self._patterns[name].search(sentence)]

    def _may_be(self, name: str, sentence: str) -> bool:
        needs = self._needs[name]
        return not needs or any(map(sentence.__contains__, needs))

    def _new(self, word: str) -> frozenset[str]:
        if len(self._known) >= _MAX_REMEMBERED:
            self._known.clear()
        stems = self._beginnings.get(word[:_LEAST_STEM], ())
        found = [self._stems[stem] for stem in stems if word.startswith(stem)]
        self._known[word] = self._exact.get(word, _NONE).union(*found)
        return self._known[word]


@lru_cache(maxsize=1)
def _gestures() -> _Gestures:
    """Of gestures.yaml."""
    text = files("services.runtime.recognition.injections").joinpath("gestures.yaml").read_text(encoding="utf-8")
    exact, stems = defaultdict[str, set[str]](set), defaultdict[str, set[str]](set)
    patterns: dict[str, re.Pattern[str]] = {}
    needs: dict[str, Sequence[str]] = {}
    for name, one in cast(Mapping[str, Mapping[str, Any]], yaml.safe_load(text)).items():
        needs[name] = one.get("needs", ())
        for word in one["words"].replace("MACHINE", _MACHINE_WORDS).split():
            (stems if word.endswith("*") else exact)[word.removesuffix("*")].add(name)
        # Lines are folded into one with blanks, which stand before an alternative only by that.
        pattern = (
            one["pattern"]
            .replace(" |", "|")
            .replace("CALLED", _CALLED)
            .replace("WRITER", _WRITER)
            .replace("MACHINE", _MACHINE)
        )
        patterns[name] = re.compile(pattern)
    frozen = [{word: frozenset(names) for word, names in some.items()} for some in (exact, stems)]
    return _Gestures(frozen[0], frozen[1], patterns, needs)


def gestures(sentence: str, words: Sequence[str], *, tries_all: bool = False) -> list[str]:
    """Names of gestures.yaml that a folded sentence makes; `words` are its own.

    `tries_all`: also expressions that lack what they need, which takes longer and finds the same.
    """
    return _gestures().of(sentence, words, tries_all=tries_all)


# Of all of them.
NAMES = frozenset(_gestures().names)
