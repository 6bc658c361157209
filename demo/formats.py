"""Turns Markdown into the four kinds of file that the demo's documents come in, with the same bytes every time."""

import html
import io
import re
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

import docx
from docx.document import Document
from docx.text.paragraph import Paragraph as DocxParagraph
from fpdf import FPDF
from markdown_it import MarkdownIt
from markdown_it.tree import SyntaxTreeNode

# The files' own dates; the clock would change their bytes.
_WRITTEN = datetime(2026, 6, 30, 9, 0, tzinfo=UTC)


@dataclass
class Block:
    """A piece of a document. `kind` is `h1`, `h2`, `paragraph`, `list` or `table`; texts may hold **bold**."""

    kind: str
    texts: list[str] = field(default_factory=list[str])
    rows: list[list[str]] = field(default_factory=list[list[str]])


def blocks(markdown: str) -> Iterator[Block]:
    """The document's pieces in order."""
    for node in SyntaxTreeNode(MarkdownIt().enable("table").parse(markdown)):
        match node.type:
            case "heading":
                yield Block(node.tag, [_text(node)])
            case "bullet_list":
                yield Block("list", [_text(item) for item in node])
            case "table":
                yield Block("table", rows=[[_text(cell) for cell in row] for part in node for row in part])
            case _:
                yield Block("paragraph", [_text(node)])


def _text(node: SyntaxTreeNode) -> str:
    return next(part.content for part in node.walk() if part.type == "inline").replace("\n", " ")


def to_markdown(markdown: str, title: str, language: str) -> bytes:
    """The text itself."""
    return markdown.encode()


def to_html(markdown: str, title: str, language: str) -> bytes:
    """A page with what surrounds a text in an intranet: navigation above, a footer below."""
    menu = ("Inicio", "Documentos", "Contacto") if language == "es" else ("Home", "Documents", "Contact")
    links = "".join(f'<li><a href="/{word.lower()}">{word}</a></li>' for word in menu)
    body = MarkdownIt().enable("table").render(markdown)
    return (
        f'<!DOCTYPE html>\n<html lang="{language}">\n<head><meta charset="utf-8"><title>{html.escape(title)}</title>'
        "<style>body{font-family:sans-serif;max-width:44em;margin:auto}td,th{border:1px solid;padding:.3em}</style>"
        f"</head>\n<body>\n<nav><ul>{links}</ul></nav>\n<main>\n{body}</main>\n<footer>Intranet demo</footer>\n"
        "</body>\n</html>\n"
    ).encode()


class _Page(FPDF):
    """A page with the title above and its number below, as printed contracts have."""

    def __init__(self, title: str, language: str) -> None:
        super().__init__()
        # The built-in fonts then have the euro sign and typographic quotes, and no font file is needed.
        self.core_fonts_encoding = "cp1252"
        self.set_creation_date(_WRITTEN)
        self.set_lang(language)
        self.set_title(title)
        self.set_margins(22, 20)
        self.set_auto_page_break(True, 20)
        self._running_title = title

    def header(self) -> None:
        if self.page_no() > 1:
            self.set_font("Helvetica", "I", 8)
            self.cell(0, 6, self._running_title, new_x="LMARGIN", new_y="NEXT")
            self.ln(3)

    def footer(self) -> None:
        self.set_y(-15)
        self.set_font("Helvetica", size=8)
        self.cell(0, 6, str(self.page_no()), align="C")


def to_pdf(markdown: str, title: str, language: str) -> bytes:
    """A4 pages with text that can be extracted."""
    page = _Page(title, language)
    page.add_page()
    for block in blocks(markdown):
        _draw(page, block)
        page.ln(2)
    return bytes(page.output())


def _draw(page: FPDF, block: Block) -> None:
    sizes = {"h1": 16, "h2": 12}
    page.set_font("Helvetica", "B" if block.kind in sizes else "", sizes.get(block.kind, 10))
    if block.kind == "table":
        with page.table(width=166, line_height=6, text_align="LEFT") as table:
            for row in block.rows:
                table.row(row)
    for text in block.texts:
        text = f"- {text}" if block.kind == "list" else text
        page.multi_cell(
            0, 7 if block.kind in sizes else 5, text, markdown=True, align="L", new_x="LMARGIN", new_y="NEXT"
        )


def to_docx(markdown: str, title: str, language: str) -> bytes:
    """A Word file with heading styles, lists and tables."""
    document = docx.Document()
    core = document.core_properties
    core.title, core.language, core.author = title, language, "Alisal Demo"
    core.created = core.modified = _WRITTEN
    for block in blocks(markdown):
        _add(document, block)
    written = io.BytesIO()
    document.save(written)
    return _with_fixed_times(written.getvalue())


def _add(document: Document, block: Block) -> None:
    if block.kind == "table":
        table = document.add_table(len(block.rows), len(block.rows[0]), style="Table Grid")
        for row, texts in zip(table.rows, block.rows, strict=True):
            for cell, text in zip(row.cells, texts, strict=True):
                cell.text = text
        document.add_paragraph()
    styles = {"h1": "Title", "h2": "Heading 1", "list": "List Bullet"}
    for text in block.texts:
        _write_runs(document.add_paragraph(style=styles.get(block.kind)), text)


def _write_runs(paragraph: DocxParagraph, text: str) -> None:
    for index, part in enumerate(re.split(r"\*\*", text)):
        if part:
            paragraph.add_run(part).bold = True if index % 2 else None


def _with_fixed_times(archive: bytes) -> bytes:
    """A DOCX is a ZIP whose entries carry the time of writing."""
    written = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(archive)) as source, zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as target:
        for name in source.namelist():
            entry = zipfile.ZipInfo(name, _WRITTEN.timetuple()[:6])
            entry.compress_type = zipfile.ZIP_DEFLATED
            target.writestr(entry, source.read(name))
    return written.getvalue()


WRITERS: Mapping[str, Callable[[str, str, str], bytes]] = {
    "md": to_markdown,
    "html": to_html,
    "pdf": to_pdf,
    "docx": to_docx,
}
