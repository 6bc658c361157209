"""Real servers that several tests share: PostgreSQL and Valkey, started once a session, on loopback."""

import asyncio
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest
import redis

from local import ports, postgres, valkey


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Files made just now, such as a zip with the time in it, would name a test differently in each process."""
    return argname if isinstance(val, bytes) and len(val) > 24 else None


@pytest.fixture(scope="session")
def postgres_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[postgres.Cluster]:
    """A running PostgreSQL; make a database of your own in it."""
    folder = tmp_path_factory.mktemp("postgres")
    folder.parent.chmod(0o755)
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


@pytest.fixture(scope="session")
def valkey_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A running Valkey; use a key prefix or tenant of your own in it."""
    folder: Path = tmp_path_factory.mktemp("valkey")
    port = ports.pick(1, ports.random_start())[0]
    process = subprocess.Popen(valkey.command(folder, port), stdout=subprocess.DEVNULL)
    client = redis.Redis(port=port)
    try:
        for _ in range(1200):
            try:
                client.ping()
                break
            except redis.ConnectionError:
                time.sleep(0.05)
        yield f"redis://127.0.0.1:{port}"
    finally:
        client.close()
        process.terminate()
        process.wait(10)
