"""What Valkey holds that nobody can make again: issued keys, revocations, overrides, feedback, conversations, jobs.

Left out are counters of limits, which start full again, the tool cache, and notices between gateways. Keys of one hash
tag belong together and name each other: such a group is read in one transaction, and again when another look at the
server's names shows that it had grown by then.
"""

import base64
import contextlib
import gzip
import json
import re
import time
import uuid
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, cast

from redis import Redis
from redis.exceptions import RedisError, ResponseError

from services.cli.backup.part import Refused, Saved

# Beginnings of names, and what they hold.
KEPT = {
    "sabueso:access:": "issued keys, revocations and limits",
    "sabueso:feedback:": "feedback",
    "sabueso:sessions:": "conversations",
    "{ingestion}:": "ingestion jobs",
}
_NEVER_END = KEPT["sabueso:access:"]
# Gateways follow this version; another epoch makes them read everything anew.
_ACCESS_META = "sabueso:access:{all}:meta"
_FILE = "keys.jsonl.gz"
_PAGE = 500
_MOST_AT_ONCE = 5000
_SECONDS = 30
_DURABLE_MILLISECONDS = 5000
_MOST_LOOKS = 5

# Serialised value and expiry (milliseconds of the epoch) by key.
Rows = dict[bytes, tuple[bytes, int | None]]

# ARGV: pattern of names, the hash tag. Answers key, serialised value, expiry or -1, of each.
_READ_ALL = """
local cursor, found = '0', {}
repeat
  local page = redis.call('SCAN', cursor, 'MATCH', ARGV[1], 'COUNT', 1000)
  cursor = page[1]
  for _, key in ipairs(page[2]) do
    local value = string.find(key, '{' .. ARGV[2] .. '}', 1, true) and redis.call('DUMP', key)
    if value then
      found[#found + 1], found[#found + 2], found[#found + 3] = key, value, redis.call('PEXPIRETIME', key)
    end
  end
until cursor == '0'
return found
"""


class ValkeyKeys:
    """A Valkey or Redis from 7.0 on, no cluster."""

    name = "valkey"

    def __init__(self, url: str) -> None:
        self._client = cast(Any, Redis.from_url(url, socket_timeout=_SECONDS, socket_connect_timeout=5))  # pyright: ignore[reportUnknownMemberType]

    def save(self, folder: Path) -> Saved:
        try:
            rows = self._rows()
            version = self._version()
        except RedisError as error:
            raise Refused(f"Valkey: {error}") from None
        with gzip.open(folder / _FILE, "wt", encoding="ascii") as file:
            for key, (dump, ends_at) in sorted(rows.items()):
                row = {"key": _text(key), "dump": _text(dump), "ends_at_ms": ends_at}
                file.write(json.dumps(row) + "\n")
        return Saved(_counts(rows), {"version": version})

    def _rows(self) -> Rows:
        """Of every kept key."""
        groups = _grouped(self._names())
        rows = {tag: self._read(keys) for tag, keys in groups.items()}
        grown: list[bytes] = []
        for _ in range(_MOST_LOOKS):
            now = _grouped(self._names())
            grown = [tag for tag, keys in now.items() if not keys <= groups.get(tag, set())]
            if not grown:
                break
            for tag in grown:
                groups[tag] = groups.get(tag, set()) | now[tag]
                rows[tag] = self._read(groups[tag])
        else:
            for tag in grown:
                rows[tag] = self._read_standing_still(tag)
        return {key: value for group in rows.values() for key, value in group.items()}

    def _read_standing_still(self, tag: bytes) -> Rows:
        """A group that grows faster than it is read: the server names and reads it while nothing else happens."""
        rows: Rows = {}
        for beginning in KEPT:
            found = iter(self._client.eval(_READ_ALL, 0, f"{beginning}*", tag))
            rows |= {
                key: (dump, ends_at if ends_at > 0 else None)
                for key, dump, ends_at in zip(found, found, found, strict=True)
            }
        return rows

    def _names(self) -> Iterator[bytes]:
        for beginning in KEPT:
            yield from self._client.scan_iter(match=f"{beginning}*", count=_PAGE)

    def _read(self, keys: Iterable[bytes]) -> Rows:
        rows: Rows = {}
        for some in _batches(iter(keys), _MOST_AT_ONCE):
            pipeline = self._client.pipeline(transaction=True)
            for key in some:
                pipeline.dump(key)
                pipeline.pexpiretime(key)
            answers = pipeline.execute()
            for key, dump, ends_at in zip(some, answers[::2], answers[1::2], strict=True):
                if dump is not None:
                    rows[key] = dump, ends_at if ends_at > 0 else None
        return rows

    def _version(self) -> str:
        told = self._client.info("server")
        name = "valkey" if "valkey_version" in told else "redis"
        return f"{name} {told.get('valkey_version') or told.get('redis_version')}"

    def occupied(self) -> str:
        try:
            count = sum(1 for _ in self._names())
        except RedisError as error:
            raise Refused(f"Valkey: {error}") from None
        return f"{count} keys in Valkey" if count else ""

    def restore(self, folder: Path, saved: Saved, *, replace: bool) -> None:
        now_ms = time.time() * 1000
        try:
            for some in _batches(iter(list(self._names()))):
                self._client.unlink(*some)
            for some in _batches(_read_rows(folder / _FILE)):
                pipeline = self._client.pipeline(transaction=False)
                for key, dump, ends_at in some:
                    if ends_at is None:
                        pipeline.restore(key, 0, dump, replace=True)
                    elif ends_at > now_ms:
                        pipeline.restore(key, ends_at, dump, replace=True, absttl=True)
                pipeline.execute()
            if self._client.exists(_ACCESS_META):
                self._client.hset(_ACCESS_META, "epoch", uuid.uuid4().hex)
            self._store()
        except ResponseError as error:
            source = saved.facts.get("version", "another version")
            raise Refused(
                f"Valkey took not all of it: {error}. The values come from {source}; an older server cannot read them."
            ) from None
        except RedisError as error:
            raise Refused(f"Valkey: {error}") from None

    def _store(self) -> None:
        """On disk, where it keeps an append-only file."""
        try:
            self._client.execute_command("WAITAOF", 1, 0, _DURABLE_MILLISECONDS)
        except ResponseError:
            with contextlib.suppress(ResponseError):  # it is writing one already
                self._client.bgsave()

    def check(self, saved: Saved) -> list[str]:
        try:
            there = _counts(dict.fromkeys(self._names()))
        except RedisError as error:
            raise Refused(f"Valkey: {error}") from None
        # All others end by themselves, and some may have ended since.
        lost = saved.counts.get(_NEVER_END, 0) - there[_NEVER_END]
        return [f"{lost} keys with {_NEVER_END} are not there"] if lost > 0 else []


def _counts(keys: dict[bytes, Any]) -> dict[str, int]:
    return {what: sum(key.startswith(beginning.encode()) for key in keys) for beginning, what in KEPT.items()}


def _group(key: bytes) -> bytes:
    """Its hash tag."""
    found = re.search(rb"\{([^}]+)\}", key)
    return found[1] if found else key


def _grouped(keys: Iterable[bytes]) -> dict[bytes, set[bytes]]:
    groups: dict[bytes, set[bytes]] = {}
    for key in keys:
        groups.setdefault(_group(key), set()).add(key)
    return groups


def _batches(rows: Iterator[Any], size: int = _PAGE) -> Iterator[list[Any]]:
    while some := list(islice(rows, size)):
        yield some


def _read_rows(path: Path) -> Iterator[tuple[bytes, bytes, int | None]]:
    with gzip.open(path, "rt", encoding="ascii") as file:
        for line in file:
            row = json.loads(line)
            yield base64.b64decode(row["key"]), base64.b64decode(row["dump"]), row["ends_at_ms"]


def _text(value: bytes) -> str:
    return base64.b64encode(value).decode()
