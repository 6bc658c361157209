"""Tells English from Spanish by words that are known, and by endings where none is."""

from collections.abc import Sequence

from services.tool_cache.semantic.tokens import Token
from services.tool_cache.semantic.vocabulary import vocabulary

# Endings that tell Spanish where no word does.
_SPANISH = ("o", "a", "os", "as", "cion", "dad", "ar", "er", "ir")


def language_of(tokens: Sequence[Token]) -> str:
    """Which of "en" and "es"; empty where the words do not tell."""
    counts = {
        name: sum(vocabulary(name).knows(token.fold) for token in tokens if token.kind == "word" and not token.name)
        for name in ("en", "es")
    }
    counts["es"] += sum(any(sign in "áéíóúñ" for sign in token.text.casefold()) for token in tokens)
    for name in counts:
        known = vocabulary(name)
        counts[name] += sum((token.fold,) in known.phrases or token.fold in known.dropped for token in tokens)
    if counts["en"] == counts["es"]:
        words = [token.fold for token in tokens if token.kind == "word"]
        counts["es"] += 2 * sum(word.endswith(_SPANISH) for word in words)
        counts["en"] += len(words)
    if counts["en"] == counts["es"]:
        return ""
    return max(counts, key=lambda name: counts[name])
