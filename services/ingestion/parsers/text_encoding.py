"""Bytes to clean text: tells the encoding, refuses what is no text, and drops what no store or model can hold."""

import re
import unicodedata
from dataclasses import dataclass

from charset_normalizer import from_bytes

from services.ingestion.parsed import Unreadable

# Of 1,000 characters of prose in any script fewer than this many are controls.
_LEAST_PRINTABLE = 0.97
_SAMPLE_BYTES = 64 * 1024
_MARKS = (
    (b"\xef\xbb\xbf", "utf-8"),
    (b"\xff\xfe\0\0", "utf-32-le"),
    (b"\0\0\xfe\xff", "utf-32-be"),
    (b"\xff\xfe", "utf-16-le"),
    (b"\xfe\xff", "utf-16-be"),
)
# Tried, in this order where they are equally plausible, when a text is neither UTF-8 nor Western European.
_OTHERS = ("cp932", "cp1251", "gb18030", "big5", "euc_kr", "euc_jp", "cp1250", "cp1253", "koi8_r")
# What Western European texts consist of beyond ASCII; the rest of Windows-1252 is mostly a sign of another encoding.
_WESTERN = re.compile("[A-Za-zÀ-ÖØ-öø-ÿŒœŠšŽžŸ€‘’‚“”„–—…•™«»¡¿§©®°±²³µ·ºª¼½¾×\u00a0´`¨£¥¢‹›†%]")
_LETTERS_IN_A_ROW = re.compile("[À-ÖØ-öø-ÿŒœŠšŽžŸ]{3,}")


@dataclass(frozen=True)
class Text:
    """A decoded text. `guessed` names the encoding when nothing in the file says it: it may be wrong."""

    text: str
    guessed: str = ""

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the sender should know."""
        return (f"The text is not UTF-8; it was read as {self.guessed}.",) if self.guessed else ()


def decode(content: bytes, *, cut: bool = False) -> str:
    """Text by byte order mark, else UTF-8, else the most plausible older encoding. Raises Unreadable for noise.

    `cut`: the end may be in the middle of a character.
    """
    return read(content, cut=cut).text


def read(content: bytes, *, cut: bool = False) -> Text:
    """As `decode`, with the name of the encoding where it had to be guessed."""
    for mark, encoding in _MARKS:
        if content.startswith(mark):
            return Text(_checked(content[len(mark) :].decode(encoding, "replace")))
    try:
        return Text(_checked(content.decode("utf-8")))
    except UnicodeDecodeError as error:
        if cut and error.start >= len(content) - 3:
            return Text(_checked(content[: error.start].decode("utf-8")))
    if wide := _without_mark(content):
        return Text(_checked(content.decode(wide, "replace")), wide)
    encoding = _guess(content)
    return Text(_checked(content.decode(encoding, "replace")), encoding)


def _without_mark(content: bytes) -> str:
    """UTF-16 without a mark: every other byte of Western text is zero."""
    sample = content[:_SAMPLE_BYTES]
    half = max(1, len(sample) // 2)
    if len(sample) >= 4 and sample[1::2].count(0) > 0.4 * half and sample[::2].count(0) < 0.05 * half:
        return "utf-16-le"
    if len(sample) >= 4 and sample[::2].count(0) > 0.4 * half and sample[1::2].count(0) < 0.05 * half:
        return "utf-16-be"
    return ""


def _guess(content: bytes) -> str:
    """An 8-bit or East Asian encoding. Western text has single accents within words, others have runs of signs."""
    sample = content[:_SAMPLE_BYTES]
    western = sample.decode("cp1252", "replace")
    beyond = [character for character in western if character > "\x7f"]
    odd = sum(not _WESTERN.match(character) for character in beyond)
    in_rows = sum(len(run) for run in _LETTERS_IN_A_ROW.findall(western))
    if odd <= 0.1 * len(beyond) and in_rows <= 0.3 * len(beyond):
        return "cp1252"
    found = list(from_bytes(sample, cp_isolation=["cp1252", *_OTHERS], enable_fallback=False))
    best = min(found, key=lambda match: (match.chaos, -match.coherence, _rank(match.encoding)), default=None)
    if best is None and sample.count(0):
        raise Unreadable("The encoding of the text cannot be told; save it as UTF-8.")
    return best.encoding if best else "cp1252"


def _rank(encoding: str) -> int:
    return _OTHERS.index(encoding) if encoding in _OTHERS else len(_OTHERS)


_CHARSET = re.compile(rb"<(?:meta|\?xml)[^>]{0,200}?(?:charset|encoding)\s*=\s*[\"']?\s*([\w-]{3,40})", re.I)


def decode_html(content: bytes) -> str:
    """Text of a page in the encoding that it declares, where that works; else as `decode`."""
    declared = _CHARSET.search(content[:4096])
    if declared and not content.startswith((b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")):
        try:
            return _checked(content.decode(declared[1].decode("ascii")))
        except (LookupError, UnicodeError):
            pass
    return decode(content)


def decode_as(content: bytes, charset: str) -> str:
    """Text in the encoding that a mail part declares, where that works; else as `decode`."""
    try:
        return _checked(content.decode(charset))
    except (LookupError, UnicodeError, Unreadable):
        return decode(content)


def looks_like_text(sample: bytes) -> bool:
    """Whether `sample` is text in an encoding that `decode` reads."""
    try:
        decode(sample, cut=True)
    except (Unreadable, UnicodeError):
        return False
    return True


def _checked(text: str) -> str:
    sample = text[:100_000]
    printable = sum(character.isprintable() or character in "\t\n\r\f\v\u00a0\u3000\u200b" for character in sample)
    replaced = sample.count("\ufffd")
    if sample and (printable - replaced) / len(sample) < _LEAST_PRINTABLE:
        raise Unreadable("The encoding of the text cannot be told; save it as UTF-8.")
    return clean(text)


_SURROGATES = re.compile("[\ud800-\udfff]")
# Besides controls, marks that nobody sees but that part a word in two for whoever searches it.
_UNWANTED = re.compile("[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\xad\u200b\u2060\u2061\ud800-\udfff\ufeff\ufffe\uffff]")


def clean(text: str) -> str:
    """NFC, Unix line ends, halves of characters joined; without controls, lone surrogates and byte order marks."""
    if _SURROGATES.search(text):
        # Some extractors give the two halves of a character beyond the first plane.
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "ignore")
    text = _UNWANTED.sub("", text.replace("\r\n", "\n").replace("\r", "\n").replace("\x85", "\n"))
    return text if text.isascii() else unicodedata.normalize("NFC", text)
