"""Cuts one text into pieces that can be put together again without loss: paragraphs, lines, sentences, words."""

import re
import unicodedata

# No sentence or line is longer: what is, is cut between words, so that one endless line is not counted as a whole.
LONGEST_COUNTED = 4_000

_ABBREVIATIONS = frozenset(
    "sr sra sres dr dra dña art arts núm num no nº pág págs pp ej etc vs cf fig tel avda apdo ref mr mrs ms inc ltd co"
    " corp st e.g i.e p.ej ee uu s.a s.l".split()
)
# Latin, Greek, Cyrillic, Arabic, Urdu and Indic ends need white space after them, Chinese and Japanese ones none.
_SENTENCE_END = re.compile(r"(?<=[.!?…؟۔।])[\"'”»)\]]*\s+|(?<=[。！？｡])[」』”’）]*[ \t　]*|\n+")
_OPENING = re.compile(r"[\"'“«(\[¿¡]*")
_WORD = re.compile(r"\S+\s*|\s+")
_JOINER = "\u200d"
_LONGEST_CHARACTER = 16


def sentences(text: str) -> list[str]:
    """Sentences with the white space after them; joined they are `text`. None is longer than LONGEST_COUNTED."""
    pieces: list[str] = []
    start = 0
    for found in _SENTENCE_END.finditer(text):
        if found.end() == start or not _ends_sentence(text, start, found):
            continue
        pieces.append(text[start : found.end()])
        start = found.end()
    pieces.append(text[start:])
    return [part for piece in pieces if piece for part in bounded(piece)]


def _ends_sentence(text: str, start: int, found: re.Match[str]) -> bool:
    if "\n" in found[0] or text[found.start() - 1] not in ".!?…؟۔।":
        return True
    following = _OPENING.match(text, found.end())
    after = text[following.end() : following.end() + 1] if following else ""
    if not after or after.islower() or not after.isalnum():
        return False
    word = text[max(start, found.start() - 12) : found.start()].rpartition(" ")[2].lstrip("(").lower()[:-1]
    # "Art. 5", "J. Pérez", "7. Precio": no sentence ends there.
    return not (word in _ABBREVIATIONS or len(word) == 1 or (word.isdigit() and len(word) < 3))


def paragraphs(text: str) -> list[str]:
    """Parts between empty lines, each with the empty lines after it; joined they are `text`."""
    pieces: list[str] = []
    start = 0
    blank = False
    at = 0
    for line in text.splitlines(keepends=True):
        if blank and line.strip():
            pieces.append(text[start:at])
            start = at
        blank = not line.strip()
        at += len(line)
    pieces.append(text[start:])
    return [part for part in pieces if part]


def lines(text: str) -> list[str]:
    """Lines with their ends; joined they are `text`. None is longer than LONGEST_COUNTED."""
    return [part for line in text.splitlines(keepends=True) for part in bounded(line)]


def words(text: str) -> list[str]:
    """Words with the white space after them; joined they are `text`."""
    return _WORD.findall(text)


def bounded(text: str) -> list[str]:
    """`text` cut between words so that no piece is longer than LONGEST_COUNTED characters."""
    pieces: list[str] = []
    start = 0
    while len(text) - start > LONGEST_COUNTED:
        cut = text.rfind(" ", start + LONGEST_COUNTED // 2, start + LONGEST_COUNTED) + 1
        cut = cut or _between_characters(text, start + LONGEST_COUNTED, start)
        pieces.append(text[start:cut])
        start = cut
    pieces.append(text[start:])
    return pieces


def halves(text: str) -> list[str]:
    """Two pieces, cut between the words nearest to the middle, or within the only word."""
    middle = len(text) // 2
    body = len(text.rstrip())
    after, before = text.find(" ", middle, body - 1), text.rfind(" ", 1, middle)
    cuts = [cut + 1 for cut in (after, before) if 0 < cut < body - 1]
    cut = min(cuts, key=lambda cut: abs(cut - middle)) if cuts else _between_characters(text, middle, 0)
    return [text[:cut], text[cut:]]


def _between_characters(text: str, cut: int, start: int) -> int:
    """`cut`, moved back to where no accent, vowel sign or joined emoji is torn from its letter."""
    for at in range(cut, max(start, cut - _LONGEST_CHARACTER), -1):
        joined = _JOINER in (text[at], text[at - 1])
        if not joined and not unicodedata.category(text[at]).startswith("M"):
            return at
    return cut
