"""Token vectors as they are kept: a few bits a value, one scale a row.

    byte 0      format
    byte 1      0
    bytes 2-3   dimensions
    bytes 4-7   rows
    then        one float16 scale a row, then the rows

Rows are brought to length 1 and cut into steps of their largest value (row-wise symmetric quantisation). A passage of
150 tokens of 384 values takes 29 kB in four bits and 58 kB in eight, of 115 kB in float16.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from services.retrieval.store import TokenMatrix

_HEADER = struct.Struct("<BxHI")


class Format(IntEnum):
    """How the rows are written. Files keep what they were written with."""

    INT8 = 1
    # Two values a byte: column j in the lower half, column j + dimensions/2 in the upper one.
    INT4 = 2


_LARGEST = {Format.INT8: 127, Format.INT4: 7}


@dataclass(frozen=True)
class TokenRows:
    """Rows of several matrices, one after the other: `values[i] * scales[i]` is token vector i, of length 1.

    `values` is float32 (rows, dimensions), `scales` float32 (rows,), `counts` the rows of each matrix.
    """

    values: NDArray[np.float32]
    scales: NDArray[np.float32]
    counts: Sequence[int]


def pack(matrix: TokenMatrix, format: Format = Format.INT4) -> bytes:
    """The matrix in few bytes. What is not finite counts as 0."""
    rows = unit_rows(matrix)
    steps = _LARGEST[format]
    scales = (np.abs(rows).max(axis=1, initial=0.0) / steps).astype("<f2")
    divisors = np.where(scales > 0, scales.astype(np.float32), 1.0)[:, None]
    values = np.clip(np.rint(rows / divisors), -steps, steps).astype(np.int8)
    header = _HEADER.pack(format, matrix.dimensions, len(rows))
    return header + scales.tobytes() + (_in_halves(values) if format is Format.INT4 else values).tobytes()


def unpack(packed: Sequence[bytes]) -> TokenRows:
    """All rows of matrices that have the same dimensions."""
    heads = [_HEADER.unpack_from(one) for one in packed]
    counts = [rows for _, _, rows in heads]
    dimensions = heads[0][1] if heads else 0
    values = np.empty((sum(counts), dimensions), np.float32)
    written = [one[_HEADER.size : _HEADER.size + 2 * rows] for one, rows in zip(packed, counts, strict=True)]
    scales = np.frombuffer(b"".join(written), "<f2").astype(np.float32)
    start = 0
    # As a rule all are of one format, and this is one step.
    for format, run in groupby(zip(packed, heads, strict=True), key=lambda one: one[1][0]):
        body = b"".join([one[_HEADER.size + 2 * rows :] for one, (_, _, rows) in run])
        width = dimensions if format == Format.INT8 else (dimensions + 1) // 2
        steps = np.frombuffer(body, np.int8).reshape(-1, width)
        part = slice(start, start + len(steps))
        scales[part] /= _write(Format(format), steps, values[part])
        start += len(steps)
    return TokenRows(values, scales, counts)


def dimensions_of(packed: bytes) -> int:
    """Values of a row."""
    return _HEADER.unpack_from(packed)[1]


def count_of(packed: bytes) -> int:
    """Rows."""
    return _HEADER.unpack_from(packed)[2]


def unit_rows(matrix: TokenMatrix) -> NDArray[np.float32]:
    """Float32 (tokens, dimensions), each row of length 1, or 0 where it was."""
    rows = np.frombuffer(matrix.values, "<f2").astype(np.float32).reshape(-1, max(1, matrix.dimensions))
    rows = np.nan_to_num(rows, nan=0.0, posinf=0.0, neginf=0.0)
    lengths = np.sqrt(np.square(rows).sum(axis=1, keepdims=True))
    lengths[lengths == 0] = 1.0
    return rows / lengths


def _in_halves(values: NDArray[np.int8]) -> NDArray[np.uint8]:
    if values.shape[1] % 2:
        values = np.pad(values, ((0, 0), (0, 1)))
    half = values.shape[1] // 2
    nibbles = values.view(np.uint8) & np.uint8(15)
    return nibbles[:, :half] | (nibbles[:, half:] << np.uint8(4))


def _write(format: Format, written: NDArray[np.int8], values: NDArray[Any]) -> int:
    """Writes the steps of rows into `values`; returns by how much they are too large."""
    if format is Format.INT8:
        values[:] = written
        return 1
    half = written.shape[1]
    # Where the upper half of the byte is, either value is right but for a factor: numpy shifts bytes one by one, and
    # multiplies and masks them many at a time.
    values[:, :half] = written * np.int8(16)
    values[:, half:] = (written & np.int8(-16))[:, : values.shape[1] - half]
    return 16
