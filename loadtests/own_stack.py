"""A stack of its own for measuring: in a temporary folder, on free ports, with limits that do not get in the way."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx2
import yaml

from loadtests.measuring import NotMeasured
from local import ports
from services.runtime import context
from services.runtime.identity import Signer

_MODELS = Path(".sabueso/models")
_UP_SECONDS, _DOWN_SECONDS = 240, 60
# Limits are on, and counted in Valkey, but never reached.
_LIMITS = {"requests_per_minute": 1_000_000, "tokens_per_minute": 1_000_000_000, "concurrent_requests": 1_000}


class OwnStack:
    """Stopped and forgotten at the end of the `with` block. The demo's data stay between `up`s."""

    def __enter__(self) -> Self:
        # A killed run stops its stack too, as an interrupted one does.
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        self.home = Path(tempfile.mkdtemp(prefix="sabueso-bench-"))
        (self.home / "models").symlink_to(_MODELS.resolve())
        self.profile = ""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        try:
            self.down()
        finally:
            shutil.rmtree(self.home, ignore_errors=True)

    def up(self, profile: str) -> float:
        """Starts it and answers the seconds until it served. Raises NotMeasured."""
        self.down()
        port = ports.pick(1, ports.random_start())[0]
        began = time.monotonic()
        ran = self._stack(_UP_SECONDS, "up", "--detach", "--port", str(port), "--profile", profile)
        seconds = time.monotonic() - began
        if ran.returncode != 0:
            raise NotMeasured(f"the stack does not start:\n{ran.stdout}{ran.stderr}")
        self.profile = profile
        self._raise_limits()
        return seconds

    def down(self) -> None:
        """Stops it, if it runs."""
        self._stack(_DOWN_SECONDS, "down")
        self.profile = ""

    def memory_mib(self) -> dict[str, float]:
        """Proportional set size by process, and `total`, as `make status` shows it."""
        found: dict[str, float] = {}
        for line in self._stack(30, "status").stdout.splitlines():
            words = line.split()
            if "MiB" in words:
                found[words[0]] = float(words[words.index("MiB") - 1])
        return found

    @property
    def url(self) -> str:
        """Of the gateway."""
        return self._env()["SABUESO_URL"]

    @property
    def key(self) -> str:
        """API key of the tenant `demo`."""
        return self._env()["SABUESO_API_KEY"]

    def address(self, service: str) -> str:
        """host:port of any process of the stack."""
        plan: dict[str, Any] = json.loads((self.home / "plan.json").read_text())
        return f"127.0.0.1:{plan['ports'][service]}"

    def enter_as_demo(self) -> None:
        """Makes the current task a caller of tenant `demo`, for calls to services behind the gateway."""
        identity = context.Identity("demo", "bench")
        token = Signer((self.home / "identity-secret").read_text()).sign(identity)
        context.enter(context.CallContext(identity, token))

    def database_dsn(self) -> str:
        """Of the demo's tables, with the rights of the SQL tool."""
        return (self.home / "secrets" / "demo.dsn").read_text()

    def _env(self) -> dict[str, str]:
        return dict(line.split("=", 1) for line in (self.home / "env").read_text().splitlines())

    def _stack(self, seconds: float, *words: str) -> subprocess.CompletedProcess[str]:
        try:
            return subprocess.run(
                [sys.executable, "-m", "local.stack", *words],
                env={"SABUESO_UP_SECONDS": "200"} | os.environ | {"SABUESO_HOME": str(self.home)},
                capture_output=True,
                text=True,
                check=False,
                timeout=seconds,
            )
        except subprocess.TimeoutExpired:
            raise NotMeasured(f"`{words[0]}` of the stack took longer than {seconds:.0f} s") from None

    def _raise_limits(self) -> None:
        path = self.home / "tenants" / "demo.yaml"
        tenant = yaml.safe_load(path.read_text(encoding="utf-8"))
        half = path.with_suffix(".new")
        # In the order of the file: that of a verified query's parameters matters.
        changed = yaml.safe_dump(tenant | {"limits": _LIMITS}, allow_unicode=True, sort_keys=False)
        half.write_text(changed, encoding="utf-8")
        half.replace(path)
        headers = {"authorization": f"Bearer {self.key}"}
        with httpx2.Client(base_url=self.url, headers=headers, trust_env=False) as http:
            for _ in range(100):
                limit = http.get("/v1/models").headers.get("x-ratelimit-limit-requests")
                if limit == str(_LIMITS["requests_per_minute"]):
                    return
                time.sleep(0.1)
        raise NotMeasured("the gateway does not read its tenants' files again")
