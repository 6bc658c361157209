"""In which language a query is, and in which languages its words have to be looked up."""

import re
from collections.abc import Sequence

# Words without which hardly a question is asked, and which the other languages do not have.
_FUNCTION_WORDS = {
    "en": frozenset(
        "the of and in to is are was were what which who when where how many much with for that this these on by from"
        " does did we our at be been it or not".split()
    ),
    "es": frozenset(
        "el la los las del de que qué en y un una unos unas con para por cuál cuáles cuál cuándo cuánto cuántos cuánta"
        " cuántas cómo dónde quién es son fue se su sus al lo más según o e nuestro nuestra".split()
    ),
}
_WORD = re.compile(r"\w+")
# Each language adds terms to the search.
_MOST = 3


def spoken(query: str) -> str:
    """The language of a query, or empty where its words do not show it."""
    counts = _counts(query)
    best = max(counts, key=lambda language: counts[language])
    alone = all(counts[other] < counts[best] for other in counts if other != best)
    return best if alone else ""


def query_languages(query: str, documents: Sequence[str]) -> list[str]:
    """Languages to stem `query` in, of those that the `documents` have (empty: unknown); at least one.

    Documents are stemmed in their own language, so that a query has to be stemmed likewise. Its own language is enough
    where it shows; a query of bare nouns is looked up in all of them.
    """
    if len(documents) <= 1:
        return list(documents) or [""]
    found = [language for language, count in _counts(query).items() if count]
    if len(found) == 1 and found[0] in documents:
        return found
    return list(documents)[:_MOST]


def _counts(query: str) -> dict[str, int]:
    """How many function words of each language the query has."""
    words = set(_WORD.findall(query.lower()))
    return {language: len(words & known) for language, known in _FUNCTION_WORDS.items()}
