"""How well a statement supports an answer to a question, as one figure of several that tell little by themselves."""

from collections.abc import Sequence
from itertools import pairwise

from services.understudy.premise import holds
from services.understudy.premise_words import FRAME, UNTOLD
from services.understudy.sql_request import without_codes
from services.understudy.words import alike, content, stem

# Fitted by logistic regression on the development half of XQuAD, Spanish and English together, to which statements hold
# the answer.
_REACH, _TOLD, _PAIRS, _WORDS, _LENGTH = 2.9, 2.9, 1.8, 1.0, 0.26
_MIN_LENGTH, _MAX_LENGTH = 5, 8


def support(question: str, text: Sequence[str], reach: float, told: float, spoken: str, read: str) -> float:
    """About 3 to 9. `text`: the statement's stems in order; `reach` and `told`: as `extract.Asked` has them, 0 to 1."""
    words = [word for word in content(without_codes(question)) if stem(word) not in FRAME and stem(word) not in UNTOLD]
    known = set(text)
    share = sum(holds(word, known, spoken, read) for word in words) / max(1, len(words))
    following = list(pairwise(text))
    pairs = sum(
        any(alike(stem(one), a) and alike(stem(other), b) for a, b in following) for one, other in pairwise(words)
    )
    together = pairs / max(1, len(words) - 1)
    return (
        _REACH * reach
        + _TOLD * told
        + _PAIRS * together
        + _WORDS * share
        + _LENGTH * max(_MIN_LENGTH, min(_MAX_LENGTH, len(words)))
    )
