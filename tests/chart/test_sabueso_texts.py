"""What charts/sabueso says to people, and what `helm test` asks a release."""

import hashlib
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from local import chart_readme
from services.runtime.tenants import TenantDirectory
from tests.chart.cluster_facts import GOOD, SEED, of_kind, pods, quantity, texts, tryout_values
from tests.chart.sabueso_values import TAKEN_IN, rendered

SMOKE = Path("charts/sabueso/files/smoke.py")
READY = {"/readyz": (200, {"status": "ok"})}
MODELS = {"/v1/models": (200, {"data": [{"id": "sabueso"}]})}
ANSWER = {"/v1/chat/completions": (200, {"choices": [{"message": {"content": "It is so [1]."}}]})}


def test_the_table_of_values_is_current():
    text = Path("charts/sabueso/README.md").read_text()
    table = text.split(chart_readme.BEGIN)[1].split(chart_readme.END)[0].strip()
    assert table == chart_readme.values_table(Path("charts/sabueso/values.yaml")), "run python -m local.chart_readme"


def test_every_key_of_a_service_is_told_of():
    schema = json.loads(Path("charts/sabueso/values.schema.json").read_text())
    table = chart_readme.values_table(Path("charts/sabueso/values.yaml"))
    told = {
        key for line in table.splitlines() if line.count("|") == 3 for key in line.split("|")[1].strip().split(", ")
    }
    # For the understudy alone, which is not like the others.
    assert set(schema["definitions"]["service"]["properties"]) - told == {"http", "port", "paths"}


def test_the_tenant_of_the_tryout_is_one_that_services_can_read(tmp_path):
    (files,) = of_kind(rendered("tryout"), "ConfigMap").values()
    (secret,) = of_kind(rendered("tryout"), "Secret").values()
    (tmp_path / "tryout.yaml").write_text(files["data"]["tryout.yaml"])
    tenant = TenantDirectory(tmp_path).all()["tryout"]
    assert tenant.keys[0].sha256 == hashlib.sha256(secret["stringData"]["api-key"].encode()).hexdigest()
    assert "documents" in tenant.collections


def notes(values):
    return texts(**values)["sabueso/templates/NOTES.txt"]


def test_tenants_are_read_again_as_a_kubelet_changes_them(tmp_path):
    """Files of a mounted ConfigMap are links into a folder that one link names; a change exchanges that link."""
    (files,) = of_kind(rendered("tryout"), "ConfigMap").values()
    text = files["data"]["tryout.yaml"]
    for name, content in (("..first", text), ("..second", text.replace("documents:", "papers:"))):
        (tmp_path / name).mkdir()
        (tmp_path / name / "tryout.yaml").write_text(content)
    (tmp_path / "..data").symlink_to("..first")
    (tmp_path / "tryout.yaml").symlink_to("..data/tryout.yaml")
    tenants = TenantDirectory(tmp_path)
    assert not tenants.reload()
    (tmp_path / "..data_tmp").symlink_to("..second")
    (tmp_path / "..data_tmp").replace(tmp_path / "..data")
    assert tenants.reload()
    assert set(tenants.all()["tryout"].collections) == {"papers"}


def test_notes_say_how_to_call_it_and_what_must_be_there():
    text = notes(TAKEN_IN)
    assert "port-forward svc/try-gateway 8080" in text
    for name in ("sabueso", "tenants", "databases", "mcp", "valkey", "qdrant", "model", "otel", "tenant-keys"):
        assert f"Secret {name}:" in text
    assert "Not for production" not in text


def test_notes_warn_of_what_is_not_for_production():
    text = notes(tryout_values())
    assert "tryout.enabled" in text
    assert "services.understudy.enabled" in text
    assert "services.gateway has one replica" in text
    assert "get secret try-tryout" in text
    assert SEED not in text
    assert "networkPolicy.enabled=false" in notes(GOOD | {"networkPolicy": {"enabled": False}})
    assert "ingress.tlsSecret is empty" in notes(GOOD | {"ingress": {"enabled": True}})


@pytest.mark.parametrize("name", ["tryout", "least"])
def test_what_the_page_says_of_sizes_is_true(name):
    count, cores, size = 0, 0.0, 0.0
    for owner, pod in pods(rendered(name)):
        if owner["kind"] in ("Deployment", "StatefulSet"):
            requests = pod["spec"]["containers"][0]["resources"]["requests"]
            replicas = owner["spec"]["replicas"]
            count += replicas
            cores += replicas * quantity(requests["cpu"])
            size += replicas * quantity(requests["memory"])
    said = f"{count} pods request {cores:.1f} CPU and {size / 2**30:.1f} GiB"
    assert said in Path("docs/install.md").read_text()


@contextmanager
def gateway(answers) -> Iterator[tuple[str, list[tuple[str, str, str]]]]:
    """A server with these answers by path, and what it was asked: (path, authorization, body)."""
    asked: list[tuple[str, str, str]] = []

    class Answering(BaseHTTPRequestHandler):
        def do_GET(self):
            self.answer("")

        def do_POST(self):
            self.answer(self.rfile.read(int(self.headers["Content-Length"])).decode())

        def answer(self, body):
            asked.append((self.path, self.headers.get("Authorization", ""), body))
            status, content = answers.get(self.path, (404, {}))
            text = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answering)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def smoke(url, **environment):
    """The script as its pod runs it."""
    (pod,) = of_kind(rendered("tryout"), "Pod").values()
    container = pod["spec"]["containers"][0]
    command = [sys.executable, *container["command"][1:], *container["args"]]
    environment = {"GATEWAY": url, "QUESTION": "¿Qué hay?", "WAIT_SECONDS": "0", **environment}
    return subprocess.run(command, env=environment, check=False, capture_output=True, text=True, timeout=60)


def test_the_test_asks_one_question_and_is_content_with_an_answer():
    with gateway(READY | MODELS | ANSWER) as (url, asked):
        done = smoke(url, API_KEY="sk-1")
    assert done.returncode == 0, done.stderr
    assert [path for path, _, _ in asked] == ["/readyz", "/v1/models", "/v1/chat/completions"]
    assert {authorization for _, authorization, _ in asked} == {"Bearer sk-1"}
    assert json.loads(asked[-1][2])["messages"] == [{"role": "user", "content": "¿Qué hay?"}]


def test_without_a_key_it_wants_to_be_refused():
    with gateway(READY | {"/v1/models": (401, {})}) as (url, _):
        assert smoke(url).returncode == 0
    with gateway(READY | MODELS) as (url, _):
        done = smoke(url)
    assert done.returncode == 1
    assert "callers without a key are refused" in done.stderr


@pytest.mark.parametrize(
    ("answers", "says"),
    [
        ({"/readyz": (503, {"status": "not ready", "services": {"retrieval": "unavailable"}})}, "unavailable"),
        (READY | {"/v1/models": (200, {"data": []})}, "sabueso"),
        (READY | MODELS | {"/v1/chat/completions": (503, {"error": {"message": "no model"}})}, "no model"),
        (READY | MODELS | {"/v1/chat/completions": (200, {"choices": [{"message": {"content": ""}}]})}, "empty"),
    ],
)
def test_what_is_wrong_is_said(answers, says):
    with gateway(answers) as (url, _):
        done = smoke(url, API_KEY="sk-1")
    assert done.returncode == 1
    assert says in done.stderr


def test_a_gateway_that_is_not_there_is_waited_for_and_then_given_up():
    done = smoke("http://127.0.0.1:9", API_KEY="sk-1")
    assert done.returncode == 1
    assert "answered nothing" in done.stderr
