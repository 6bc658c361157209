"""Zip files that documents come in: opened only when what they declare is plausible, read part by part in memory."""

import posixpath
import zipfile
from io import BytesIO
from typing import Any, cast

from lxml import etree  # pyright: ignore[reportAttributeAccessIssue, reportUnknownVariableType]

from services.ingestion.parsed import Unreadable

# What is declared is checked before anything is unpacked; Python's zipfile never gives more than is declared.
_MOST_UNPACKED_BYTES = 512 * 1024 * 1024
_MOST_PARTS = 10_000
_MOST_RATIO = 200
_SMALL_PART_BYTES = 8 * 1024 * 1024
_DAMAGE = (zipfile.BadZipFile, ValueError, NotImplementedError, RuntimeError, OSError, EOFError, KeyError)


class Archive:
    """The parts of one document. Raises Unreadable when it is damaged, encrypted or a bomb; `format` is for people."""

    def __init__(self, content: bytes, format: str) -> None:
        """Checks the table of contents."""
        self._format = format
        try:
            self._zip = zipfile.ZipFile(BytesIO(content))
        except _DAMAGE:
            raise Unreadable(f"The {format} is damaged: its table of contents cannot be read.") from None
        parts = self._zip.infolist()
        if any(part.flag_bits & 0x1 for part in parts):
            raise Unreadable(f"The {format} is encrypted; send a copy without a password.")
        total = sum(part.file_size for part in parts)
        dense = any(
            part.file_size > _SMALL_PART_BYTES and part.file_size > _MOST_RATIO * max(part.compress_size, 1)
            for part in parts
        )
        if len(parts) > _MOST_PARTS:
            raise Unreadable(f"The {format} consists of {len(parts)} parts; it is refused as a zip bomb.")
        if total > _MOST_UNPACKED_BYTES or dense:
            raise Unreadable(f"The {format} would unpack to {total // 2**20} MiB; it is refused as a zip bomb.")
        self.names = frozenset(self._zip.namelist())
        self.sizes_bytes = {part.filename: part.file_size for part in parts}

    def read(self, name: str) -> bytes:
        """A part, empty when there is none of this name. Raises Unreadable when it is damaged."""
        if name not in self.names:
            return b""
        try:
            return self._zip.read(name)
        except MemoryError:
            raise
        except Exception:  # zlib, lzma and CRC errors besides those of zipfile
            raise Unreadable(f"The {self._format} is damaged: a part of it cannot be read.") from None

    def xml(self, name: str) -> Any:
        """The root element of an XML part, or None when there is none of this name or it holds no XML."""
        content = self.read(name)
        return xml_root(content) if content else None


def xml_root(content: bytes) -> Any:
    """The root element, repaired where it can be, or None. Entities are neither expanded nor fetched."""
    library = cast(Any, etree)
    parser = library.XMLParser(
        resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False, recover=True, remove_comments=True
    )
    try:
        return library.fromstring(content, parser)
    except (SyntaxError, ValueError):
        return None


def name_of(element: Any) -> str:
    """The name of an element without its namespace; empty for comments and entities."""
    tag = element.tag
    return tag.rpartition("}")[2] if isinstance(tag, str) else ""


def attribute(element: Any, name: str) -> str:
    """An attribute by its name without namespace, or empty."""
    return next((str(value) for key, value in element.attrib.items() if key.rpartition("}")[2] == name), "")


def beside(part: str, target: str) -> str:
    """The name of the part that `target`, relative to `part`, points to; it never leaves the archive."""
    joined = posixpath.normpath(posixpath.join("/", posixpath.dirname(part), target))
    return joined.lstrip("/")
