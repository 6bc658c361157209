"""Plain text to blocks: paragraphs by blank lines, clauses by their numbers."""

import re

from services.ingestion.parsed import Outline, Parsed
from services.ingestion.parsers.clauses import add_paragraph, clause

_WRAPPED = 60
_PARAGRAPHS = re.compile(r"\n[ \t]*(?:\n[ \t]*)+|\f")


def parse_text(text: str) -> Parsed:
    """Blocks of a plain text. It has no title of its own."""
    outline = Outline()
    for paragraph in _PARAGRAPHS.split(text):
        for piece in _by_clause(paragraph):
            add_paragraph(outline, piece)
    return Parsed(blocks=tuple(outline.blocks))


def _goes_on(line: str) -> bool:
    """Whether a line was broken for its length: "… according to / Article 5" begins no clause."""
    return len(line) > _WRAPPED and not line.rstrip().endswith((".", ":", ";", "!", "?"))


def _by_clause(paragraph: str) -> list[str]:
    """A paragraph is cut before each line that begins a clause: contracts often have no blank lines."""
    pieces: list[list[str]] = [[]]
    for line in paragraph.split("\n"):
        if pieces[-1] and clause(line.lstrip()) is not None and not _goes_on(pieces[-1][-1]):
            pieces.append([])
        pieces[-1].append(line)
        # The title of a clause stands alone; what follows is its text.
        if len(pieces[-1]) == 1 and (found := clause(line.lstrip())) is not None and found.whole:
            pieces.append([])
    return ["\n".join(piece) for piece in pieces if piece]
