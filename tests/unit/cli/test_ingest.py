"""`sabueso ingest`: what is sent, what is not sent again, and what is said of it. The gateway is a real HTTP server."""

import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from email.parser import BytesParser
from email.policy import HTTP
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit

import pytest
from typer.testing import CliRunner

from services.cli.main import app


class Archive:
    """What the gateway keeps. Documents get ready after so many looks at the list; some are refused, some fail."""

    def __init__(self):
        self.collections = {"contracts": {}}
        self.documents = {}
        self.uploads = []
        self.refusals = []
        self.refused = {}
        self.looks_until_ready = 1
        self.lock = threading.Lock()

    def put(self, document_id, content, status="ready", **fields):
        self.documents[document_id] = {
            "document_id": document_id, "collection": "contracts", "status": status, "labels": [],
            "content_sha256": hashlib.sha256(content).hexdigest(), "looks": 0, "total_chunk_count": 4, "chunk_count": 1,
            **fields,
        }  # fmt: skip

    def look(self):
        for document in self.documents.values():
            document["looks"] += 1
            if document["status"] == "queued" and document["looks"] > self.looks_until_ready:
                document["status"] = "failed" if "bad" in document["document_id"] else "ready"
                document["reason"] = "It is encrypted." if document["status"] == "failed" else None

    def listed(self, limit, after):
        telling = [d for d in self.documents.values() if d["status"] != "ready"] if not after else []
        ready = sorted(
            (d for d in self.documents.values() if d["status"] == "ready" and d["document_id"] > after),
            key=lambda document: document["document_id"],
        )
        more = len(ready) > limit
        return {
            "data": telling + ready[:limit], "has_more": more, "degraded": [],
            "after": ready[:limit][-1]["document_id"] if more else None,
        }  # fmt: skip


class GatewayHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *arguments):
        pass

    def answer(self, status, body, **headers):
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(content)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(content)

    def refuse(self, status, code, message, **headers):
        self.answer(status, {"error": {"code": code, "message": message}}, **headers)

    def do_GET(self):
        archive, url = self.server.archive, urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        with archive.lock:
            if url.path == "/v1/documents":
                archive.look()
                return self.answer(200, archive.listed(min(int(query["limit"]), 2), query.get("after", "")))
            if url.path == "/v1/collections":
                named = [{"name": name, "document_count": 0, **c} for name, c in archive.collections.items()]
                return self.answer(200, {"data": named})
        return self.refuse(404, "not_found", "There is no such thing.")

    def do_PUT(self):
        length = int(self.headers["content-length"])
        fields = json.loads(self.rfile.read(length))
        self.server.archive.collections[self.path.rpartition("/")[2]] = fields
        self.answer(200, {"name": self.path.rpartition("/")[2], **fields})

    def do_DELETE(self):
        del self.server.archive.documents[unquote(self.path.removeprefix("/v1/documents/"))]
        self.answer(200, {"deleted": True})

    def do_POST(self):
        archive = self.server.archive
        body = self.rfile.read(int(self.headers["content-length"]))
        head = f"content-type: {self.headers['content-type']}\r\n\r\n".encode()
        parts = list(BytesParser(policy=HTTP).parsebytes(head + body).iter_parts())
        fields = {part.get_param("name", header="content-disposition"): part.get_payload(decode=True) for part in parts}
        fields |= {name: value.decode() for name, value in fields.items() if name != "file"}
        with archive.lock:
            if refusal := archive.refused.get(fields["document_id"]):
                return self.refuse(*refusal)
            if archive.refusals:
                status, code, message, headers = archive.refusals.pop(0)
                return self.refuse(status, code, message, **headers)
            archive.uploads.append(fields)
            labels = json.loads(fields.get("labels", "[]"))
            archive.put(fields["document_id"], fields["file"], "queued", labels=labels, collection=fields["collection"])
        return self.answer(202, {"document_id": fields["document_id"]})


@contextmanager
def gateway_of(archive):
    server = ThreadingHTTPServer(("127.0.0.1", 0), GatewayHandler)
    server.daemon_threads = True
    server.archive = archive
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def archive():
    return Archive()


@pytest.fixture
def sabueso(archive, tmp_path):
    with gateway_of(archive) as url:
        environment = {"SABUESO_URL": url, "SABUESO_API_KEY": "sk-test", "COLUMNS": "200"}

        def call(*words):
            return CliRunner().invoke(app, list(map(str, words)), env=environment)

        yield call


@pytest.fixture
def docs(tmp_path):
    folder = tmp_path / "docs"
    (folder / "sub").mkdir(parents=True)
    for name in ("a.md", "b.md", "sub/c.md"):
        (folder / name).write_text(f"text of {name}")
    return folder


def sent(archive):
    return sorted(upload["document_id"] for upload in archive.uploads)


def test_a_folder_is_sent_and_followed_until_it_is_ready(sabueso, archive, docs):
    (docs / "empty.txt").touch()
    done = sabueso("ingest", docs, "--collection", "contracts", "--label", "hr", "--label", "board", "--language", "es")
    assert done.exit_code == 0, done.output
    assert sent(archive) == ["docs/a.md", "docs/b.md", "docs/sub/c.md"]
    assert {document["status"] for document in archive.documents.values()} == {"ready"}
    upload = archive.uploads[0]
    assert (upload["language"], json.loads(upload["labels"])) == ("es", ["hr", "board"])
    assert "3 sent, 1 empty" in done.output


def test_what_is_there_already_is_not_sent_again(sabueso, archive, docs):
    sabueso("ingest", docs, "--collection", "contracts")
    (docs / "b.md").write_text("changed")
    archive.uploads.clear()
    done = sabueso("ingest", docs, "--collection", "contracts", "--json")
    assert sent(archive) == ["docs/b.md"]
    assert json.loads(done.stdout)["counts"] == {"sent": 1, "skipped": 2, "empty": 0, "failed": 0, "pruned": 0}
    archive.uploads.clear()
    sabueso("ingest", docs, "--collection", "contracts", "--label", "hr")
    assert len(sent(archive)) == 3, "other labels are another document"


def test_jobs_of_a_run_that_was_broken_off_are_taken_up(sabueso, archive, docs):
    archive.put("docs/a.md", b"text of a.md", "queued")
    archive.put("docs/b.md", b"an older text", "queued")
    archive.put("docs/sub/c.md", b"text of sub/c.md", "failed", reason="The service stopped.")
    done = sabueso("ingest", docs, "--collection", "contracts")
    assert done.exit_code == 0, done.output
    assert sent(archive) == ["docs/b.md", "docs/sub/c.md"]
    assert archive.documents["docs/a.md"]["status"] == "ready"


def test_failures_are_listed_with_their_reasons(sabueso, archive, docs):
    (docs / "bad.pdf").write_text("x")
    archive.refused = {"docs/a.md": (400, "invalid_field", "`content` is too large")}
    done = sabueso("ingest", docs, "--collection", "contracts")
    assert done.exit_code == 1
    assert "bad.pdf: It is encrypted." in done.output
    assert "`content` is too large (400 invalid_field)" in done.output
    assert re.search(r"2 sent, 2 failed", done.output)


def test_a_full_queue_is_waited_for(sabueso, archive, docs):
    archive.refusals = [(429, "rate_limit", "Too many documents are waiting", {"retry_after": "1"})] * 5
    done = sabueso("ingest", docs, "--collection", "contracts")
    assert done.exit_code == 0, done.output
    assert len(sent(archive)) == 3


def test_another_collections_document_is_not_moved(sabueso, archive, docs):
    archive.put("docs/a.md", b"text of a.md", collection="policies")
    done = sabueso("ingest", docs, "--collection", "contracts")
    assert done.exit_code == 1
    assert "choose another --prefix" in done.output
    assert sent(archive) == ["docs/b.md", "docs/sub/c.md"]


def test_a_collection_is_made_only_when_asked_for(sabueso, archive, docs):
    missing = sabueso("ingest", docs, "--collection", "new")
    assert (missing.exit_code, sent(archive)) == (1, [])
    assert "Make it with --create" in missing.output
    assert sabueso("ingest", docs, "--collection", "new", "--create", "--language", "es").exit_code == 0
    assert archive.collections["new"] == {"language": "es"}


def test_a_dry_run_changes_nothing(sabueso, archive, docs):
    archive.put("docs/a.md", b"text of a.md")
    archive.put("docs/gone.md", b"gone")
    done = sabueso("ingest", docs, "--collection", "contracts", "--dry-run", "--prune")
    assert sent(archive) == []
    lines = [" ".join(line.split()) for line in done.output.splitlines()]
    assert lines[:4] == ["skipped docs/a.md", "send docs/b.md", "send docs/sub/c.md", "delete docs/gone.md"]
    assert "docs/gone.md" in archive.documents


def test_pruning_deletes_what_is_gone_and_nothing_else(sabueso, archive, docs):
    for id_, fields in {
        "docs/gone.md": {}, "docs/sub/gone.md": {}, "docs2/other.md": {}, "docs/theirs.md": {"collection": "policies"},
    }.items():  # fmt: skip
        archive.put(id_, b"x", **fields)
    kept = sabueso("ingest", docs, "--collection", "contracts", "--prune", "--exclude", "a.md")
    assert kept.exit_code == 1, "a question without an answer is a no"
    assert "docs/gone.md" in archive.documents
    archive.put("docs/a.md", b"left out, not gone")
    done = sabueso("ingest", docs, "--collection", "contracts", "--prune", "--yes", "--exclude", "a.md")
    assert done.exit_code == 0, done.output
    left = {"docs/a.md", "docs/b.md", "docs/sub/c.md", "docs/theirs.md", "docs2/other.md"}
    assert set(archive.documents) == left


def test_a_document_that_was_cancelled_meanwhile_is_named(sabueso, archive, docs):
    archive.looks_until_ready = 10**6
    removing = threading.Timer(
        1.5, lambda: [archive.documents.pop("docs/a.md"), setattr(archive, "looks_until_ready", 0)]
    )
    removing.start()
    done = sabueso("ingest", docs, "--collection", "contracts")
    removing.join()
    assert done.exit_code == 1
    assert "a.md: It was cancelled or replaced" in done.output
    assert "2 sent, 1 failed" in done.output


def test_a_gateway_that_is_not_there_is_named(docs):
    environment = {"SABUESO_URL": "http://127.0.0.1:1", "SABUESO_API_KEY": "sk-test"}
    done = CliRunner().invoke(app, ["ingest", str(docs), "--collection", "contracts"], env=environment)
    assert "cannot be reached" in str(done.exception)


# What starts in the background of a shell ignores the interrupt.
INTERRUPTIBLE = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from services.cli.main import main
main()
"""


@pytest.mark.slow
def test_a_run_that_is_interrupted_says_how_to_go_on(archive, docs):
    archive.looks_until_ready = 10**6
    words = "ingest", docs, "--collection", "contracts"
    with gateway_of(archive) as url:
        process = subprocess.Popen(
            [sys.executable, "-c", INTERRUPTIBLE, *words],
            env=os.environ | {"SABUESO_URL": url, "SABUESO_API_KEY": "sk-test"},
            stderr=subprocess.PIPE,
            text=True,
        )
        deadline = time.monotonic() + 30
        while len(archive.uploads) < 3 and time.monotonic() < deadline:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        try:
            _, said = process.communicate(timeout=20)
        finally:
            process.kill()
    assert process.returncode == 130
    assert " ".join(said.split()) == (
        "Stopped. What was sent goes on by itself; the same command again takes it up and sends the rest."
    )
