"""Cuts one text into pieces that can be put together again without loss: sentences, rows, lines, words."""

import re

# Above this no piece is counted as a whole: it is longer than any chunk, and counting has a message limit.
LONGEST_COUNTED = 4_000

_ABBREVIATIONS = frozenset(
    "sr sra sres dr dra dña art arts núm num no nº pág págs pp ej etc vs cf fig tel avda apdo ref mr mrs ms inc ltd co"
    " corp st e.g i.e p.ej ee uu s.a s.l".split()
)
_SENTENCE_END = re.compile(r"(?<=[.!?…])[\"'”»)\]]*\s+(?=[\"'“«(\[¿¡]*[A-ZÁÉÍÓÚÑÜ0-9])|\n+")


def sentences(text: str) -> list[str]:
    """Sentences with the white space after them; joined they are `text`. None is longer than LONGEST_COUNTED."""
    pieces: list[str] = []
    start = 0
    for found in _SENTENCE_END.finditer(text):
        word = text[max(start, found.start() - 12) : found.start()].rpartition(" ")[2].lstrip("(").lower()[:-1]
        # "Art. 5", "J. Pérez", "7. Precio": no sentence ends there.
        if "\n" not in found[0] and (word in _ABBREVIATIONS or len(word) == 1 or (word.isdigit() and len(word) < 3)):
            continue
        pieces.append(text[start : found.end()])
        start = found.end()
    pieces.append(text[start:])
    return [part for piece in pieces if piece for part in bounded(piece)]


def lines(text: str) -> list[str]:
    """Lines with their ends; joined they are `text`."""
    return [part for line in text.splitlines(keepends=True) for part in bounded(line)]


def bounded(text: str) -> list[str]:
    """`text` cut between words so that no piece is longer than LONGEST_COUNTED characters."""
    pieces: list[str] = []
    start = 0
    while len(text) - start > LONGEST_COUNTED:
        cut = text.rfind(" ", start + LONGEST_COUNTED // 2, start + LONGEST_COUNTED) + 1
        cut = cut or start + LONGEST_COUNTED
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
    cut = min(cuts, key=lambda cut: abs(cut - middle)) if cuts else middle
    return [text[:cut], text[cut:]]
