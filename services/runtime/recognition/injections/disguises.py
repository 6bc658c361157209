"""Finds text that its reader is not meant to see or to understand, and says what a model would read in it."""

import base64
import binascii
import codecs
import html
import re
import urllib.parse
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

# Of what is hidden only the beginning is read.
_MAX_RUN_CHARS, _MAX_PLAIN_CHARS = 20_000, 4_000
# Base64 in Base64 is still read.
_MAX_DEPTH = 2
_LEAST_LETTERS = 0.8

_TAGS = re.compile("(?<!\U0001f3f4)[\U000e0020-\U000e007f]{6,}")
_SELECTORS = re.compile("[\ufe00-\ufe0f\U000e0100-\U000e01ef]{6,}")
_NO_WIDTH = re.compile("[\u200b-\u200f\u2060-\u2064\ufeff\u180e]{8,}")
# Between one letter and the next, over and over: nobody's writing needs it, and no word is found in it.
_SPRINKLED = re.compile("(?:[A-Za-z\u00c0-\u024f ][\u200b-\u200d\u2060-\u2064\ufeff]{1,3}){6,}[A-Za-z\u00c0-\u024f]?")
_NO_ROOM = re.compile("[\u200b-\u200d\u2060-\u2064\ufeff]")
# Any of these and of `_TURNED`: most texts have none.
ANY_UNSEEN = re.compile(
    "[\u180e\u200b-\u200f\u202d\u202e\u2060-\u2064\ufe00-\ufe0f\ufeff\U000e0020-\U000e007f\U000e0100-\U000e01ef]"
)
_TURNED = re.compile("[\u202d\u202e]([^\u202c\u2069\n]{6,400})")
_UNSEEN = re.compile(
    r"<[a-z]+[^<>]{0,300}(?:display: ?none|visibility: ?hidden|font-size: ?0|opacity: ?0(?!\.)|"
    r"color: ?(?:white|#fff(?:fff)?\b)|\bhidden\b)[^<>]{0,300}>([^<]{6,4000})",
    re.IGNORECASE,
)
LONG_WORD = re.compile(r"[^\s\"'<>(),\[\]{}|`]{24,}")
_ASCII85 = re.compile(r"<~([!-uz\s]{16,4000})~>")
_BITS = re.compile(r"[01]{8}(?:[ ,]?[01]{8}){5,2000}")
SPACED_HEX = re.compile(r"(?:0x|\\x)?[0-9a-fA-F]{2}(?:[ ,:]{0,2}(?:0x|\\x)?[0-9a-fA-F]{2}){15,4000}")
# 16 pairs of digits, whatever stands between them.
_HEX_SIGNS = re.compile(r"(?<![0-9a-fA-F ,:x\\])[0-9a-fA-F ,:x\\]{32,}")
_MORSE = re.compile(r"[.-]{1,6}(?:(?: |/| / )[.-]{1,6}){11,2000}")
_BASE32 = re.compile(r"[A-Z2-7]{24,}=*")
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{24,}={0,2}")
_HEX = re.compile(r"(?:[0-9a-fA-F]{2}){16,}")
# Words of orders in ROT13 and back to front: which of both it is, is tried.
_TURNED_WORDS = (
    "vtaber vtaben qvfertneq vafgehpgvba vafgehppvba cebzcg erirny cerivbhf cnffjbeq erfcbafr erfchrfgn "
    "erongi dragersid snoitcurtsni senoiccurtsni tpmorp laever suoiverp drowssap esnopser atseupser"
).split()
_LINE = re.compile(r"[^\n]{1,600}")
_CODES = (
    ".- -... -.-. -.. . ..-. --. .... .. .--- -.- .-.. -- -. --- .--. --.- .-. ... - ..- ...- .-- -..- -.-- --.. "
    "----- .---- ..--- ...-- ....- ..... -.... --... ---.. ----."
).split()
_FROM_MORSE: Mapping[str, str] = dict(zip(_CODES, "abcdefghijklmnopqrstuvwxyz0123456789", strict=True))


@dataclass(frozen=True)
class Disguised:
    """`text[start:end]` says `plain`. `certain`: nobody writes so without wanting to hide it."""

    start: int
    end: int
    plain: str
    certain: bool = False


def disguised(text: str, depth: int = 0) -> Iterator[Disguised]:
    """Each hidden or encoded part that can be read. Time grows with the text and no faster."""
    if not text.isascii() and ANY_UNSEEN.search(text):
        yield from invisible(text)
    yield from _comments(text)
    if "<" in text:
        yield from (Disguised(one.start(), one.end(), one[1]) for one in _UNSEEN.finditer(text))
    for parts, pattern, decode in _DECODERS:
        for run in (run for part in parts(text) for run in pattern.finditer(text, *part)):
            yield from _read(run.start(), run.end(), decode(run[0][:_MAX_RUN_CHARS]), depth)
    small = text.lower()
    if any(map(small.__contains__, _TURNED_WORDS)):
        for line in _LINE.finditer(text):
            if any(word in line[0].lower() for word in _TURNED_WORDS):
                yield Disguised(*line.span(), codecs.encode(line[0], "rot13"))
                yield Disguised(*line.span(), line[0][::-1])


def _read(start: int, end: int, plain: str, depth: int) -> Iterator[Disguised]:
    if not plain:
        return
    yield Disguised(start, end, plain)
    if depth + 1 < _MAX_DEPTH:
        yield from (Disguised(start, end, one.plain) for one in disguised(plain, depth + 1))


def invisible(text: str) -> Iterator[Disguised]:
    """What is said by signs that nobody sees."""
    for run in _TAGS.finditer(text):
        yield Disguised(*run.span(), "".join(chr(ord(one) - 0xE0000) for one in run[0])[:_MAX_PLAIN_CHARS], True)
    for run in _SELECTORS.finditer(text):
        octets = bytes(ord(one) - 0xFE00 if ord(one) < 0xFF00 else ord(one) - 0xE0100 + 16 for one in run[0])
        yield Disguised(*run.span(), octets.decode(errors="replace")[:_MAX_PLAIN_CHARS], True)
    yield from (Disguised(*run.span(), "", True) for run in _NO_WIDTH.finditer(text))
    for run in _SPRINKLED.finditer(text) if _NO_ROOM.search(text) else ():
        yield Disguised(*run.span(), _NO_ROOM.sub("", run[0])[:_MAX_PLAIN_CHARS], True)
    yield from (Disguised(run.start(), run.end(), run[1][::-1]) for run in _TURNED.finditer(text))


def _comments(text: str) -> Iterator[Disguised]:
    start = text.find("<!--")
    while start >= 0:
        end = text.find("-->", start)
        if end < 0:
            return
        yield Disguised(start, end + 3, text[start + 4 : min(end, start + _MAX_PLAIN_CHARS)])
        start = text.find("<!--", end)


def _of_long_word(run: str) -> str:
    if "%" in run and run.count("%") >= 6:
        return _readable(urllib.parse.unquote_to_bytes(run))
    if run.count("&#") >= 6:
        return html.unescape(run)
    if run.count("\\u") >= 6:
        return re.sub(r"\\u([0-9a-fA-F]{4})", lambda code: chr(int(code[1], 16)), run)
    for pattern, decode in ((_HEX, bytes.fromhex), (_BASE32, _base32), (_BASE64, _base64)):
        for match in pattern.finditer(run):
            try:
                if plain := _readable(decode(match[0])):
                    return plain
            except (ValueError, binascii.Error):
                continue
    return ""


def _base64(run: str) -> bytes:
    run = run.rstrip("=").translate(str.maketrans("-_", "+/"))
    run = run[:-1] if len(run) % 4 == 1 else run
    return base64.b64decode(run + "=" * (-len(run) % 4))


def _base32(run: str) -> bytes:
    run = run.rstrip("=")
    run = run[: len(run) - (len(run) % 8 in (1, 3, 6))]
    return base64.b32decode(run + "=" * (-len(run) % 8))


def _of_ascii85(run: str) -> str:
    try:
        return _readable(base64.a85decode(run, adobe=True))
    except ValueError:
        return ""


def _of_bits(run: str) -> str:
    bits = re.sub("[^01]", "", run)
    return _readable(bytes(int(bits[at : at + 8], 2) for at in range(0, len(bits) - 7, 8)))


def _of_hex(run: str) -> str:
    digits = re.sub(r"0x|\\x|[ ,:]", "", run)
    return _readable(bytes.fromhex(digits[: len(digits) // 2 * 2]))


def _of_morse(run: str) -> str:
    words = re.split(r" ?/ ?", run)
    return " ".join("".join(_FROM_MORSE.get(code, "?") for code in word.split()) for word in words)


def _readable(octets: bytes) -> str:
    """The text, or nothing where it is none."""
    text = octets[:_MAX_PLAIN_CHARS].decode(errors="replace")
    letters = sum(one.isalpha() or one == " " for one in text)
    return text if len(text) >= 8 and letters >= _LEAST_LETTERS * len(text) else ""


def long_words(text: str) -> Iterator[tuple[int, int]]:
    """Where words of 24 signs and more stand: most texts have none."""
    at = 0
    for word in text.split():
        if len(word) >= 24:
            at = text.index(word, at)
            yield at, at + len(word)
            at += len(word)


def spaced_hex(text: str) -> Iterator[tuple[int, int]]:
    """Runs of the signs of spaced hexadecimal numbers, as long as it takes to say anything."""
    if "20" in text and "65" in text:
        yield from (run.span() for run in _HEX_SIGNS.finditer(text))


def _whole(*signs: str) -> Callable[[str], Iterator[tuple[int, int]]]:
    """All of a text that has one of these signs."""
    return lambda text: iter(((0, len(text)),) if any(map(text.__contains__, signs)) else ())


# Which parts of a text are worth a pattern, the pattern, and what reads it. Nothing of a common text is worth it.
_DECODERS: Sequence[tuple[Callable[[str], Iterator[tuple[int, int]]], re.Pattern[str], Callable[[str], str]]] = (
    (long_words, LONG_WORD, _of_long_word),
    (_whole("<~"), _ASCII85, _of_ascii85),
    (_whole("011"), _BITS, _of_bits),
    (spaced_hex, SPACED_HEX, _of_hex),
    (_whole(". .", "- -", ". -", "- ."), _MORSE, _of_morse),
)
