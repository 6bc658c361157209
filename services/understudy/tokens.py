"""Counts tokens about as a byte-pair tokenizer of the Llama 3 family does, without its vocabulary."""

import re
from collections import Counter
from functools import lru_cache

_PIECE = re.compile(r"[^\W\d_]+|\d{1,3}|[^\w\s]|_|\n+")
# Spanish and English words are about one token up to six letters, and one more for every five after.
_SHORT, _STEP = 6, 5


# Prompts repeat the same instructions, tools and passages turn after turn.
@lru_cache(maxsize=1024)
def count_tokens(text: str) -> int:
    """About how many tokens a text is; within a fifth of the real count for Spanish and English prose."""
    lengths = Counter(map(len, _PIECE.findall(text)))
    return sum(_of_length(length) * count for length, count in lengths.items())


def _of_length(length: int) -> int:
    return 1 if length <= _SHORT else 1 + (length - _SHORT + _STEP - 1) // _STEP
