"""The stored form of a result: which call it answers, what it depends on, and its value.

    magic 4 · snapshot 16 digits · stored at, ms, 16 digits · length of scopes 8 digits · length of material 8 digits ·
    encoding 1 · scopes, by newlines · material of the key · value

The script that reads it looks at the numbers and scopes, so they are text. Nothing in it is ever executed or unpickled.
"""

import zlib
from collections.abc import Sequence

from services.tool_cache.keys import CallKey

MAGIC = b"SBC2"
# Shorter values gain less memory than inflating them costs the lookups that find them.
COMPRESSED_FROM_BYTES = 8 * 1024
_STORED_AT, _LENGTHS_AT, _MATERIAL_LENGTH_AT, _ENCODING_AT, _SCOPES_AT = 20, 36, 44, 52, 53
_PLAIN, _DEFLATED = b"p", b"d"
EMPTY = _PLAIN


def packed(value: bytes) -> bytes:
    """The value with a byte before it that says how it is stored: as it is, or deflated where that is shorter."""
    if len(value) >= COMPRESSED_FROM_BYTES:
        # Level 1: passages shrink to a third; level 6 makes them a tenth smaller for twice the time.
        deflated = zlib.compress(value, 1)
        if len(deflated) < len(value):
            return _DEFLATED + deflated
    return _PLAIN + value


def written(key: CallKey, scopes: Sequence[str], value: bytes) -> tuple[bytes, bytes]:
    """Scopes and the rest of an entry, for the script to complete; `value` is packed."""
    named = "\n".join(scopes).encode()
    lengths = b"%08d%08d" % (len(named), len(key.material))
    return named, lengths + value[:1] + named + key.material + value[1:]


def read(key: CallKey, entry: bytes, now_ms: int, most_bytes: int) -> tuple[bytes, float] | None:
    """Value and age in seconds; None when it is damaged, too large, or belongs to another call than `key`."""
    try:
        stored_ms = int(entry[_STORED_AT:_LENGTHS_AT])
        material_at = _SCOPES_AT + int(entry[_LENGTHS_AT:_MATERIAL_LENGTH_AT])
        value_at = material_at + int(entry[_MATERIAL_LENGTH_AT:_ENCODING_AT])
    except ValueError:
        return None
    # A reply that went to the wrong caller must not become a wrong answer.
    if entry[:4] != MAGIC or entry[material_at:value_at] != key.material:
        return None
    value = _unpacked(entry[_ENCODING_AT:_SCOPES_AT], entry[value_at:], most_bytes)
    return None if value is None else (value, max(0, now_ms - stored_ms) / 1000)


def _unpacked(encoding: bytes, value: bytes, most_bytes: int) -> bytes | None:
    if encoding == _PLAIN:
        return value
    if encoding != _DEFLATED:
        return None
    inflater = zlib.decompressobj()
    try:
        found = inflater.decompress(value, most_bytes)
    except zlib.error:
        return None
    return found if inflater.eof else None
