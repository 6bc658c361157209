"""One sentence of an answer, read once: its words, figures and names."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from services.orchestrator.citing.figures import Figure, figures
from services.orchestrator.citing.names import labels, named_runs
from services.orchestrator.citing.source_text import SourceText
from services.orchestrator.citing.words import OTHER, Word, content, key, language, words

# The answer to a question, before what the sentence says.
_SAYS_YES_OR_NO = re.compile(r"^[\s*_]*(?:no|s[ií]|yes)[*_]*\s*[,;:.!–—]", re.IGNORECASE)


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


def is_foreign(said: Statement, sources: Sequence[SourceText]) -> bool:
    """Whether all sources are in another language than the statement."""
    spoken = {source.language for source in sources if source.language}
    return said.language == OTHER or (bool(said.language and spoken) and said.language not in spoken)
