"""Has documents indexed beside the questions: what `make load-ingest` disturbs the answers with."""

import contextlib
import json
import random
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import gevent

from loadtests.offering.connections import Broken, Connections

_COLLECTION = "load-test"
_PAGE_WORDS = 400
_WORDS = (
    "contract provider delivery invoice clause penalty review warehouse payment term notice audit insurance price index"
    " annex signature deadline supplier order refund warranty transport storage quality certificate budget department"
).split()
_END = ("ready", "failed", "cancelled")
_POLL_SECONDS = 0.5
_DELETE_SECONDS = 20


class Documents:
    """Hands over one document after the other, each as soon as the one before can be found."""

    def __init__(self, connections: Connections, key: str, pages: int) -> None:
        self._connections = connections
        self._key = key
        self._pages = pages
        self.ready = 0
        self.pages = 0
        self.problems: list[str] = []
        self._begun = 0

    def index_until(self, done: Callable[[], bool]) -> None:
        """Goes on until `done`; what was indexed is deleted afterwards."""
        try:
            self._call("PUT", f"/v1/collections/{_COLLECTION}", {"description": "Documents of a load test."})
        except Broken as error:
            self.problems.append(str(error))
            return
        try:
            while not done():
                self._one(f"load-test-{self._begun}", done)
                self._begun += 1
        except Broken as error:
            self.problems.append(str(error))
        finally:
            self._delete()

    def told(self) -> dict[str, Any]:
        """For the run's file."""
        return {"ready": self.ready, "pages": self.pages, "problems": self.problems[:10]}

    def _one(self, document_id: str, done: Callable[[], bool]) -> None:
        body = {"collection": _COLLECTION, "document_id": document_id, "text": text_of(self._begun, self._pages)}
        self._call("POST", "/v1/documents", body)
        while not done():
            gevent.sleep(_POLL_SECONDS)
            told = self._call("GET", f"/v1/documents/{quote(document_id)}")
            if told.get("status") not in _END:
                continue
            if told["status"] == "ready":
                self.ready += 1
                self.pages += self._pages
            else:
                self.problems.append(f"{document_id}: {told['status']} {told.get('reason', '')}")
            return

    def _call(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        with self._connections.ask(method, path, self._key, body) as reply:
            content = reply.body()
            status = reply.status
        if status >= 300:
            raise Broken(f"{method} {path}: status {status} {content[:200].decode(errors='replace')}")
        return json.loads(content or b"{}")

    def _delete(self) -> None:
        # What is still coming in would come back.
        with contextlib.suppress(Broken):
            self._call("DELETE", f"/v1/documents/load-test-{self._begun}")
        end, last = time.monotonic() + _DELETE_SECONDS, ""
        while time.monotonic() < end:
            try:
                self._call("DELETE", f"/v1/collections/{_COLLECTION}")
                return
            except Broken as error:
                last = str(error)
                gevent.sleep(_POLL_SECONDS)
        self.problems.append(f"what was indexed is still there: {last}")


def text_of(place: int, pages: int) -> str:
    """A document of so many pages of its own, the same every time."""
    dice = random.Random(place)
    written: list[str] = [f"# Load test document {place}"]
    for page in range(pages):
        words = dice.choices(_WORDS, k=_PAGE_WORDS)
        lines = (words[at : at + 12] for at in range(0, _PAGE_WORDS, 12))
        sentences = [f"{' '.join(line).capitalize()} {dice.randrange(10_000)}." for line in lines]
        written += [f"## Section {page + 1}", " ".join(sentences)]
    return "\n\n".join(written)
