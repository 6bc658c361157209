"""Reads a file of any format: finds out which it is and has its parser read it. Runs in the parsing process."""

from services.ingestion.parsed import Parsed, Unreadable
from services.ingestion.parsers import by_format, formats


def parse(content: bytes, filename: str = "", content_type: str = "") -> Parsed:
    """Blocks of a file of any supported format. Raises Unreadable with what to do about it."""
    if not content.strip(b" \t\r\n\0"):
        raise Unreadable("The file is empty.")
    parsed = by_format.parse_as(formats.detect(content, filename, content_type), content, filename)
    if not any(character.isalnum() for block in parsed.blocks for character in block.text):
        raise Unreadable("The file holds no text.")
    return parsed
