"""PDF to blocks: paragraphs, headings and tables by position, size and weight of what PDFium reads."""

import re
from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from services.ingestion.parsed import Outline, Parsed, Unreadable, hidden
from services.ingestion.parsers import formats
from services.ingestion.parsers.clauses import add_paragraph, clause
from services.ingestion.parsers.pdf_lines import Line, drop, lines_of, margin_lines, with_heads
from services.ingestion.parsers.pdf_pages import HYPHEN, Page, open_document, read_page
from services.ingestion.parsers.pdf_scans import read_scans
from services.ingestion.parsers.pdf_tables import take_ruled

_BULLET = re.compile(r"[•●▪◦‣·∙*–-]\s+|[a-z]\)\s|\([a-z0-9]{1,3}\)\s|[ivx]{1,4}\)\s|\d{1,2}[.)]\s")
_PAGE_NUMBER = re.compile(
    r"(?:(?:page|página|pág\.?|p\.)\s*)?[-–—]?\s*\d{1,4}\s*[-–—]?(?:\s*(?:of|de|/)\s*\d{1,4})?", re.I
)
_NUMBER = re.compile(r"\d{1,4}")
# Drawn with characters.
_RULE = re.compile(r"([-=_*~.·•#+–—]\s?)\1{3,}")
_SENTENCE_END = (".", ":", ";", "!", "?", "…")
_LONGEST_HEADING = 150
# On average, as a share of the size.
_CHARACTER_WIDTH = 0.5
# Than the body's size, and it is a heading's.
_LARGER = 1.12
_NO_TITLES = ("untitled", "(anonymous)", "(unspecified)", "powerpoint presentation", "presentation", "document")
_PROGRAM = re.compile(r"^Microsoft (Word|Excel|PowerPoint) - ", re.I)
_IDENTIFIER = re.compile(r"\S*_\S*")
_FILE_NAME = re.compile(r"\.(docx?|xlsx?|pptx?|pdf|indd|qxd|tex|dvi|odt|rtf|txt|html?)$", re.I)


def parse_pdf(content: bytes) -> Parsed:
    """Blocks with page numbers. Raises Unreadable when it is encrypted, damaged or holds no text."""
    document = open_document(content)
    try:
        title = _title(document)
        pages = [read_page(document, index) for index in range(len(document))]
        warnings = read_scans(document, pages)
    finally:
        document.close()
    body = _body(pages)
    lines = _lines(pages, body[0])
    if not any(line.text for page in lines for line in page):
        raise Unreadable(f"The PDF holds no text on its {len(pages)} page(s).")
    parsed = _blocks(title, lines, _Styles.of(body, [line for page in lines for line in page]), warnings)
    return replace(parsed, hidden=hidden((formats.clean(text), page.number) for page in pages for text in page.unseen))


def _title(document: Any) -> str:
    title: str = " ".join(formats.clean(document.get_metadata_value("Title")).split())
    title = _PROGRAM.sub("", title)
    return "" if title.lower() in _NO_TITLES or _FILE_NAME.search(title) or _IDENTIFIER.fullmatch(title) else title


def _body(pages: list[Page]) -> tuple[float, bool]:
    """Size of most of the text, and whether that is bold."""
    weight: Counter[tuple[float, bool]] = Counter()
    for piece in (piece for page in pages for piece in page.pieces):
        weight[_rounded(piece.size), piece.bold] += len(piece.text)
    return weight.most_common(1)[0][0] if weight else (10.0, False)


def _blocks(title: str, lines: list[list[Line]], styles: "_Styles", warnings: tuple[str, ...]) -> Parsed:
    words = Counter(re.findall(r"[\w-]+", " ".join(line.text for page in lines for line in page).lower()))
    outline = Outline()
    for group in _paragraphs(lines, styles):
        _add(outline, group, styles, words)
    if not title:
        first = next((block for block in outline.blocks if block.kind == "heading" and block.page == 1), None)
        title = first.text if first and clause(first.text) is None else ""
    return Parsed(title=title, blocks=tuple(outline.blocks), page_count=len(lines), warnings=warnings)


def _lines(pages: list[Page], body_size: float) -> list[list[Line]]:
    """Lines of each page in reading order, without headers and footers; tables have their head on each page."""
    for page in pages:
        take_ruled(page)
    margins = [margin_lines(page) for page in pages]
    for page, dropped in zip(pages, _repeated(margins, body_size), strict=True):
        if dropped:
            drop(page, dropped)
    return with_heads([lines_of(page) for page in pages])


@dataclass(frozen=True)
class _Styles:
    """What is normal in this document."""

    body_size: float
    body_bold: bool
    heading_sizes: tuple[float, ...]

    @classmethod
    def of(cls, body: tuple[float, bool], lines: list[Line]) -> "_Styles":
        size, bold = body
        sizes = {_rounded(line.size) for line in lines if not line.table}
        return cls(size, bold, tuple(sorted((one for one in sizes if one > _LARGER * size), reverse=True)))

    def level(self, line: Line) -> int:
        """1 for the largest heading, 0 for ordinary text."""
        text = line.text
        if line.table or len(text) > _LONGEST_HEADING or not any(c.isalpha() for c in text):
            return 0
        size = _rounded(line.size)
        if size in self.heading_sizes:
            return min(1 + self.heading_sizes.index(size), 6)
        stands_out = line.bold and not self.body_bold and size >= self.body_size - 0.5
        return 7 if stands_out and not text.endswith((",", ";", ".")) else 0


def _rounded(size: float) -> float:
    return round(size * 2) / 2


def _repeated(margins: list[list[Line]], body_size: float) -> list[list[Line]]:
    """Page numbers, and what stands in the margins of many pages and differs by no more than the page number.

    A title that later pages repeat in small type is not among them.
    """
    seen: dict[str, set[int]] = defaultdict(set)
    large: dict[str, set[int]] = defaultdict(set)
    for line in (line for page in margins for line in page):
        for key in _margin_keys(line):
            seen[key].add(line.page)
            if line.size > _LARGER * body_size:
                large[key].add(line.page)
    needed = max(2, 0.4 * len(margins))

    def is_repeated(line: Line) -> bool:
        if _PAGE_NUMBER.fullmatch(line.text.strip()):
            return True
        counted = large if line.size > _LARGER * body_size else seen
        return any(len(counted[key]) >= needed for key in _margin_keys(line))

    return [[line for line in page if is_repeated(line)] for page in margins]


def _margin_keys(line: Line) -> list[str]:
    """The text itself, and for each number in it the text with its distance from the page's number in its place.

    "Cláusula 7" and "Cláusula 8" at the top of two pages are headings; "Contract - 2" and "Contract - 3" are not.
    """
    text = line.text.strip()
    numbers = [] if clause(text) else list(_NUMBER.finditer(text))[:10]
    offsets = (f"{text[: one.start()]}<{int(one[0]) - line.page}>{text[one.end() :]}" for one in numbers)
    return [text, *offsets]


def _paragraphs(pages: list[list[Line]], styles: _Styles) -> list[list[Line]]:
    groups: list[list[Line]] = []
    for page in pages:
        page = [line for line in page if not _RULE.fullmatch(line.text)]
        gap = _usual_gap(page)
        for line in page:
            previous = groups[-1][-1] if groups else None
            if previous is None or _begins(line, previous, gap, styles):
                groups.append([])
            groups[-1].append(line)
    return groups


def _usual_gap(page: list[Line]) -> float:
    gaps = [above.bottom - below.bottom for above, below in pairwise(page) if not (above.table or below.table)]
    gaps = sorted(gap for gap in gaps if gap > 1)
    # Lines within paragraphs, which are the nearest to each other, and not the gaps between them.
    return gaps[len(gaps) // 3] if gaps else 0


def _begins(line: Line, previous: Line, gap: float, styles: _Styles) -> bool:
    """Whether `line` begins a paragraph."""
    if line.table or previous.table or _BULLET.match(line.text):
        return True
    full, ended = _is_full(previous, line), previous.text.endswith(_SENTENCE_END)
    # "… according to / Article 5": a full line goes on in the next one.
    goes_on = full and not ended and line.page == previous.page
    if clause(line.text) is not None and not (goes_on and line.bold == previous.bold):
        return True
    distance = previous.bottom - line.bottom
    level, level_before = styles.level(line), styles.level(previous)
    if level or level_before:
        return level != level_before or not _is_one_heading(line, previous, distance, full)
    if previous.text.endswith((HYPHEN, "-")) and line.text[:1].islower():
        return False
    if line.page != previous.page or distance < -1:
        # The next page or column.
        return ended or not line.text[:1].islower()
    if gap and distance > (1.2 if ended else 1.6) * gap:
        return True
    return ended and not full


def _is_one_heading(line: Line, previous: Line, distance: float, full: bool) -> bool:
    """A heading of several lines is full or centred, and set in one type."""
    if line.bold != previous.bold or abs(line.size - previous.size) > 0.6 or not 0 < distance < 1.8 * line.size:
        return False
    centres = (line.left + line.right - previous.left - previous.right) / 2
    centred = abs(centres) < 3 and abs(line.left - previous.left) > 3
    return full or (centred and line.size > previous.size - 0.6 and not line.text[:1].isdigit())


def _is_full(line: Line, after: Line) -> bool:
    """Whether the first word of the next line would not have found room at the end of this one."""
    word = after.text.split(" ", 1)[0]
    return line.right + _CHARACTER_WIDTH * line.size * (len(word) + 1) > line.column_right


def _add(outline: Outline, group: list[Line], styles: _Styles, words: Counter[str]) -> None:
    first = group[0]
    if first.table:
        outline.add(formats.clean(_joined_hyphens(first.text, words)), "table", first.page)
        return
    # A full line is a broken sentence, a short one is a line of its own (addresses, rows of figures).
    text = first.text
    for before, line in pairwise(group):
        broken = before.text.endswith((HYPHEN, "-")) and line.text[:1].islower()
        text += (" " if broken or _is_full(before, line) else "\n") + line.text
    text = formats.clean(_joined_hyphens(text, words))
    level = styles.level(first)
    if len(text) > _LONGEST_HEADING:
        level = 0  # a page set in large type throughout, such as a form
    if clause(text) is None and level:
        outline.heading(level, text, first.page)
    elif _BULLET.match(text) and clause(text) is None:
        outline.add(text, "list", first.page)
    else:
        add_paragraph(outline, text, first.page)


def _joined_hyphens(text: str, words: Counter[str]) -> str:
    """Words broken at a line's end put together. The hyphen stays where the document writes the word with one."""

    def join(found: re.Match[str]) -> str:
        left, right = found[1], found[2]
        plain, hyphened = left + right, f"{left}-{right}"
        keep = not right[:1].islower() or words[hyphened.lower()] > words[plain.lower()]
        return hyphened if keep else plain

    return re.sub(rf"(\w+)(?:{HYPHEN}|\u00ad\s|-\s(?=[a-zà-ÿ]))\s*(\w+)", join, text).replace(HYPHEN, "-")
