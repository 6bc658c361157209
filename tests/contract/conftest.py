"""Servers that several contracts need."""

import subprocess
import time

import pytest
import redis

from local import ports, valkey


@pytest.fixture(scope="module")
def cluster_url(tmp_path_factory):
    """A cluster of one node, which speaks as large ones do."""
    port, bus = ports.pick(2, ports.random_start())
    options = ["--cluster-enabled", "yes", "--cluster-port", str(bus)]
    command = [*valkey.command(tmp_path_factory.mktemp("cluster"), port), *options]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    try:
        with redis.Redis(port=port) as client:
            while True:
                try:
                    client.execute_command("CLUSTER ADDSLOTSRANGE", 0, 16383)
                    break
                except redis.ConnectionError:
                    assert time.monotonic() < deadline
                    time.sleep(0.02)
            while client.execute_command("CLUSTER INFO")["cluster_state"] != "ok":
                assert time.monotonic() < deadline
                time.sleep(0.02)
        yield f"redis://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()
