"""PowerPoint 97-2003 files to blocks: slides by the newest directory of the file's records ([MS-PPT] 2.1.2)."""

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from io import BytesIO
from typing import Any, cast

import olefile

from services.ingestion.parsed import Outline, Parsed, Unreadable
from services.ingestion.parsers.text_encoding import clean

# Types of records.
_LIST, _PLACE, _NOTES_ATOM = 0x0FF0, 0x03F3, 0x03F1
_KIND, _UNICODE, _BYTES = 0x0F9F, 0x0FA0, 0x0FA8
# Instances of lists; kinds of texts that are titles.
_SLIDES, _NOTES = 0, 2
_TITLES = (0, 6)
_DEEPEST = 30
_MOST_EDITS = 1_000


@dataclass
class _Slide:
    """`number` is how notes refer to the slide; texts are pairs of kind and text."""

    reference: int
    number: int
    texts: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])


def parse_ppt(content: bytes) -> Parsed:
    """Blocks of a presentation of the old format. Raises Unreadable when it is damaged or encrypted."""
    try:
        container = cast(Any, olefile.OleFileIO(BytesIO(content)))
        if container.exists("EncryptedSummary"):
            raise Unreadable("The ppt is encrypted; send a copy without a password.")
        stream: bytes = container.openstream("PowerPoint Document").read()
        slides, notes = _slides(stream, container.openstream("Current User").read())
    except (Unreadable, MemoryError):
        raise
    except Exception:  # olefile and struct raise many kinds on damaged files
        raise Unreadable("The ppt is damaged: its slides cannot be read; save it as pptx.") from None
    outline = Outline()
    title = ""
    for page, slide in enumerate(slides, 1):
        heading = next((text for kind, text in slide.texts if kind in _TITLES), "")
        title = title or heading
        if heading:
            outline.heading(1, heading, page)
        else:
            outline.open(1, f"Slide {page}")
        for text in dict.fromkeys(text for _, text in slide.texts if text != heading):
            for line in text.split("\n"):
                outline.add(line, page=page)
        if slide.number in notes:
            outline.add(f"Speaker notes: {notes[slide.number]}", page=page)
    return Parsed(title=" ".join(title.split()), blocks=tuple(outline.blocks), page_count=len(slides))


def _slides(stream: bytes, user: bytes) -> tuple[list[_Slide], dict[int, str]]:
    """Slides in their order and the notes by the slide's number. Versions of earlier savings are left aside."""
    places, document = _directory(stream, struct.unpack_from("<I", user, 16)[0])
    slides: list[_Slide] = []
    notes: dict[int, str] = {}
    _, _, begin, end = next(_records(stream, places[document], len(stream)))
    for instance, kind, start, stop in _records(stream, begin, end):
        if kind != _LIST or instance >> 4 not in (_SLIDES, _NOTES):
            continue
        found = _listed(stream, start, stop)
        if instance >> 4 == _SLIDES:
            slides = found
            continue
        for one in found:
            if one.reference in places:
                number, text = _note(stream, places[one.reference])
                notes[number] = text
    for slide in slides:
        if slide.reference in places:
            _, _, start, stop = next(_records(stream, places[slide.reference], len(stream)))
            slide.texts += _texts(stream, start, stop)
    return slides, {number: text for number, text in notes.items() if text}


def _directory(stream: bytes, edit: int) -> tuple[dict[int, int], int]:
    """Offsets of the newest version of each object, by number; and the number of the document itself."""
    places: dict[int, int] = {}
    document = 0
    for _ in range(_MOST_EDITS):
        before, directory, number = struct.unpack_from("<III", stream, edit + 16)
        document = document or number
        _, _, start, stop = next(_records(stream, directory, len(stream)))
        while start + 4 <= stop:
            head = struct.unpack_from("<I", stream, start)[0]
            first, count = head & 0xFFFFF, head >> 20
            offsets = struct.unpack_from(f"<{count}I", stream, start + 4)
            for index, offset in enumerate(offsets):
                places.setdefault(first + index, offset)
            start += 4 + 4 * count
        if not before or before == edit:
            break
        edit = before
    return places, document


def _listed(stream: bytes, start: int, end: int) -> list[_Slide]:
    """The entries of a list of slides or notes, with the texts of their placeholders."""
    found: list[_Slide] = []
    text_kind = -1
    for _, kind, begin, stop in _records(stream, start, end):
        if kind == _PLACE:
            found.append(_Slide(*struct.unpack_from("<I8xI", stream, begin)))
            text_kind = -1
        elif kind == _KIND:
            text_kind = struct.unpack_from("<I", stream, begin)[0]
        elif kind in (_UNICODE, _BYTES) and found and (text := _plain(stream[begin:stop], kind)):
            found[-1].texts.append((text_kind, text))
    return found


def _texts(stream: bytes, start: int, end: int, depth: int = 0) -> list[tuple[int, str]]:
    """All texts within a record."""
    texts: list[tuple[int, str]] = []
    text_kind = -1
    for version, kind, begin, stop in _records(stream, start, end):
        if kind == _KIND and stop - begin >= 4:
            text_kind = struct.unpack_from("<I", stream, begin)[0]
        elif kind in (_UNICODE, _BYTES) and (text := _plain(stream[begin:stop], kind)):
            texts.append((text_kind, text))
        elif version & 0xF == 0xF and depth < _DEEPEST:
            texts += _texts(stream, begin, stop, depth + 1)
    return texts


def _note(stream: bytes, place: int) -> tuple[int, str]:
    """The number of the slide, and the notes on it."""
    _, _, start, stop = next(_records(stream, place, len(stream)))
    atom = next((begin for _, kind, begin, _ in _records(stream, start, stop) if kind == _NOTES_ATOM), None)
    number = struct.unpack_from("<I", stream, atom)[0] if atom is not None else 0
    return number, " ".join(text for kind, text in _texts(stream, start, stop) if kind != -1)


def _plain(raw: bytes, kind: int) -> str:
    text = raw.decode("utf-16-le" if kind == _UNICODE else "cp1252", "replace")
    text = clean(text.replace("\v", "\n")).strip()
    # The place of a field, such as the number of the slide.
    return "" if text == "*" else text


def _records(stream: bytes, start: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """Version and instance, type, begin and end of each record."""
    while start + 8 <= end:
        version, kind, length = struct.unpack_from("<HHI", stream, start)
        stop = min(start + 8 + length, end)
        yield version, kind, start + 8, stop
        start = stop
