"""Lists and reads files, on this machine's disks and wherever else pyarrow or fsspec can reach, as Ray Data does."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from services.ingestion.bulk.corpus import Source
from services.ingestion.bulk.optional import module
from services.ingestion.parsed import Unreadable


class NotListed(Exception):
    """What a path or address names cannot be listed. The message is for a person."""


@dataclass(frozen=True)
class Found:
    """A file below a folder of an object store. `relative` is its path below the folder; the rest is as in Source."""

    uri: str
    relative: str
    stamp: str
    path: str


def is_address(path: str) -> bool:
    """Whether it is an address such as `s3://bucket/key`, and not a path."""
    return "://" in path


def stamp_of(path: Path) -> str:
    """Changes whenever the file does, as far as its size and time of change tell. Raises OSError."""
    stat = path.stat()
    return f"{stat.st_size}:{stat.st_mtime_ns}"


def listed(address: str) -> Iterator[Found]:
    """All files below `address`, or itself when it is a file; hidden ones are left out. Raises NotListed."""
    store, root = _store(address)
    fs = module("pyarrow.fs")
    try:
        own = store.get_file_info(root)
        if own.type == fs.FileType.File:
            yield Found(address, own.base_name, _stamp(own), root)
            return
        if own.type == fs.FileType.NotFound:
            raise NotListed(f"{address}: there is no such file or folder.")
        infos = store.get_file_info(fs.FileSelector(root, recursive=True))
    except OSError as error:
        raise NotListed(f"{address} cannot be listed: {error}") from None
    above = address.rstrip("/")
    for info in sorted(infos, key=lambda one: one.path):
        relative = info.path[len(root.rstrip("/")) :].lstrip("/")
        hidden = any(part.startswith(".") for part in relative.split("/"))
        if info.type == fs.FileType.File and not hidden:
            yield Found(f"{above}/{relative}", relative, _stamp(info), info.path)


def read(source: Source, most_bytes: int) -> bytes:
    """The whole file. Raises Unreadable when it cannot be read or is larger than `most_bytes`."""
    try:
        content = _begin(source, most_bytes + 1)
    except OSError as error:
        raise Unreadable(f"It cannot be read: {error.strerror or error}.") from None
    except NotListed as error:
        raise Unreadable(str(error)) from None
    if len(content) > most_bytes:
        raise Unreadable(f"The file is larger than {most_bytes} bytes (SABUESO_MAX_DOCUMENT_BYTES); split it up.")
    return content


def _begin(source: Source, most_bytes: int) -> bytes:
    if not source.store:
        with open(source.uri, "rb") as file:
            return file.read(most_bytes)
    store, root = _store(source.store)
    # Not unpacked on the way: what is indexed is the file as it is.
    with store.open_input_stream(source.path or root, compression=None) as stream:
        content: bytes = stream.read(most_bytes)
        while len(content) < most_bytes and (more := stream.read(most_bytes - len(content))):
            content += more
        return content


# Connections are kept from file to file.
@lru_cache(maxsize=64)
def _store(address: str) -> tuple[Any, str]:
    """The file system that `address` names, and the path in it. Raises NotListed."""
    fs = module("pyarrow.fs")
    scheme = address.partition("://")[0]
    try:
        if scheme in ("http", "https"):
            reader = module("fsspec").filesystem(scheme)
            return fs.PyFileSystem(fs.FSSpecHandler(reader)), address
        return fs.FileSystem.from_uri(address)
    except (OSError, ValueError, ImportError) as error:  # pyarrow's ArrowInvalid is a ValueError
        raise NotListed(f"{address} cannot be reached: {error}") from None


def _stamp(info: Any) -> str:
    # Without a time, as web servers often leave it out, nothing tells that the file is still the same.
    return f"{info.size}:{info.mtime_ns}" if info.mtime_ns is not None and info.size is not None else ""
