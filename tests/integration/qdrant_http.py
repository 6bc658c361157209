"""Qdrant's HTTP interface as far as backups use it, on loopback: points by id with their payloads, and snapshots.

What is asked must have the form that Qdrant's own client gives it.
"""

import hashlib
import json
import re
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from qdrant_client import models

_FORMS = {
    "points/count": models.CountRequest,
    "points/scroll": models.ScrollRequest,
    "facet": models.FacetRequest,
}


class QdrantHttp(ThreadingHTTPServer):
    """What it holds: collections by name, in each payloads by point id."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.collections, self.snapshots = {}, {}
        self.version, self.peers, self.api_key = "1.20.1", 1, ""
        self.uploads = []
        # Called with the collection's name before a snapshot is made.
        self.interruption = lambda name: None
        self.damage = lambda content: content

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    def log_message(self, *arguments):
        pass

    def _answer(self, result, status=200):
        self._send(json.dumps({"result": result, "status": "ok"}).encode(), status)

    def _send(self, content, status=200):
        self.send_response(status)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def do_GET(self):
        server, parts = self.server, urlsplit(self.path)
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        if server.api_key and self.headers.get("api-key") != server.api_key:
            return self._answer(None, 401)
        if parts.path == "/":
            return self._send(json.dumps({"title": "qdrant", "version": server.version}).encode())
        if parts.path == "/cluster":
            return self._answer({"status": "enabled", "peers": {str(one): {} for one in range(server.peers)}})
        if parts.path == "/collections":
            return self._answer({"collections": [{"name": name} for name in server.collections]})
        name, _, rest = parts.path.removeprefix("/collections/").partition("/")
        if rest == "snapshots/upload":
            return self._upload(name, body, parse_qs(parts.query))
        if name not in server.collections:
            return self._answer(None, 404)
        if self.command == "DELETE" and not rest:
            return self._answer(server.collections.pop(name) is not None)
        return self._within(name, server.collections[name], rest, json.loads(body) if body else {})

    def _within(self, name, points, rest, body):
        server = self.server
        if rest in _FORMS:
            _FORMS[rest].model_validate(body)
        match rest.split("/"):
            case ["points", "count"]:
                return self._answer({"count": len(points)})
            case ["points", "scroll"]:
                return self._answer(_page(points, body["limit"], body.get("offset")))
            case ["facet"]:
                values = [payload[body["key"]] for payload in points.values() if body["key"] in payload]
                hits = [{"value": one, "count": values.count(one)} for one in sorted(set(values))]
                return self._answer({"hits": hits[: body["limit"]]})
            case ["snapshots"]:
                server.interruption(name)
                content = json.dumps(points).encode()
                made = f"{name}-{len(server.snapshots)}.snapshot"
                server.snapshots[made] = content
                checksum = hashlib.sha256(content).hexdigest()
                return self._answer({"name": made, "size": len(content), "checksum": checksum})
            case ["snapshots", made] if self.command == "DELETE":
                return self._answer(server.snapshots.pop(made) is not None)
            case ["snapshots", made]:
                return self._send(server.damage(server.snapshots[made]))
            case _:
                return self._answer(None, 404)

    def _upload(self, name, body, wanted):
        boundary = self.headers["content-type"].partition("boundary=")[2]
        [content] = re.findall(rb"\r\n\r\n(.*)\r\n--" + re.escape(boundary.encode()), body, re.DOTALL)
        self.server.collections[name] = json.loads(content)
        self.server.uploads.append((name, models.SnapshotPriority(wanted["priority"][0])))
        return self._answer(True)

    do_POST = do_PUT = do_DELETE = do_GET


def _page(points, limit, offset):
    ids = sorted(id_ for id_ in points if offset is None or id_ >= offset)
    page = [{"id": id_, "payload": points[id_]} for id_ in ids[:limit]]
    return {"points": page, "next_page_offset": ids[limit] if len(ids) > limit else None}


@contextmanager
def running():
    """A server of its own."""
    server = QdrantHttp()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
