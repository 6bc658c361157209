"""A gateway that answers from a list, and the `sabueso` command that speaks to it."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from typer.testing import CliRunner

from services.cli.main import app


def event_of(value):
    """A server-sent event."""
    return f"data: {value if isinstance(value, str) else json.dumps(value)}\n\n".encode()


class ScriptedHandler(BaseHTTPRequestHandler):
    """Answers each call from a list, and remembers what was asked. An answer that is a list itself is a stream."""

    def log_message(self, *arguments):
        pass

    def do_GET(self):
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        asked = f"{self.command} {self.path}", json.loads(body) if body else None
        self.server.asked.append(asked)
        status, answer = self.server.answers[asked[0]].pop(0)
        streamed = isinstance(answer, list)
        content = b"".join(map(event_of, [*answer, "[DONE]"])) if streamed else json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("content-type", "text/event-stream" if streamed else "application/json")
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_PUT = do_POST = do_PATCH = do_DELETE = do_GET


@pytest.fixture
def gateway():
    server = ThreadingHTTPServer(("127.0.0.1", 0), ScriptedHandler)
    server.asked, server.answers = [], {}
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def sabueso(gateway):
    def call(*words):
        environment = {"SABUESO_URL": f"http://127.0.0.1:{gateway.server_port}", "SABUESO_API_KEY": "sk-test"}
        return CliRunner().invoke(app, list(words), env=environment)

    return call
