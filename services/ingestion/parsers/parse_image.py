"""Pictures of text to blocks, by OCR where it is installed."""

from services.ingestion.parsed import Block, Parsed, Unreadable
from services.ingestion.parsers import ocr
from services.ingestion.parsers.text_encoding import clean


def parse_image(content: bytes) -> Parsed:
    """Paragraphs of one picture: PNG, JPEG, TIFF, GIF, BMP or WebP. Raises Unreadable where it cannot be read."""
    program = ocr.find()
    if program is None:
        raise Unreadable(f"needs OCR: the file is a picture, and {ocr.NOT_INSTALLED}; send a document with text.")
    texts = program.read_paragraphs(content)
    if texts is None:
        raise Unreadable("The picture cannot be read: it is damaged, too large, or of an unknown kind.")
    return Parsed(blocks=tuple(Block(text, page=1) for one in texts if (text := clean(one).strip())), page_count=1)
