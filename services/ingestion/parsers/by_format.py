"""The table from format to parser. Everything here runs inside the parsing process."""

from collections.abc import Callable
from dataclasses import replace

from services.ingestion.parsed import Parsed, Unreadable
from services.ingestion.parsers import formats, text_encoding
from services.ingestion.parsers.parse_code import parse_code
from services.ingestion.parsers.parse_csv import parse_csv
from services.ingestion.parsers.parse_doc import parse_doc
from services.ingestion.parsers.parse_docx import parse_docx
from services.ingestion.parsers.parse_eml import parse_eml
from services.ingestion.parsers.parse_epub import parse_epub
from services.ingestion.parsers.parse_html import parse_html
from services.ingestion.parsers.parse_image import parse_image
from services.ingestion.parsers.parse_ipynb import parse_ipynb
from services.ingestion.parsers.parse_json import parse_json, parse_jsonl
from services.ingestion.parsers.parse_markdown import parse_markdown
from services.ingestion.parsers.parse_msg import parse_msg
from services.ingestion.parsers.parse_odf import parse_odf
from services.ingestion.parsers.parse_pdf import parse_pdf
from services.ingestion.parsers.parse_ppt import parse_ppt
from services.ingestion.parsers.parse_pptx import parse_pptx
from services.ingestion.parsers.parse_rtf import parse_rtf
from services.ingestion.parsers.parse_sheets import parse_workbook, parse_xlsx
from services.ingestion.parsers.parse_text import parse_text
from services.ingestion.parsers.parse_xml import parse_xml
from services.ingestion.parsers.parse_yaml import parse_yaml
from services.ingestion.parsers.text_encoding import clean

# A mail in a mail in a mail; deeper ones are named, not read.
_MOST_NESTED = 3

Content = Callable[[bytes], Parsed]
_BINARY: dict[str, Content] = {
    "pdf": parse_pdf,
    "docx": parse_docx,
    "pptx": parse_pptx,
    "xlsx": parse_xlsx,
    "xls": lambda content: parse_workbook(content, "xls"),
    "ods": lambda content: parse_workbook(content, "ods"),
    "odt": lambda content: parse_odf(content, "odt"),
    "odp": lambda content: parse_odf(content, "odp"),
    "doc": parse_doc,
    "ppt": parse_ppt,
    "rtf": parse_rtf,
    "image": parse_image,
    "epub": parse_epub,
    "xml": parse_xml,
    "html": lambda content: parse_html(formats.decode_html(content)),
}
_TEXT: dict[str, Callable[[str], Parsed]] = {
    "txt": parse_text,
    "md": parse_markdown,
    "csv": parse_csv,
    "json": parse_json,
    "jsonl": parse_jsonl,
    "yaml": parse_yaml,
    "ipynb": parse_ipynb,
}


def parse_as(kind: str, content: bytes, filename: str = "", depth: int = 0) -> Parsed:
    """Blocks of a file of the format `kind`, as `formats.detect` names it, fit to be stored. Raises Unreadable.

    `depth` counts the mails that the file is attached to.
    """
    parsed = _parsed(kind, content, filename, depth)
    blocks = (replace(one, text=clean(one.text), section=tuple(map(clean, one.section))) for one in parsed.blocks)
    kept = tuple(block for block in blocks if block.text.strip())
    return replace(parsed, title=clean(parsed.title), blocks=kept, warnings=tuple(map(clean, parsed.warnings)))


def _parsed(kind: str, content: bytes, filename: str, depth: int) -> Parsed:
    if kind in _BINARY:
        return _BINARY[kind](content)
    if kind in ("eml", "msg"):
        parse_mail = parse_eml if kind == "eml" else parse_msg
        return parse_mail(content, lambda part, name: _attached(part, name, depth + 1))
    text = text_encoding.read(content)
    parsed = parse_code(text.text, filename) if kind == "code" else _TEXT[kind](text.text)
    return replace(parsed, warnings=(*text.warnings, *parsed.warnings))


def _attached(content: bytes, filename: str, depth: int) -> Parsed:
    if not content.strip(b" \t\r\n\0"):
        raise Unreadable("it is empty.")
    kind = formats.detect(content, filename)
    if depth > _MOST_NESTED and kind in ("eml", "msg"):
        raise Unreadable("it is a mail in a mail in a mail.")
    return parse_as(kind, content, filename, depth)
