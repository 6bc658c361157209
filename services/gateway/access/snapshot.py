"""View that a process has of the store: what is issued, revoked and overridden, as of some moment."""

import asyncio
import logging
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar, cast

import orjson
from pydantic import ValidationError

from services.gateway.access.records import KINDS, IssuedKey, Override, Revocation
from services.gateway.access.store import Changes

log = logging.getLogger(__name__)

# Entries between two chances for other tasks.
_AT_ONCE = 500
_Entry = TypeVar("_Entry", IssuedKey, Revocation, Override)


class Snapshot:
    """Keys stay as the bytes that they are kept as, and are read when somebody comes with one: most never do."""

    def __init__(self) -> None:
        # Grows with every change of what is below.
        self.revision = 0
        self._keys: dict[str, bytes] = {}
        self._fields: dict[bytes, str] = {}
        self._revoked: dict[bytes, Revocation] = {}
        self._overrides: dict[str, Override] = {}
        self._ends: dict[str, float] = {}

    def __len__(self) -> int:
        return len(self._keys)

    async def apply(self, changes: Changes) -> None:
        """Takes over what is new. What cannot be read counts as gone; a revocation counts all the same.

        Other tasks go on meanwhile: a hundred thousand keys take most of a second.
        """
        target = Snapshot() if changes.complete else self
        # Revocations outlive a store that has lost its data: forgetting one would open a door again.
        target._revoked = self._revoked
        setters = {"keys": target._set_key, "revoked": target._set_revocation, "limits": target._set_override}
        for kind in KINDS:
            for number, (field, value) in enumerate(changes.entries.get(kind, {}).items(), 1):
                setters[kind](field, value)
                if number % _AT_ONCE == 0:
                    self.revision += 1
                    await asyncio.sleep(0)
        self._keys, self._fields, self._overrides = target._keys, target._fields, target._overrides
        self._ends = target._ends
        self.revision += 1

    def find(self, sha256: str) -> IssuedKey | None:
        """The issued key that a secret with that digest opens or has opened."""
        field = self._fields.get(bytes.fromhex(sha256))
        return None if field is None else _read(IssuedKey, field, self._keys[field])

    def key(self, field: str) -> tuple[IssuedKey, bytes] | None:
        """An issued key by its field, and the bytes that it is kept as."""
        stored = self._keys.get(field)
        read = None if stored is None else _read(IssuedKey, field, stored)
        return None if read is None or stored is None else (read, stored)

    def keys_of(self, tenant: str) -> Iterator[IssuedKey]:
        """All issued keys of a tenant."""
        for field, stored in self._keys.items():
            if field.startswith(f"{tenant}/") and (read := _read(IssuedKey, field, stored)) is not None:
                yield read

    def count_of(self, tenant: str) -> int:
        """How many keys of a tenant are kept."""
        return sum(field.startswith(f"{tenant}/") for field in self._keys)

    def ends(self) -> Sequence[float]:
        """When issued keys come to their ends, in Unix seconds: those that have one and were not revoked.

        A rotated key lives as long as the last of its secrets.
        """
        return tuple(self._ends.values())

    def revoked_since(self, sha256: str) -> datetime | None:
        """From when on a secret opens nothing; None when it was not revoked."""
        found = self._revoked.get(bytes.fromhex(sha256))
        return None if found is None else found.since

    def override(self, field: str) -> Override | None:
        """The override for a tenant (`acme`) or a key (`acme/ci`), expired or not."""
        return self._overrides.get(field)

    def overrides(self) -> Mapping[str, Override]:
        """All of them."""
        return self._overrides

    def _set_key(self, field: str, value: bytes | None) -> None:
        for digest in _digests(self._keys.pop(field, None)):
            if self._fields.get(digest) == field:
                del self._fields[digest]
        self._ends.pop(field, None)
        if value is None:
            return
        digests = _digests(value)
        if not digests:
            log.error("an issued key cannot be read", extra={"field": field})
            return
        self._keys[field] = value
        for digest in digests:
            self._fields[digest] = field
        # Most have none, and need not be read.
        if b'"expires_at"' in value and (end := _end_of(field, value)) is not None:
            self._ends[field] = end

    def _set_revocation(self, field: str, value: bytes | None) -> None:
        try:
            digest = bytes.fromhex(field)
        except ValueError:
            return
        if value is None:
            self._revoked.pop(digest, None)
        else:
            self._revoked[digest] = _read(Revocation, "revocation", value) or _SINCE_EVER

    def _set_override(self, field: str, value: bytes | None) -> None:
        read = None if value is None else _read(Override, field, value)
        if read is None:
            self._overrides.pop(field, None)
        else:
            self._overrides[field] = read


_SINCE_EVER = Revocation(tenant="", key="", since=datetime.fromisoformat("1970-01-01T00:00:00Z"))


def _read(model: type[_Entry], field: str, value: bytes) -> _Entry | None:
    try:
        return model.model_validate_json(value)
    except ValidationError:
        log.error("an entry of the store cannot be read", extra={"field": field})
        return None


def _end_of(field: str, value: bytes) -> float | None:
    key = _read(IssuedKey, field, value)
    # Further secrets of a declared key may end while the key goes on: the file says when that ends.
    if key is None or key.declared or key.revoked_at is not None:
        return None
    lasting = [one.expires_at for one in key.secrets]
    last = None if None in lasting else max((end for end in lasting if end is not None), default=None)
    return min((end.timestamp() for end in (key.expires_at, last) if end is not None), default=None)


def _digests(value: bytes | None) -> list[bytes]:
    if value is None:
        return []
    try:
        stored = cast(dict[str, Any], orjson.loads(value))
        return [bytes.fromhex(secret["sha256"]) for secret in stored["secrets"]]
    except (ValueError, KeyError, TypeError):
        return []
