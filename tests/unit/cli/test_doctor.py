"""`sabueso doctor`: every fault that it knows, put into an installation that is otherwise well."""

import json
import ssl
import threading
import tomllib
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import trustme

from services.cli.config import Settings
from services.cli.doctor import address, knowledge
from services.runtime.release import VERSION

EMBEDDER, LLAMA = "e5@1", "llama"
SERVICES = ["orchestrator", "retrieval", "ingestion", "embedding", "reranking", "web_tool", "tool_cache"]
CALL = {"id": "c", "type": "function", "function": {"name": "vector_search", "arguments": '{"query": "hotels"}'}}


def ready(**changed):
    states = {"services": dict.fromkeys(SERVICES, "ok"), "pools": {"default": "ok"}, "limits": "ok"}
    return {"status": "ok", **states, **changed}


def usage(**changed):
    return {"tenant": "acme", "key": "all", "scopes": ["agent", "documents", "models", "search"], **changed}


def collection(**changed):
    return {"name": "policies", "document_count": 3, "embedding_model": EMBEDDER, "migration": None, **changed}


def said(message):
    return {"choices": [{"message": message}]}


def answer(**changed):
    return said({"content": "[1]"}) | {
        "sabueso": {"strategy": "react", "finish": "answered", "degraded": [], **changed}
    }


def models(*pool):
    owners = [("sabueso", "sabueso"), *((name, "pool") for name in pool), (EMBEDDER, "embedding")]
    return {"data": [{"id": id_, "owned_by": owner} for id_, owner in owners]}


def refusal(status, code, message="Refused."):
    return status, {"error": {"code": code, "message": message}}


HEALTHY = {
    "GET /healthz": [(200, {"status": "ok"})],
    "GET /openapi.json": [(200, {"info": {"version": VERSION}})],
    "GET /readyz": [(200, ready())],
    "GET /v1/usage": [(200, usage())],
    "GET /v1/models": [(200, models(LLAMA))],
    "POST /v1/embeddings": [(200, {"data": [{"embedding": [0.1] * 4}]})],
    "GET /v1/collections": [(200, {"data": [collection()]})],
    "POST /v1/search": [(200, {"results": [{}], "degraded": []})],
    "GET /v1/documents?limit=100&after=": [(200, {"data": [{"document_id": "a", "status": "ready"}]})],
    "POST /v1/chat/completions": [(200, said({"content": None, "tool_calls": [CALL]})), (200, answer())],
}
TOOL_REFUSED = refusal(400, "BadRequestError", '"auto" tool choice requires --enable-auto-tool-choice')
# What is changed, and what is found: the check, how bad it is, and words of it.
FAULTS = [
    ("GET /healthz", [(502, {})], "gateway", "error", "answers 502"),
    ("GET /openapi.json", [(404, {})], "version", "warning", "does not say"),
    ("GET /openapi.json", [(200, {"info": {"version": "9.9"}})], "version", "warning", "is 9.9"),
    ("GET /readyz", [(503, {"status": "draining"})], "gateway", "warning", "draining"),
    ("GET /readyz", [(503, {})], "services", "error", "answers 503"),
    ("GET /readyz", [(200, ready(limits="degraded"))], "limits", "warning", "each gateway"),
    ("GET /readyz", [(200, ready(pools={"big": "0 of 2 replicas"}))], "models", "error", "`big`: 0 of 2"),
    ("GET /readyz", [(200, ready(pools={"big": "1 of 2 replicas"}))], "models", "warning", "`big`: 1 of 2"),
    ("GET /readyz", [(503, ready(services={"retrieval": "unavailable"}))], "services", "error", "retrieval: unavail"),
    ("GET /readyz", [(200, ready(services={"web_tool": "not serving"}))], "services", "warning", "web_tool: not"),
    ("GET /readyz", [(200, ready(services={"brand_new": "unknown"}))], "services", "warning", "brand_new"),
    ("GET /v1/usage", [refusal(401, "invalid_api_key")], "key", "error", "is refused"),
    ("GET /v1/usage", [refusal(500, "internal")], "key", "error", "cannot be looked at"),
    ("GET /v1/usage", [(200, usage(scopes=["agent", "models"]))], "key", "warning", "does not open: search"),
    (
        "GET /v1/usage",
        [(200, usage(daily_tokens={"limit": 1000, "remaining": 7}))],
        "key",
        "warning",
        "7 of 1000 daily tokens of the tenant",
    ),
    ("GET /v1/models", [(200, models())], "models", "error", "no pool"),
    ("GET /v1/models", [(200, {"data": []})], "embedding", "error", "lists no embedding model"),
    ("POST /v1/embeddings", [refusal(503, "overloaded")], "embedding", "error", "gives no vectors"),
    ("GET /v1/collections", [(200, {"data": []})], "documents", "warning", "no collection"),
    ("GET /v1/collections", [(200, {"data": [collection(document_count=0)]})], "documents", "warning", "no document"),
    ("GET /v1/collections", [(200, {"data": [collection(embedding_model="old")]})], "embedding", "error", "of `old`"),
    (
        "GET /v1/collections",
        [(200, {"data": [collection(migration={"state": "failed"})]})],
        "documents",
        "warning",
        "migration of `policies` failed",
    ),
    (
        "GET /v1/collections",
        [(200, {"data": [collection(differs="Of collection `policies` `shard_number` is 1, not 3.")]})],
        "documents",
        "warning",
        "`shard_number` is 1, not 3",
    ),
    ("POST /v1/search", [refusal(400, "MODEL_MISMATCH")], "documents", "error", "MODEL_MISMATCH"),
    ("POST /v1/search", [(200, {"results": [], "degraded": []})], "search", "warning", "finds nothing"),
    (
        "POST /v1/search",
        [(200, {"results": [{}], "degraded": ["reranking"]})],
        "search",
        "warning",
        "without reranking",
    ),
    (
        "GET /v1/documents?limit=100&after=",
        [(200, {"data": [{"document_id": "a", "status": "failed", "reason": "needs OCR"}]})],
        "documents",
        "warning",
        "1 or more could not",
    ),
    ("POST /v1/chat/completions", [TOOL_REFUSED, (200, answer())], "models", "error", "refuses tools"),
    ("POST /v1/chat/completions", [refusal(429, "limit"), (200, answer())], "models", "warning", "was not asked"),
    ("POST /v1/chat/completions", [refusal(503, "overloaded"), (200, answer())], "models", "error", "answers"),
    (
        "POST /v1/chat/completions",
        [(200, said({"content": '<tool_call>{"name": "vector_search"}'})), (200, answer())],
        "models",
        "warning",
        "in its text",
    ),
    ("POST /v1/chat/completions", [(200, said({"content": "Ok."})), (200, answer())], "models", "warning", "did not"),
    (
        "POST /v1/chat/completions",
        [(200, said({"tool_calls": [{"function": {"name": "v", "arguments": "{"}}]})), (200, answer())],
        "models",
        "warning",
        "badly",
    ),
    (
        "POST /v1/chat/completions",
        [
            HEALTHY["POST /v1/chat/completions"][0],
            (200, answer(degraded=[{"service": "tool_cache", "reason": "lost"}])),
        ],
        "agent",
        "warning",
        "without tool_cache: lost",
    ),
    (
        "POST /v1/chat/completions",
        [HEALTHY["POST /v1/chat/completions"][0], (200, answer(finish="partial", reason="deadline"))],
        "agent",
        "warning",
        "cut short: deadline",
    ),
    (
        "POST /v1/chat/completions",
        [HEALTHY["POST /v1/chat/completions"][0], refusal(503, "dependency_failed")],
        "agent",
        "error",
        "dependency_failed",
    ),
]


def test_the_release_is_that_of_the_project():
    assert tomllib.loads(Path("pyproject.toml").read_text())["project"]["version"] == VERSION


def answers(**changed):
    return {asked: list(given) for asked, given in (HEALTHY | changed).items()}


def examined(sabueso, *words):
    done = sabueso("doctor", "--json", *words)
    return done, json.loads(done.stdout)


def test_a_healthy_installation_has_no_finding_and_status_0(sabueso, gateway):
    gateway.answers = answers()
    done, told = examined(sabueso)
    assert done.exit_code == 0, done.output
    assert told["ok"]
    assert {one["status"] for one in told["findings"]} == {"ok"}, told["findings"]
    assert not any(gateway.answers.values()), "something was not looked at"


@pytest.mark.parametrize(
    ("asked", "given", "check", "status", "words"), FAULTS, ids=[f"{f[2]}: {f[4]}" for f in FAULTS]
)
def test_a_fault_is_found_with_its_cause_and_what_mends_it(sabueso, gateway, asked, given, check, status, words):
    gateway.answers = answers(**{asked: given})
    done, told = examined(sabueso)
    found = [one for one in told["findings"] if one["status"] in ("warning", "error")]
    assert [(one["check"], one["status"]) for one in found if words in one["what"]] == [(check, status)], found
    assert all(one["fix"] for one in found)
    assert done.exit_code == (1 if "error" in {one["status"] for one in found} else 0)
    assert told["ok"] is (done.exit_code == 0)


def test_a_warning_fails_only_where_one_is_strict(sabueso, gateway):
    gateway.answers = answers(**{"GET /v1/collections": [(200, {"data": []})]})
    assert sabueso("doctor", "--strict").exit_code == 1


def test_people_read_what_why_and_how_to_mend_it(sabueso, gateway):
    gateway.answers = answers(**{"GET /readyz": [(503, ready(services={"embedding": "unavailable"}))]})
    done = sabueso("doctor", "--quick")
    assert done.exit_code == 1
    assert "✗ services   embedding: unavailable" in done.stdout
    assert "why  Nobody listens there" in done.stdout
    assert "kubectl logs deploy/<release>-embedding" in done.stdout
    assert "1 errors" in done.stdout
    assert len(gateway.answers["POST /v1/chat/completions"]) == 2, "a model was asked"


@pytest.mark.parametrize(
    ("url", "key", "words"),
    [
        ("http://127.0.0.1:1/v1", "sk", "ends in /v1"),
        ("gateway.example.org", "sk", "is no address"),
        ("http://gateway.example.org", "sk", "unencrypted"),
        ("http://127.0.0.1:1", "", "no API key"),
        ("http://127.0.0.1:1", "sk-1\n", "more than the key"),
        ("http://127.0.0.1:1", "Bearer sk-1", "more than the key"),
    ],
)
def test_a_wrong_setting_is_named_before_anything_is_asked(url, key, words):
    found = list(address.settings_faults(Settings(url=url, api_key=key)))
    assert len(found) == 1
    assert words in found[0].what
    assert found[0].fix


@pytest.mark.parametrize(
    "url", ["http://localhost:8080", "http://[::1]:80", "http://sabueso-gateway.rag.svc:8080", "https://a.example.org"]
)
def test_an_address_inside_or_with_tls_is_right(url):
    assert list(address.settings_faults(Settings(url=url, api_key="sk-1"))) == []


def test_a_gateway_that_nobody_runs_ends_the_look(sabueso, gateway):
    gateway.shutdown()
    gateway.server_close()
    done, told = examined(sabueso)
    assert done.exit_code == 1
    assert [one["status"] for one in told["findings"]] == ["error", "skipped"]


@pytest.mark.parametrize(
    ("seconds", "status"), [(0, "ok"), (-3, "ok"), (20, "warning"), (-20, "warning"), (3600, "error")]
)
def test_clocks_may_differ_by_a_few_seconds(seconds, status):
    now = datetime(2027, 1, 1, 12, tzinfo=UTC)
    date = (now + timedelta(seconds=seconds)).strftime("%a, %d %b %Y %H:%M:%S GMT")
    assert [one.status for one in address.clock(date, now, now + timedelta(seconds=1))] == [status]


def test_an_answer_without_a_clock_says_nothing_of_it():
    now = datetime.now(UTC)
    assert list(address.clock("", now, now)) == []


class Healthy(BaseHTTPRequestHandler):
    def log_message(self, *arguments):
        pass

    def do_GET(self):
        self.send_response(200)
        self.end_headers()


@pytest.fixture(scope="module")
def secured(tmp_path_factory):
    """Settings of a gateway with TLS of an authority of its own, whose certificate ends in 2040."""
    authority = trustme.CA()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Healthy)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1", not_after=datetime(2040, 1, 1, tzinfo=UTC)).configure_cert(context)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    file = tmp_path_factory.mktemp("authority") / "ca.pem"
    authority.cert_pem.write_to_path(str(file))
    yield Settings(url=f"https://127.0.0.1:{server.server_port}", api_key="sk-1", ca_file=str(file))
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_certificate_of_ones_own_authority_is_right_where_it_is_named(secured):
    found = [*address.certificate(secured, datetime.now(UTC)), *address.reached(secured)]
    assert {one.status for one in found} == {"ok"}, found
    assert "2040-01-01" in found[0].what


def test_a_certificate_that_nobody_trusts_is_wrong(secured):
    stranger = Settings(url=secured.url, api_key="sk-1", ca_file="")
    found = [*address.certificate(stranger, datetime.now(UTC)), *address.reached(stranger)]
    assert [one.status for one in found] == ["error", "error"]
    assert "SABUESO_CA_FILE" in found[0].fix


def test_a_certificate_that_ends_soon_is_told(secured):
    [found] = address.certificate(secured, datetime(2039, 12, 20, tzinfo=UTC))
    assert found.status == "warning"
    assert "12 days" in found.what


def test_plain_http_where_tls_was_meant_is_told(gateway):
    settings = Settings(url=f"https://127.0.0.1:{gateway.server_port}", api_key="sk-1")
    [found] = address.certificate(settings, datetime.now(UTC))
    assert found.status == "error"
    assert "no TLS" in found.what


def place(points, size=4, status="green"):
    params = {"vectors": {"dense": {"size": size}, "tokens": {"size": 9}}}
    return (200, {"result": {"points_count": points, "status": status, "config": {"params": params}}})


NAMES = [{"name": "sabueso-chunks-e5"}, {"name": "sabueso-registry"}, {"name": "somebody-elses"}]


@pytest.mark.parametrize(
    ("version", "one", "status", "words"),
    [
        ("1.20.0", place(7), "ok", "7 passages"),
        ("1.12.4", place(7), "error", "1.19 or newer"),
        ("1.20.0", place(0), "warning", "no passage"),
        ("1.20.0", place(7, size=8), "error", "vectors of 4 values"),
        ("1.20.0", place(7, status="red"), "error", "is red"),
        ("1.20.0", (401, {}), "error", "answers 401"),
    ],
)
def test_a_qdrant_server_is_looked_at_itself(gateway, version, one, status, words):
    gateway.answers = {
        "GET /": [(200, {"version": version})],
        "GET /collections": [(200, {"result": {"collections": NAMES}})],
        "GET /collections/sabueso-chunks-e5": [one],
    }
    found = list(knowledge.vector_store(f"qdrant:http://127.0.0.1:{gateway.server_port}", "key", 4))
    assert [f.status for f in found if words in f.what + f.why] == [status], found


def test_a_store_within_the_service_is_not_asked():
    assert [one.status for one in knowledge.vector_store("edge:vectors", "", 4)] == ["skipped"]
