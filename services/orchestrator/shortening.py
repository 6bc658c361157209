"""Makes texts shorter without changing what is left: no word and no number is cut in two."""

import re
import unicodedata
from functools import lru_cache

_SENTENCE_END = re.compile(r"[.!?…][\"»”')\]]*(?=\s)")
_MARK = "…"
_ARTICLES = frozenset("the a an el la los las lo un una unos unas".split())
_ACCENT = re.compile("[\u0300-\u036f]+")
# Those that change nothing; a minus, a currency or a `<` does.
_SIGNS = ".,;:!?\"'()[]{}*_`«»“”‘’…—¿¡"
# Of fewer words it is no wonder that one text holds them as another does.
_MIN_WORDS = 8


def brief(text: str, max_chars: int) -> str:
    """`text`, or its first sentences, or its first words where the first sentence is too long, and then `…`."""
    if len(text) <= max_chars:
        return text
    ends = [match.end() for match in _SENTENCE_END.finditer(text, 0, max_chars + 1)]
    if ends and ends[-1] >= max_chars // 3:
        return f"{text[: ends[-1]]} {_MARK}"
    at = max_chars
    while at > 0 and not _may_end(text, at):
        at -= 1
    return text[:at].rstrip() + _MARK


def _may_end(text: str, at: int) -> bool:
    """Whether a word ends before `at`. Between digits no space ends anything: `1 250 000` is one number."""
    before, after = text[:at].rstrip()[-1:], text[at:].lstrip()[:1]
    return text[at].isspace() and not (before.isdigit() and after.isdigit())


@lru_cache(maxsize=512)  # the same passages are found again and again
def folded(text: str) -> str:
    """The words and numbers of a text, by which it is the same as another: without case, accents, signs and articles.

    Nothing else is left out: `2 %` and `3 %`, `-2` and `2`, or with and without `not`, are never the same.
    """
    plain = text.casefold()
    if not plain.isascii():
        plain = _ACCENT.sub("", unicodedata.normalize("NFKD", plain))
    words = [word.strip(_SIGNS) for word in plain.replace(" %", "%").split()]
    return " ".join([word for word in words if word and word not in _ARTICLES])


def says_the_same(text: str, other: str) -> bool:
    """Whether what `text` says is in `other`, both folded: all of it, or a part of some length."""
    return text == other or (text.count(" ") >= _MIN_WORDS - 1 and f" {text} " in f" {other} ")
