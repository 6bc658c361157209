"""Cuts a text into sentences, each with its place; what has no end is cut at a blank."""

import re
from collections.abc import Iterator

# Longer ones are cut, so that the words of one order stand together and those of a whole page do not.
MAX_CHARS = 400
# A line that goes on in small letters was broken where the page ends, unless it says who speaks.
_GOES_ON = r"[ \t]*(?!(?:system|assistant|developer|user|sistema|asistente)(?: \w+)? ?:)[a-zà-öø-ÿ]"
# It begins with one set of signs, which is looked for many times faster than one of three expressions.
_FULL, _BREAK = r".!?…。", r"\n\r\x0b\x0c\x85\u2028\u2029"
END = re.compile(
    rf"[{_FULL}{_BREAK}|](?:(?<=[{_FULL}])[{_FULL}]*[\"'”»)\]*_]*(?=\s)"
    rf"|(?<=[{_BREAK}])[{_BREAK}]*(?!{_GOES_ON})|(?<=\|)(?=\s))"
)


def sentences(text: str) -> Iterator[tuple[int, int]]:
    """Spans of the sentences that hold more than blanks, in order."""
    start = 0
    for match in END.finditer(text):
        end = match.end()
        if end - start < 2 and not text[start:end].strip():
            start = end
            continue
        yield from _pieces(text, start, end)
        start = end
    yield from _pieces(text, start, len(text))


def _pieces(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    while end - start > MAX_CHARS:
        cut = text.rfind(" ", start + MAX_CHARS // 2, start + MAX_CHARS) + 1 or start + MAX_CHARS
        yield start, cut
        start = cut
    if not text[start:end].isspace() and start < end:
        yield start, end
