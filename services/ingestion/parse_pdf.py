"""PDF to blocks: lines from PDFium, tables from pdfplumber, paragraphs and headings by position, size and weight.

PDFium reads a page in milliseconds, where pdfplumber takes tenths of a second, so the latter sees only pages with ruled
lines.
"""

import re
from collections import Counter, defaultdict
from dataclasses import dataclass
from itertools import pairwise

from services.ingestion import formats
from services.ingestion.clauses import add_paragraph, clause
from services.ingestion.parsed import Outline, Parsed, Unreadable
from services.ingestion.pdf_lines import Line, read

_BULLET = re.compile(r"[•●▪◦‣·∙–-]\s+|[a-z]\)\s|\([a-z0-9]{1,3}\)\s|[ivx]{1,4}\)\s|\d{1,2}[.)]\s")
_PAGE_NUMBER = re.compile(
    r"(?:(?:page|página|pág\.?|p\.)\s*)?[-–—]?\s*\d{1,4}\s*[-–—]?(?:\s*(?:of|de|/)\s*\d{1,4})?", re.I
)
_NUMBER = re.compile(r"\d{1,4}")
_SENTENCE_END = (".", ":", ";", "!", "?", "…")
# Outer part of a page in which repeated lines are headers and footers.
_MARGIN = 0.12
_LONGEST_HEADING = 150


def parse_pdf(content: bytes) -> Parsed:
    """Blocks with page numbers. Raises Unreadable when it is encrypted, damaged or holds no text."""
    title, pages = read(content)
    if not any(line.text for page in pages for line in page):
        raise Unreadable(
            f"The PDF holds no text on its {len(pages)} page(s); if they are scanned, run OCR over them first."
        )
    pages = _without_repeated(pages, _Styles.of([line for page in pages for line in page]).body_size)
    words = Counter(re.findall(r"[\w-]+", " ".join(line.text for page in pages for line in page).lower()))
    styles = _Styles.of([line for page in pages for line in page])
    outline = Outline()
    for group in _paragraphs(pages, styles):
        _add(outline, group, styles, words)
    if not title:
        first = next((block for block in outline.blocks if block.kind == "heading" and block.page == 1), None)
        title = first.text if first and clause(first.text) is None else ""
    return Parsed(title=title, blocks=tuple(outline.blocks), page_count=len(pages))


@dataclass(frozen=True)
class _Styles:
    """What is normal in this document."""

    body_size: float
    body_bold: bool
    heading_sizes: tuple[float, ...]

    @classmethod
    def of(cls, lines: list[Line]) -> "_Styles":
        weight: Counter[tuple[float, bool]] = Counter()
        for line in lines:
            weight[round(line.size * 2) / 2, line.bold] += len(line.text)
        (size, bold), _ = weight.most_common(1)[0] if weight else ((10.0, False), 0)
        larger = sorted({s for s, _ in weight if s > 1.12 * size}, reverse=True)
        return cls(size, bold, tuple(larger))

    def level(self, line: Line) -> int:
        """1 for the largest heading, 0 for ordinary text."""
        text = line.text
        if line.table or len(text) > _LONGEST_HEADING or not any(c.isalpha() for c in text):
            return 0
        size = round(line.size * 2) / 2
        if size in self.heading_sizes:
            return min(1 + self.heading_sizes.index(size), 6)
        stands_out = line.bold and not self.body_bold and size >= self.body_size - 0.5
        return 7 if stands_out and not text.endswith((",", ";", ".")) else 0


def _without_repeated(pages: list[list[Line]], body_size: float) -> list[list[Line]]:
    """Drops page numbers, and what stands in the margins of many pages and differs by no more than the page number.

    A title that later pages repeat in small type stays.
    """
    seen: dict[str, set[int]] = defaultdict(set)
    large: dict[str, set[int]] = defaultdict(set)
    for line in (line for page in pages for line in page):
        for key in _margin_keys(line):
            seen[key].add(line.page)
            if line.size > 1.12 * body_size:
                large[key].add(line.page)
    needed = max(2, 0.4 * len(pages))

    def kept(line: Line) -> bool:
        keys = _margin_keys(line)
        if keys and _PAGE_NUMBER.fullmatch(line.text.strip()):
            return False
        counted = large if line.size > 1.12 * body_size else seen
        return all(len(counted[key]) < needed for key in keys)

    return [[line for line in page if kept(line)] for page in pages]


def _margin_keys(line: Line) -> list[str]:
    """The text itself, and for each number in it the text with its distance from the page's number in its place.

    "Cláusula 7" and "Cláusula 8" at the top of two pages are headings; "Contract - 2" and "Contract - 3" are not.
    """
    if line.table or _MARGIN < line.middle < 1 - _MARGIN:
        return []
    text = line.text.strip()
    numbers = [] if clause(text) else list(_NUMBER.finditer(text))[:10]
    offsets = (f"{text[: one.start()]}<{int(one[0]) - line.page}>{text[one.end() :]}" for one in numbers)
    return [text, *offsets]


def _paragraphs(pages: list[list[Line]], styles: _Styles) -> list[list[Line]]:
    groups: list[list[Line]] = []
    for page in pages:
        gap = _usual_gap(page)
        right = max((line.right for line in page), default=0)
        for line in page:
            previous = groups[-1][-1] if groups else None
            if previous is None or _begins(line, previous, gap, right, styles):
                groups.append([])
            groups[-1].append(line)
    return groups


def _usual_gap(page: list[Line]) -> float:
    gaps = [above.bottom - below.first_bottom for above, below in pairwise(page)]
    gaps = sorted(gap for gap in gaps if gap > 1)
    # Lines within paragraphs, which are the nearest to each other, and not the gaps between them.
    return gaps[len(gaps) // 3] if gaps else 0


def _begins(line: Line, previous: Line, gap: float, right: float, styles: _Styles) -> bool:
    """Whether `line` begins a paragraph."""
    if line.table or previous.table or _BULLET.match(line.text):
        return True
    # "… according to / Article 5": a full line goes on in the next one.
    goes_on = previous.right > 0.8 * right and not previous.text.endswith(_SENTENCE_END) and line.page == previous.page
    if clause(line.text) is not None and not (goes_on and line.bold == previous.bold):
        return True
    level, level_before = styles.level(line), styles.level(previous)
    if level or level_before:
        return level != level_before
    if line.page != previous.page:
        return previous.text.endswith(_SENTENCE_END) or not line.text[:1].islower()
    distance = previous.bottom - line.first_bottom
    ended = previous.text.endswith(_SENTENCE_END)
    if distance < -1 or (gap and distance > (1.2 if ended else 1.6) * gap):
        return True
    return ended and previous.right < 0.75 * right


def _add(outline: Outline, group: list[Line], styles: _Styles, words: Counter[str]) -> None:
    first = group[0]
    if first.table:
        outline.add(first.text, "table", first.page)
        return
    # A full line is a broken sentence, a short one is a line of its own (addresses, rows of figures).
    right = max(line.right for line in group)
    text = first.text
    for before, line in pairwise(group):
        text += (" " if before.right > 0.8 * right else "\n") + line.text
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
    """PDFium marks a hyphen at a line's end by U+FFFE. It stays where the document writes the word with a hyphen."""

    def join(found: re.Match[str]) -> str:
        left, right = found[1], found[2]
        plain, hyphened = left + right, f"{left}-{right}"
        keep = not right[:1].islower() or words[hyphened.lower()] > words[plain.lower()]
        return hyphened if keep else plain

    return re.sub(r"(\w+)[\ufffe\x02]\s*(\w+)", join, text)
