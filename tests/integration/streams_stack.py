"""The gateway in process, with one faulty model server behind it."""

import asyncio
import hashlib
import json
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import httpx2
import yaml

from services.gateway.pools.pool import pool_at
from services.understudy.faults import FaultyServer, faulty
from tests.integration.gateway_stack import Stack, events_of, gateway_stack, key_of

BODY_BYTES = 1_100_000
# Whose tokens do not trickle back, so that what was charged can be read.
LIMITS = {"daily_tokens": 1_000_000_000, "tokens_per_minute": 0, "requests_per_minute": 0, "body_bytes": BODY_BYTES}
METERED = {"id": "metered", "limits": LIMITS}
# No background task may touch the server but at the start.
QUIET = {"health": {"interval_seconds": 300, "load_interval_seconds": 60}, "affinity": "none"}


@dataclass
class Door:
    """Asks the gateway, and sees what the model server saw."""

    stack: Stack
    mock: FaultyServer
    http: httpx2.AsyncClient = field(repr=False)

    def body(self, **fields):
        return {"model": "mini-1", "messages": [{"role": "user", "content": "¿Cuántos?"}], "stream": True, **fields}

    def asking(self, path="/v1/chat/completions", **fields):
        """A response to be read as it comes."""
        return self.http.stream("POST", path, json=self.body(**fields))

    async def ask(self, path="/v1/chat/completions", **fields):
        return await self.http.post(path, json=self.body(**fields))

    async def used(self):
        """Tokens that have been charged, once nothing runs any more."""
        async with asyncio.timeout(30):
            while True:
                usage = (await self.http.get("/v1/usage")).json()
                if usage["concurrent_requests"]["used"] == 1:  # this one
                    return usage["daily_tokens"]["used"]
                await asyncio.sleep(0.02)


@asynccontextmanager
async def streams_stack(tmp_path_factory, **options):
    """`options`: of the pool."""
    tenants, web = tmp_path_factory.mktemp("tenants"), tmp_path_factory.mktemp("web")
    (web / "index.html").write_text("<!doctype html>")
    key = key_of("metered")
    tenant = {**METERED, "keys": [{"id": "all", "sha256": hashlib.sha256(key.encode()).hexdigest()}]}
    (tenants / "metered.yaml").write_text(yaml.safe_dump(tenant))
    async with faulty() as mock:
        models = pool_at(f"{mock.url}/v1", models=["mini-1"], **{**QUIET, **options})
        async with gateway_stack(tenants, web, models=models) as stack:
            headers = {"authorization": f"Bearer {key}"}
            limits = httpx2.Limits(max_connections=None)
            async with httpx2.AsyncClient(
                base_url=stack.url, timeout=60, trust_env=False, headers=headers, limits=limits
            ) as http:
                yield Door(stack, mock, http)


def text_of(body):
    """The answer's text, its error's code if there is one, and whether it said that it was done."""
    events = events_of(body)
    chunks = [event for event in events if event != "[DONE]"]
    choices = [choice for chunk in chunks for choice in chunk.get("choices", ())]
    text = "".join(choice["delta"].get("content") or "" for choice in choices)
    codes = [chunk["error"]["code"] for chunk in chunks if "error" in chunk]
    return text, codes[0] if codes else None, "[DONE]" in events


def dumps(value):
    return json.dumps(value).encode()
