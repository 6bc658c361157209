"""Where the references of drift are kept, so that a restart does not take what is there by then for what is usual."""

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol

import numpy as np


@dataclass(frozen=True)
class Kept:
    """One reference, for who looks. `count` values of one kind; `made_at` is when the last one came (UTC)."""

    tenant: str
    kind: str
    count: int
    made_at: datetime


class ReferenceStore(Protocol):
    """Keeps a reference for each tenant and kind. Raises DependencyFailed where it is lost.

    Of several processes the one whose reference is longer first is right: `put` never shortens one, nor changes one
    that is as long, so that all compare with the same.
    """

    async def open(self) -> None:
        """Connects, and makes the table where it is not there."""
        ...

    async def close(self) -> None:
        """Lets go."""
        ...

    async def put(self, tenant: str, kind: str, values: Sequence[Any]) -> None:
        """Keeps values of one type (numbers, words, vectors of one length), unless as many are there already."""
        ...

    async def get(self, tenant: str) -> dict[str, list[Any]]:
        """What was put, by kind."""
        ...

    async def kept(self) -> list[Kept]:
        """All references, by tenant and kind."""
        ...

    async def delete(self, tenant: str, kind: str = "") -> int:
        """Accepts a change: a kind, or all, of a tenant begin anew. How many references there were."""
        ...


class MemoryReferences:
    """References in this process; they end with it."""

    def __init__(self) -> None:
        self._packed: dict[tuple[str, str], tuple[int, bytes, datetime]] = {}

    async def open(self) -> None:
        """See ReferenceStore."""

    async def close(self) -> None:
        """See ReferenceStore."""

    async def put(self, tenant: str, kind: str, values: Sequence[Any]) -> None:
        """See ReferenceStore."""
        if len(values) > self._packed.get((tenant, kind), (0,))[0]:
            self._packed[tenant, kind] = len(values), packed(values), datetime.now(UTC)

    async def get(self, tenant: str) -> dict[str, list[Any]]:
        """See ReferenceStore."""
        return unpacked({kind: one[1] for (whose, kind), one in self._packed.items() if whose == tenant})

    async def kept(self) -> list[Kept]:
        """See ReferenceStore."""
        return [Kept(*key, count, made_at) for key, (count, _, made_at) in sorted(self._packed.items())]

    async def delete(self, tenant: str, kind: str = "") -> int:
        """See ReferenceStore."""
        gone = [key for key in self._packed if key[0] == tenant and kind in ("", key[1])]
        for key in gone:
            del self._packed[key]
        return len(gone)


def packed(values: Sequence[Any]) -> bytes:
    """As NumPy writes arrays; vectors at half their precision, which is more than embeddings have."""
    array = np.asarray(values)
    if array.ndim > 1:
        array = array.astype(np.float32)
    file = io.BytesIO()
    np.save(file, array, allow_pickle=False)
    return file.getvalue()


def unpacked(packed_by_kind: Mapping[str, bytes]) -> dict[str, list[Any]]:
    """The inverse: numbers, words and truth values as Python has them, vectors as arrays."""
    found: dict[str, list[Any]] = {}
    for kind, content in packed_by_kind.items():
        array = np.load(io.BytesIO(content), allow_pickle=False)
        found[kind] = list(array.astype(np.float64)) if array.ndim > 1 else array.tolist()
    return found
