"""RTF to blocks."""

import re
from collections.abc import Callable, Iterator
from typing import cast

from striprtf import striprtf

from services.ingestion.parsed import Outline, Parsed, Unreadable, table
from services.ingestion.parsers.clauses import add_paragraph
from services.ingestion.parsers.text_encoding import clean
from services.ingestion.parsers.titles import own_title

_CODE_PAGE = re.compile(rb"\\ansicpg(\d{3,5})")
_TITLE = re.compile(r"{\\title\s([^{}]{1,300})}")
_ROWS = re.compile(r"(?:^[^\n]*\|[ \t]*(?:\n|\Z))+", re.M)
_PARAGRAPH_ENDS = re.compile(r"\\par(?![a-z])")
# A sign for private use stands for the mark that the converter would drop.
_HEADING = "\ue0b7"
_STYLE_SHEET = re.compile(r"{\\stylesheet(?:[^{}]|{(?:[^{}]|{[^{}]*})*})*}")
_STYLE = re.compile(r"{(?:[^{}]|{[^{}]*})*}")
_NUMBER, _LEVEL = re.compile(r"\\s(\d+)"), re.compile(r"\\outlinelevel([0-8])(?!\d)")
_NAMED = re.compile(
    r"[\s}](?:(?P<title>Title|Puesto|Titel|Titre)|(?:heading|título|encabezado|überschrift|titre) (?P<level>[1-9]));",
    re.I,
)
_MARKS = re.compile(f"(?:{_HEADING}([0-9])\\s*)+")
# Pictures are written as long runs of hexadecimal digits; the converter would go through each of them.
_PICTURES = re.compile(r"(?:[0-9a-fA-F]{60,}\s*)+")


def parse_rtf(content: bytes) -> Parsed:
    """Blocks of a rich text; its rows of tables become tables, paragraphs with an outline level headings."""
    found = _CODE_PAGE.search(content[:2000])
    encoding = f"cp{found[1].decode()}" if found else "cp1252"
    source = _PICTURES.sub("", content.decode("latin-1"))
    # The converter does not tell a paragraph of a cell from one of the text.
    source = "".join(
        _PARAGRAPH_ENDS.sub(r"\\tab ", part) if number % 2 else part for number, part in enumerate(_by_rows(source))
    )
    source = _with_headings(source)
    rtf_to_text = cast(Callable[..., str], striprtf.rtf_to_text)  # pyright: ignore[reportUnknownMemberType]
    try:
        text = clean(rtf_to_text(source, encoding=encoding, errors="replace"))
    except LookupError:
        text = clean(rtf_to_text(source, encoding="cp1252", errors="replace"))
    except (ValueError, IndexError, TypeError, OverflowError):
        raise Unreadable("The rtf is damaged: its text cannot be read.") from None
    outline = Outline()
    start = 0
    for rows in _ROWS.finditer(text):
        _add_paragraphs(outline, text[start : rows.start()])
        cells = [row.rstrip().removesuffix("|").split("|") for row in rows[0].strip("\n").split("\n")]
        outline.add(table(cells).replace(_HEADING, ""), "table")
        start = rows.end()
    _add_paragraphs(outline, text[start:])
    title = _TITLE.search(source[:100_000])
    return Parsed(title=own_title(title[1]) if title and "\\" not in title[1] else "", blocks=tuple(outline.blocks))


def _by_rows(source: str) -> Iterator[str]:
    """Text outside of tables and rows of tables, in turn."""
    place = 0
    while (begin := source.find("\\trowd", place)) >= 0 and (end := source.find("\\row", begin)) >= 0:
        yield source[place:begin]
        yield source[begin:end]
        place = end
    yield source[place:]


def _with_headings(source: str) -> str:
    """With a mark before each paragraph that has an outline level, by itself or by its style."""
    sheet = _STYLE_SHEET.search(source)
    levels: dict[str, int] = {}
    for style in _STYLE.findall(sheet[0][1:-1]) if sheet else ():
        number, level, named = _NUMBER.search(style), _LEVEL.search(style), _NAMED.search(style)
        if number and (level or named):
            levels[number[1]] = int(level[1]) + 1 if level else int(named["level"] or 0) if named else 0
    start = sheet.end() if sheet else 0
    body = _LEVEL.sub(lambda found: f"\\u{ord(_HEADING)}?{int(found[1]) + 1}", source[start:])
    body = re.sub(
        r"\\s(\d+)(?!\d)",
        lambda found: f"{found[0]}\\u{ord(_HEADING)}?{levels[found[1]]} " if found[1] in levels else found[0],
        body,
    )
    return source[:start] + body


_BULLET = re.compile(r"\s*[\uf0b7\uf0a7\uf076·•▪◦]\s*")


def _add_paragraphs(outline: Outline, text: str) -> None:
    """Each line is a paragraph."""
    for line in text.split("\n"):
        words = line.strip()
        if found := _MARKS.match(words):
            outline.heading(1 + int(found[1]), words[found.end() :])
        elif found := _BULLET.match(line):
            outline.add(f"- {line[found.end() :].strip()}", "list")
        else:
            add_paragraph(outline, words)
