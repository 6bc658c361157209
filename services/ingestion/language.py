"""Tells the language of a document, the same way each time."""

import re
import threading
from functools import lru_cache
from typing import Any

from langdetect import detector_factory, lang_detect_exception

_SAMPLE_CHARACTERS = 6_000
# Below this a guess is wrong too often; the collection's language is the better guess.
_LEAST_LETTERS = 40
_LEAST_PROBABILITY = 0.8
_NOT_WORDS = re.compile(r"https?://\S+|\S+@\S+|[\W\d_]+")


def detect(text: str) -> str:
    """ISO 639-1 code, or empty when `text` is too short or too mixed to tell."""
    letters = _NOT_WORDS.sub(" ", _sample(text)).strip()
    if len(letters) < _LEAST_LETTERS:
        return ""
    try:
        detector = _factory().create()
        detector.append(letters)
        guesses = detector.get_probabilities()
    except lang_detect_exception.LangDetectException:
        return ""
    if not guesses or guesses[0].prob < _LEAST_PROBABILITY:
        return ""
    return str(guesses[0].lang)[:2]  # "zh-cn" is zh


def known(code: str) -> str:
    """`code` if it is a language, else empty: what pages declare is not to be trusted."""
    return code if code in _factory().get_lang_list() else ""


def _sample(text: str) -> str:
    """Start, middle and end: a cover page or an annex may be in another language."""
    if len(text) <= _SAMPLE_CHARACTERS:
        return text
    part = _SAMPLE_CHARACTERS // 3
    middle = len(text) // 2
    return f"{text[:part]} {text[middle : middle + part]} {text[-part:]}"


_LOADING = threading.Lock()


def _factory() -> Any:
    # The library gives a second thread its languages while the first still reads them.
    with _LOADING:
        return _loaded()


@lru_cache(maxsize=1)
def _loaded() -> Any:
    # Without a seed the library draws lots, and the same document has two languages on two days.
    detector_factory.DetectorFactory.seed = 0
    detector_factory.init_factory()
    return detector_factory._factory  # pyright: ignore[reportPrivateUsage]
