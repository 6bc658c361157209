"""A gateway as a process of its own, with nothing behind it but a model server."""

import asyncio
import hashlib
import os
import sys
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import httpx2
import yaml

from local import ports
from services.runtime.testing import SECRET

KEY = "sk-test-process"


@dataclass
class GatewayProcess:
    url: str
    process: asyncio.subprocess.Process
    http: httpx2.AsyncClient = field(repr=False)

    def resident_bytes(self):
        with open(f"/proc/{self.process.pid}/statm") as pages:
            return int(pages.read().split()[1]) * os.sysconf("SC_PAGESIZE")

    def chat(self, **fields):
        return {"model": "mini-1", "messages": [{"role": "user", "content": "¿Cuántos?"}], **fields}

    def asking(self, **fields):
        """A stream to be read as it comes."""
        return self.http.stream("POST", "/v1/chat/completions", json=self.chat(stream=True, **fields))


@asynccontextmanager
async def gateway_process(folder, valkey_url, model_url, *, log=None, **settings):
    """It answers requests when the block begins, and is killed if it still runs at its end. `log`: an open file."""
    key = {"id": "all", "sha256": hashlib.sha256(KEY.encode()).hexdigest()}
    (folder / "demo.yaml").write_text(yaml.safe_dump({"id": "demo", "keys": [key]}))
    port = ports.pick(1, ports.random_start())[0]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SABUESO_")} | {
        "SABUESO_HOST": "127.0.0.1",
        "SABUESO_PORT": str(port),
        "SABUESO_METRICS_PORT": "0",
        "SABUESO_IDENTITY_SECRET": SECRET,
        "SABUESO_TENANTS_DIR": str(folder),
        "SABUESO_VALKEY_URL": valkey_url,
        "SABUESO_MODEL_URL": f"{model_url}/v1",
        **settings,
    }
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "services.gateway.server", env=environment, stderr=log or asyncio.subprocess.DEVNULL
    )
    url = f"http://127.0.0.1:{port}"
    headers = {"authorization": f"Bearer {KEY}"}
    try:
        async with httpx2.AsyncClient(base_url=url, timeout=60, trust_env=False, headers=headers) as http:
            await _until_served(http, process)
            yield GatewayProcess(url, process, http)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def _until_served(http, process):
    async with asyncio.timeout(60):
        while True:
            assert process.returncode is None
            try:
                await http.get("/healthz")
            except httpx2.TransportError:
                await asyncio.sleep(0.05)
            else:
                return
