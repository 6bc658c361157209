"""Undoes a body's content encoding within a bound: 300 kB of gzip can hold 60 MB and more."""

import re
import zlib
from typing import Protocol

from services.runtime.errors import DependencyFailed, NotPermitted

ACCEPTED = "gzip, deflate"
# A file of gzip may be several, one after the other; many empty ones cost much and give nothing.
_MAX_MEMBERS = 64
_NAME = re.compile("[a-z0-9-]{1,20}")


class Decoder(Protocol):
    """Bytes as they come in, decoded bytes out."""

    def decode(self, piece: bytes, room_bytes: int) -> bytes:
        """At most `room_bytes` of what `piece` adds; the rest is lost, and then no more may be asked for."""
        ...

    def finish(self) -> None:
        """Raises DependencyFailed when the body ended in the middle."""
        ...


def decoder(encoding: str) -> Decoder:
    """For the value of Content-Encoding. Raises NotPermitted for one that was not asked for, or for several."""
    match encoding.strip().lower():
        case "" | "identity":
            return _Identity()
        case "gzip" | "x-gzip":
            return _Inflate(zlib.MAX_WBITS | 16)
        case "deflate":
            return _Inflate(zlib.MAX_WBITS)
        case other:
            named = f"`{other}`" if _NAME.fullmatch(other) else "of several or none"
            raise NotPermitted(f"Content encoding {named} is not read.", rule="encoding")


class _Identity:
    def decode(self, piece: bytes, room_bytes: int) -> bytes:
        return piece[:room_bytes]

    def finish(self) -> None:
        """Nothing is left over."""


class _Inflate:
    def __init__(self, window_bits: int) -> None:
        self._window_bits = window_bits
        self._inflate = zlib.decompressobj(window_bits)
        self._members = 0
        self._has_begun = False
        self._head: bytes = b""

    def decode(self, piece: bytes, room_bytes: int) -> bytes:
        piece = self._with_head(piece)
        decoded = bytearray()
        while piece and len(decoded) < room_bytes:
            if self._inflate.eof and not self._next_member(piece):
                break
            self._has_begun = True
            decoded += self._inflated(piece, room_bytes - len(decoded))
            piece = self._inflate.unused_data
        return bytes(decoded)

    def finish(self) -> None:
        if (self._has_begun or self._head) and not self._inflate.eof:
            raise DependencyFailed("The page ended in the middle.", dependency="web")

    def _with_head(self, piece: bytes) -> bytes:
        """Holds back the first byte alone: two tell whether "deflate" has the head of zlib, which some servers omit."""
        if self._has_begun or self._window_bits != zlib.MAX_WBITS:
            return piece
        piece = self._head + piece
        self._head = piece if len(piece) < 2 else b""
        if len(piece) < 2:
            return b""
        if piece[0] & 15 != 8 or (piece[0] << 8 | piece[1]) % 31:
            self._inflate = zlib.decompressobj(-zlib.MAX_WBITS)
        return piece

    def _next_member(self, piece: bytes) -> bool:
        """Whether another member begins; whatever else follows the last one is padding."""
        if self._window_bits == zlib.MAX_WBITS or not piece.startswith(b"\x1f"):
            return False
        self._members += 1
        if self._members > _MAX_MEMBERS:
            raise DependencyFailed("The page is packed in too many parts.", dependency="web")
        self._inflate = zlib.decompressobj(self._window_bits)
        return True

    def _inflated(self, piece: bytes, room_bytes: int) -> bytes:
        try:
            return self._inflate.decompress(piece, room_bytes)
        except zlib.error:
            raise DependencyFailed("The page is not packed as its server says.", dependency="web") from None
