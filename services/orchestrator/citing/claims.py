"""Takes an answer apart: sentences, the marks in them, and what each mark stands behind."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

# `[1]`, and `[1, 4]` as some models write it. Four digits are a year in brackets, not a mark.
# Bounded, so that no text is held back for long.
MARK = re.compile(r"\[ ?(\d{1,3}(?: ?, ?\d{1,3}){0,7}) ?\]")
_BETWEEN = r"[ ,;]{0,2}"
# Marks in a row stand behind the same words.
MARKS = re.compile(rf"{MARK.pattern}(?:{_BETWEEN}{MARK.pattern}){{0,7}}")
# A sentence ends at its stop, with the quotation marks and marks behind it, if nothing in lower case follows; and at a
# line's end.
_END = re.compile(rf"[.!?…][\"»”’)*_]*(?:\s?{MARK.pattern}){{0,8}}(?=\s+(?:[^\sa-zà-ÿ]|$))|\n+")
_WORDY = re.compile(r"[^\W_]")


@dataclass(frozen=True)
class Claim:
    """What an answer says before `marks`, or in a sentence without any."""

    text: str
    marks: tuple[int, ...]


def numbers(marks: str) -> tuple[int, ...]:
    """The numbers of marks in a row, each once, in order."""
    return tuple(dict.fromkeys(int(number) for number in re.findall(r"\d+", marks)))


def pieces(text: str) -> list[str]:
    """The text cut behind each sentence: together they are the text."""
    cuts = [0, *(match.end() for match in _END.finditer(text)), len(text)]
    return [text[start:end] for start, end in pairwise(cuts) if start < end]


def sentences(text: str) -> Iterator[str]:
    """The sentences of a text, marks included."""
    start = 0
    for match in _END.finditer(text):
        if text[start : match.end()].strip():
            yield text[start : match.end()].strip()
        start = match.end()
    if text[start:].strip():
        yield text[start:].strip()


def claims(sentence: str) -> Iterator[Claim]:
    """What each of the sentence's marks stands behind: the words since the mark before, or those that follow it."""
    whole = MARKS.sub(" ", sentence)
    start = 0
    for match in MARKS.finditer(sentence):
        before = sentence[start : match.start()]
        yield Claim(_claimed(before) or whole.strip(), numbers(match.group()))
        start = match.end()


def claim_before(text: str) -> str:
    """What a mark that comes now stands behind; empty where what it is about has yet to come."""
    last = ""
    for sentence in sentences(text):
        last = sentence
    pieces = [piece for piece in MARKS.split(last) if piece and not re.fullmatch(r"\d[\d, ]*", piece)]
    for piece in reversed(pieces):
        if _WORDY.search(piece):
            return _claimed(piece)
    return ""


def _claimed(piece: str) -> str:
    """The piece, if it has more than a word or two: `According to [1], …` says nothing yet."""
    piece = piece.strip(" ,;:–—-\n")
    return piece if len(re.findall(r"\w+", piece)) >= _LEAST_WORDS or re.search(r"\d", piece) else ""


_LEAST_WORDS = 4
