"""A Qdrant server: a snapshot of each collection of ours, all of one moment.

The registry is one of them. Every change of a document passes through it: where it is the same before and after, the
snapshots fit each other; where it is not, they are made again. A snapshot is of one node, so a cluster is refused.
"""

import hashlib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx2

from services.cli.backup.documents import Version, fingerprint, incomplete, told
from services.cli.backup.part import Refused, Saved
from services.cli.json_shapes import entries, mapping

_PREFIX = "sabueso-"
_REGISTRY = "sabueso-registry"
_PAGE = 1000
_MOST_GENERATIONS = 1_000_000
_ATTEMPTS = 3
_BLOCK_BYTES = 1 << 20
# Making and taking in a snapshot of a large collection takes minutes; what comes in between must not.
_LONG = httpx2.Timeout(3600, connect=10)


class QdrantServer:
    """Its HTTP port."""

    name = "qdrant"

    def __init__(self, url: str, api_key: str = "", *, while_written: bool = False) -> None:
        """`while_written`: take what there is even where documents change; a restore tells which are incomplete."""
        self._url = url.rstrip("/")
        self._while_written = while_written
        headers = {"api-key": api_key} if api_key else {}
        self._http = httpx2.Client(base_url=self._url, headers=headers, timeout=_LONG, trust_env=False)

    def _call(self, method: str, path: str, **options: Any) -> Any:
        try:
            answer = self._http.request(method, path, **options)
            answer.raise_for_status()
            return answer.json().get("result")
        except httpx2.HTTPStatusError as error:
            text = error.response.text[:300]
            raise Refused(f"Qdrant refuses {method} {path}: {error.response.status_code} {text}") from None
        except (httpx2.HTTPError, ValueError) as error:
            raise Refused(f"Qdrant at {self._url} does not answer: {error}") from None

    def save(self, folder: Path) -> Saved:
        version = self._version()
        self._require_one_node()
        names = self._names()
        if _REGISTRY not in names:
            raise Refused(f"Qdrant at {self._url} holds nothing of sabueso")
        warnings: list[str] = []
        for _ in range(_ATTEMPTS):
            before = self._fingerprint()
            names = self._names()
            for stale in folder.iterdir():
                stale.unlink()
            for name in names:
                self._download(name, folder / f"{name}.snapshot")
            if self._fingerprint() == before:
                break
        else:
            if not self._while_written:
                raise Refused(
                    f"documents changed during each of {_ATTEMPTS} attempts: let ingestion rest meanwhile (scale it to"
                    " 0), or say --while-written"
                )
            warnings.append("documents changed meanwhile: a restore tells which ones must be ingested again")
        counts = {name: self._count(name) for name in names}
        return Saved(counts, {"version": version}, [*warnings, *told(self._incomplete())])

    def _version(self) -> str:
        try:
            answer = self._http.get("/")
            return str(mapping(answer.json()).get("version", "")).lstrip("v")
        except (httpx2.HTTPError, ValueError) as error:
            raise Refused(f"Qdrant at {self._url} does not answer: {error}") from None

    def _require_one_node(self) -> None:
        peers = mapping(mapping(self._call("GET", "/cluster")).get("peers"))
        if len(peers) > 1:
            raise Refused(
                f"Qdrant at {self._url} is a cluster of {len(peers)} nodes, and a snapshot holds what one node has: use"
                " the backups of its operator or of its volumes (docs/operations.md)"
            )

    def _names(self) -> list[str]:
        listed = entries(mapping(self._call("GET", "/collections")).get("collections"))
        return sorted(name for one in listed if (name := str(one["name"])).startswith(_PREFIX))

    def _cells(self) -> Iterator[Mapping[str, Any]]:
        offset: Any = None
        while True:
            body = {"limit": _PAGE, "with_payload": True, "with_vector": False} | ({"offset": offset} if offset else {})
            page = mapping(self._call("POST", f"/collections/{_REGISTRY}/points/scroll", json=body))
            yield from entries(page.get("points"))
            offset = page.get("next_page_offset")
            if offset is None:
                return

    def _fingerprint(self) -> str:
        return fingerprint([cell.get("id"), cell.get("payload")] for cell in self._cells())

    def _download(self, name: str, path: Path) -> None:
        made = mapping(self._call("POST", f"/collections/{quote(name)}/snapshots", params={"wait": "true"}))
        where = f"/collections/{quote(name)}/snapshots/{quote(str(made.get('name')))}"
        digest = hashlib.sha256()
        try:
            with self._http.stream("GET", where) as answer:
                answer.raise_for_status()
                with path.open("wb") as file:
                    for block in answer.iter_bytes(_BLOCK_BYTES):
                        file.write(block)
                        digest.update(block)
        except httpx2.HTTPError as error:
            raise Refused(f"the snapshot of {name} could not be fetched: {error}") from None
        finally:
            # They fill Qdrant's own disk.
            self._call("DELETE", where)
        if made.get("checksum") not in (None, digest.hexdigest()) or int(made["size"]) != path.stat().st_size:
            raise Refused(f"the snapshot of {name} came damaged: {path.stat().st_size} of {made['size']} bytes")

    def _count(self, name: str) -> int:
        found = mapping(self._call("POST", f"/collections/{quote(name)}/points/count", json={"exact": True}))
        return int(found.get("count") or 0)

    def _incomplete(self) -> list[str]:
        versions = [version for cell in self._cells() for version in _versions(mapping(cell.get("payload")))]
        passages: dict[str, int] = {}
        for name in self._names():
            if name != _REGISTRY:
                body = {"key": "generation", "exact": True, "limit": _MOST_GENERATIONS}
                hits = entries(mapping(self._call("POST", f"/collections/{quote(name)}/facet", json=body)).get("hits"))
                for hit in hits:
                    value = str(hit["value"])
                    passages[value] = passages.get(value, 0) + int(hit["count"])
        return incomplete(versions, passages)

    def occupied(self) -> str:
        counts = {name: count for name in self._names() if (count := self._count(name))}
        return ", ".join(f"{count} points in {name}" for name, count in counts.items())

    def restore(self, folder: Path, saved: Saved, *, replace: bool) -> None:
        ours, theirs = self._version(), saved.facts.get("version", "")
        if _minor(ours) != _minor(theirs):
            raise Refused(
                f"a snapshot of Qdrant {theirs} is for a server of the same minor version; this one is {ours}"
            )
        self._require_one_node()
        for name in self._names():
            self._call("DELETE", f"/collections/{quote(name)}")
        # The registry comes last: until then nobody is told of a document.
        paths = sorted(folder.glob("*.snapshot"), key=lambda path: path.stem == _REGISTRY)
        for path in paths:
            with path.open("rb") as file:
                self._call(
                    "POST",
                    f"/collections/{quote(path.stem)}/snapshots/upload",
                    params={"priority": "snapshot", "wait": "true"},
                    files={"snapshot": (path.name, file)},
                )

    def check(self, saved: Saved) -> list[str]:
        there = self._names()
        found = [
            f"{name} holds {count} points; {expected} were saved"
            for name, expected in saved.counts.items()
            if (count := self._count(name) if name in there else 0) != expected
        ]
        return found + told(self._incomplete() if _REGISTRY in there else [])


def _minor(version: str) -> str:
    found = re.match(r"\d+\.\d+", version)
    return found[0] if found else version


def _versions(payload: Mapping[str, Any]) -> Iterator[Version]:
    if payload.get("kind") != "document":
        return
    for one in mapping(mapping(payload.get("row")).get("versions")).values():
        version = mapping(one)
        count = int(version.get("chunk_count") or 0)
        yield Version(str(payload["tenant"]), str(payload["document_id"]), str(version.get("generation")), count)
