"""Single processes for measurements that need no whole stack: each listens, and is ended at the end of its block."""

import contextlib
import hashlib
import json
import os
import subprocess
import tempfile
import time
from collections.abc import Collection, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from loadtests.measuring import NotMeasured
from local import ports

_START_SECONDS = 60


@contextmanager
def process(
    name: str,
    command: Sequence[str],
    cores: Collection[int],
    port: int,
    environment: Mapping[str, str] | None = None,
) -> Generator[int]:
    """A process on `cores` that listens on `port`; its id. Raises NotMeasured when it does not start."""
    with tempfile.TemporaryFile() as output:
        started = subprocess.Popen(
            command, stdout=output, stderr=output, env={**os.environ, **(environment or {})}, start_new_session=True
        )
        os.sched_setaffinity(started.pid, cores)
        try:
            end = time.monotonic() + _START_SECONDS
            while ports.is_free(port):
                if started.poll() is not None or time.monotonic() > end:
                    output.seek(0)
                    raise NotMeasured(f"{name} does not start: {output.read()[-1000:].decode(errors='replace')}")
                time.sleep(0.05)
            yield started.pid
        finally:
            started.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                started.wait(10)
            started.kill()
            started.wait()


def write_tenant(home: Path, tenant: str, key: str, limits: Mapping[str, Any]) -> None:
    """A tenant's file with one key."""
    (home / "tenants").mkdir(exist_ok=True)
    keys = [{"id": "default", "sha256": hashlib.sha256(key.encode()).hexdigest()}]
    (home / "tenants" / f"{tenant}.yaml").write_text(json.dumps({"id": tenant, "keys": keys, "limits": limits}))


def gateway_environment(home: Path, port: int, model_url: str, store: int, **settings: str) -> dict[str, str]:
    """Settings of a gateway on `port`, without an agent behind it."""
    named = {
        "HOST": "127.0.0.1",
        "PORT": str(port),
        "METRICS_PORT": "0",
        "IDENTITY_SECRET": "for-benches-only-for-benches-only",
        "TENANTS_DIR": str(home / "tenants"),
        "VALKEY_URL": f"redis://127.0.0.1:{store}",
        "MODEL_URL": model_url,
        "SHUTDOWN_GRACE_SECONDS": "1",
        **settings,
    }
    return {f"SABUESO_{name}": value for name, value in named.items()}
