"""Titles that programs write into files by themselves, and which say nothing about the document."""

import re

from services.ingestion.parsers.text_encoding import clean

_EMPTY = re.compile(
    r"(?:powerpoint[- ]pr(?:e|ä)sentation|presentaci[oó]n(?: de powerpoint)?|présentation powerpoint|word document"
    r"|documento(?: de word)?|untitled|sin t[ií]tulo|sans titre|document\s*\d*|presentation\s*\d*|slide\s*\d*"
    r"|diapositiva\s*\d*|book\s*\d*|libro\s*\d*|title|t[ií]tulo|untitled document|no title|new microsoft.*"
    r"|nuevo documento.*|mappe\s*\d*|unknown(?: title)?|none)",
    re.I,
)
_PROGRAM = re.compile(r"^microsoft (?:word|powerpoint|excel) - ", re.I)
_FILE_NAME = re.compile(r"^\S{1,100}\.(?:docx?|pptx?|xlsx?|pdf|rtf|odt|html?|txt|indd|qxd|tmp|dotx?|potx?)$", re.I)


def own_title(title: object) -> str:
    """The title that a file's properties give, or empty where it is a program's default or a file name."""
    text = " ".join(clean(title).split()) if isinstance(title, str) else ""
    text = _PROGRAM.sub("", text)
    return "" if _EMPTY.fullmatch(text) or _FILE_NAME.match(text) else text[:300]


def own_language(code: object) -> str:
    """Two letters of a language code such as `es-ES`, or empty."""
    found = re.match(r"[A-Za-z]{2}(?=$|[-_])", code.strip()) if isinstance(code, str) else None
    return found[0].lower() if found else ""
