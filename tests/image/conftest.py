"""Images that were built before: TEST_IMAGES=localhost/sabueso:dev names them. Without it their tests are left out."""

import asyncio
import os
import secrets
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from demo import tenants
from local import image_engine, loading, ports
from local.image_engine import Engine
from local.images import SERVICES, image_of
from local.programs import CALLS
from services.runtime.identity import Signer
from tests.image.containers import Container, Mounts, removed, start

IMAGES = os.environ.get("TEST_IMAGES", "")
collect_ignore = [] if IMAGES else ["test_containers.py"]
RUNNING = tuple(service for service in SERVICES if service not in ("cli", "loadtests"))
_MODEL = "meta-llama/Llama-3.1-70B-Instruct"


@pytest.fixture(scope="session")
def engine() -> Engine:
    if not IMAGES:
        pytest.skip("TEST_IMAGES names no images; `make test-images` builds them and runs this")
    return image_engine.find()


def image(service: str) -> str:
    repository, _, tag = IMAGES.rpartition(":")
    return image_of(service, repository, tag)


@dataclass(frozen=True)
class Containers:
    """All services at work, with the data of the demo."""

    of: dict[str, Container]
    key: str
    home: Path


@pytest.fixture(scope="session")
def containers(engine, postgres_server, valkey_url, tmp_path_factory) -> Iterator[Containers]:
    home = tmp_path_factory.mktemp("containers")
    keys = {"demo": f"sk-sabueso-{secrets.token_urlsafe(16)}"}
    secret = secrets.token_urlsafe(48)
    _lay_out(home, keys, postgres_server)
    found = ports.pick(2 * len(RUNNING), ports.random_start())
    port, metrics = dict(zip(RUNNING, found, strict=False)), dict(zip(RUNNING, found[len(RUNNING) :], strict=True))
    settings = _settings(port, valkey_url, postgres_server.dsn())
    with removed(engine) as started:
        for service in RUNNING:
            environment = {
                "IDENTITY_SECRET": secret,
                "METRICS_PORT": "0" if service in ("gateway", "understudy") else str(metrics[service]),
                **{f"{called.upper()}_ADDRESS": f"127.0.0.1:{port[called]}" for called in CALLS.get(service, ())},
                **settings.get(service, {}),
            }
            variables = {f"SABUESO_{name}": value for name, value in environment.items()}
            started.append(start(engine, image(service), service, port[service], variables, _mounts(home, service)))
        for container in started:
            container.wait_until_healthy()
        addresses = {container.service: container.address for container in started}
        asyncio.run(loading.load_documents(addresses, Signer(secret), home))
        yield Containers({container.service: container for container in started}, keys["demo"], home)


def _lay_out(home: Path, keys: dict[str, str], cluster) -> None:
    """What the chart mounts from a ConfigMap and Secrets, readable by the user of the images."""
    for folder in ("tenants", "secrets", "gateway-keys"):
        (home / folder).mkdir()
    tenants.write_tenants(home / "tenants", keys)
    asyncio.run(loading.load_databases(cluster, home, keys))
    # What pytest makes is for its user alone.
    for folder in (home, *list(home.parents)[:2]):
        folder.chmod(folder.stat().st_mode | stat.S_IXOTH | stat.S_IROTH)
    for path in home.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)


def _mounts(home: Path, service: str) -> Mounts:
    read = {home / "tenants": "/etc/sabueso/tenants", home / "secrets": "/etc/sabueso/databases"}
    needs = service in ("gateway", "orchestrator", "retrieval", "ingestion", "sql_tool", "web_tool")
    return Mounts(read if needs else {}, ("/data",) if service in ("retrieval", "ingestion", "evaluation") else ())


def _settings(port: dict[str, int], valkey_url: str, dsn: str) -> dict[str, dict[str, str]]:
    shared = {"TENANTS_DIR": "/etc/sabueso/tenants"}
    gateway = f"http://127.0.0.1:{port['gateway']}"
    return {
        "retrieval": {"VECTOR_STORE": "edge:/data/vectors"},
        "ingestion": shared | {"VALKEY_URL": valkey_url, "SPOOL_DIR": "/data/spool"},
        "sql_tool": shared | {"SECRETS_DIR": "/etc/sabueso/databases"},
        "web_tool": shared | {"SEARXNG_URL": "http://127.0.0.1:1"},
        "tool_cache": {"VALKEY_URL": valkey_url},
        "evaluation": {
            "GOLDEN_DIR": "/data/golden",
            "RUNS_DIR": "/data/runs",
            "GATEWAY_URL": gateway,
            "RESULTS_DSN": dsn,
        },
        "orchestrator": shared
        | {"MODEL_URL": f"{gateway}/v1", "MODEL_NAME": _MODEL, "MODEL_PROFILE": "openai", "VALKEY_URL": valkey_url},
        "gateway": shared
        | {"VALKEY_URL": valkey_url, "MODEL_URL": f"http://127.0.0.1:{port['understudy']}/v1", "ADMIN_TENANT": "demo"},
        "understudy": {"MODEL_NAME": _MODEL},
    }
