"""Gateways that share a real Valkey: what one changes holds in the other, through pauses, kills and restarts."""

import asyncio
import hashlib
import signal
import subprocess
import time
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
import redis
import yaml

from local import ports, valkey
from services.gateway.access.door import open_door
from services.gateway.access.issuing import Issuing, Rights
from services.gateway.access.valkey_store import valkey_access_store
from services.gateway.errors import ApiError
from services.gateway.limits.memory import MemoryLimiter
from services.runtime.tenants import SCOPES, Ceilings, TenantDirectory
from services.runtime.testing import SIGNER

CHIEF = "sk-test-chief"


class OwnValkey:
    """A server that a test may pause, kill and start again with what is on its disk."""

    def __init__(self, folder):
        self._folder, self._port = folder, ports.pick(1, ports.random_start())[0]
        self.url = f"redis://127.0.0.1:{self._port}"
        self.process = None

    def start(self):
        command = valkey.command(self._folder, self._port)
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        deadline = time.monotonic() + 60
        with redis.Redis(port=self._port) as client:
            while True:
                try:
                    client.ping()
                    return
                except redis.RedisError:
                    assert time.monotonic() < deadline
                    time.sleep(0.02)

    def kill(self):
        self.process.kill()
        self.process.wait()


@pytest.fixture
def own_valkey(tmp_path_factory):
    server = OwnValkey(tmp_path_factory.mktemp("valkey"))
    server.start()
    yield server
    if server.process.poll() is None:
        server.process.send_signal(signal.SIGCONT)
        server.kill()


@asynccontextmanager
async def doors(folder, url, count=2, timeout_seconds=10):
    """Gateways' doors on one store. `timeout_seconds` is long where loss is not the matter."""
    keys = [{"id": "chief", "sha256": hashlib.sha256(CHIEF.encode()).hexdigest(), "scopes": ["admin"]}]
    (folder / "acme.yaml").write_text(yaml.safe_dump({"id": "acme", "keys": keys}))
    async with AsyncExitStack() as stack:
        made = []
        for _ in range(count):
            tenants = TenantDirectory(folder)
            store = await stack.enter_async_context(valkey_access_store(url, timeout_seconds=timeout_seconds))
            door = open_door(tenants, folder, SIGNER, store, MemoryLimiter(), look_seconds=0.05)
            made.append(await stack.enter_async_context(door))
        yield made


async def enter(door, key):
    """Who comes in by that key, or the status and code of the refusal."""
    headers = [(b"authorization", f"Bearer {key}".encode())]
    try:
        return (await door.keys.identify({"path": "/v1/usage", "query_string": b"", "headers": headers})).identity
    except ApiError as error:
        return error.status_code, error.code


class Office:
    """Does as the admin API does, at one door."""

    def __init__(self, door):
        self._administration = door.admin.administration
        self._issuing = Issuing(self._administration)
        self._admin = self._administration.admin(door.keys.owner_of(CHIEF))
        self._tenant = self._administration.tenant(self._admin, "acme", time.time())

    async def create(self, name):
        rights = Rights(name, "", SCOPES, ("*",), (), Ceilings(), float("inf"))
        return (await self._issuing.create(self._admin, self._tenant, rights, time.time())).text

    async def revoke(self, name):
        await self._issuing.revoke(self._admin, self._tenant, name, time.time())


async def until(door, key, expected):
    async with asyncio.timeout(60):
        while (found := await enter(door, key)) != expected:
            await asyncio.sleep(0.02)
    return found


REVOKED = 401, "invalid_api_key"


async def test_a_key_opens_both_gateways_at_once_and_none_after_it_was_revoked_at_one(tmp_path, own_valkey):
    async with doors(tmp_path, own_valkey.url) as (one, other):
        office = Office(one)
        key = await office.create("ci")
        assert (await enter(one, key)).principal == (await enter(other, key)).principal == "ci"
        await office.revoke("ci")
        assert await enter(one, key) == REVOKED
        await until(other, key, REVOKED)
        await office.revoke("chief")
        await until(other, CHIEF, REVOKED)


async def test_an_issued_key_and_a_revocation_survive_a_kill_of_valkey(tmp_path, own_valkey):
    async with doors(tmp_path, own_valkey.url, count=1) as (door,):
        office = Office(door)
        kept, revoked = await office.create("kept"), await office.create("revoked")
        await office.revoke("revoked")
        own_valkey.kill()
        assert (await enter(door, kept)).principal == "kept"
        own_valkey.start()
    async with doors(tmp_path, own_valkey.url, count=1) as (door,):
        assert (await enter(door, kept)).principal == "kept"
        assert await enter(door, revoked) == REVOKED


async def test_while_valkey_is_paused_known_keys_go_on_and_nothing_can_be_changed(tmp_path, own_valkey):
    async with doors(tmp_path, own_valkey.url, count=1, timeout_seconds=2) as (door,):
        office = Office(door)
        key = await office.create("ci")
        own_valkey.process.send_signal(signal.SIGSTOP)
        assert (await enter(door, key)).principal == "ci"
        assert (await enter(door, f"{key[:-1]}?"))[0] == 401  # not of the form of issued keys
        assert await enter(door, key[:-4] + "zzzz") == (503, "keys_unavailable")
        with pytest.raises(ApiError) as caught:
            await office.revoke("ci")
        assert (caught.value.status_code, caught.value.code) == (503, "access_store_unavailable")
        own_valkey.process.send_signal(signal.SIGCONT)
        await until(door, key[:-4] + "zzzz", REVOKED)
        await office.revoke("ci")
        assert await enter(door, key) == REVOKED


async def test_a_gateway_that_starts_without_valkey_learns_of_revocations_when_it_is_there(tmp_path, own_valkey):
    async with doors(tmp_path, own_valkey.url, count=1) as (door,):
        office = Office(door)
        key = await office.create("ci")
        await office.revoke("chief")
    own_valkey.kill()
    async with doors(tmp_path, own_valkey.url, count=1) as (door,):
        assert await enter(door, key) == (503, "keys_unavailable")
        assert (await enter(door, CHIEF)).principal == "chief"  # it cannot know
        own_valkey.start()
        await until(door, CHIEF, REVOKED)
        assert (await enter(door, key)).principal == "ci"
