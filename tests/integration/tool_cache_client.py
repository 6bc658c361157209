"""What tests of the tool cache share: the service, its requests, a Valkey of one's own."""

import os
import signal
import subprocess
import sys
import time
from contextlib import asynccontextmanager, contextmanager

import pytest
import redis
from google.protobuf.duration_pb2 import Duration
from grpc import aio
from prometheus_client import REGISTRY

from local import ports, valkey
from sabueso.tool_cache.v1 import tool_cache_pb2 as pb
from sabueso.tool_cache.v1 import tool_cache_pb2_grpc as rpc
from services.runtime import errors
from services.runtime.channels import connect
from services.runtime.testing import SECRET, running
from services.tool_cache.config import Settings
from services.tool_cache.server import DESCRIPTOR, build

MINUTE = Duration(seconds=60)


@asynccontextmanager
async def serving(url, **settings):
    """A stub of a service in this process."""
    async with running(build(Settings(identity_secret=SECRET, valkey_url=url, **settings))) as channel:
        yield rpc.ToolCacheServiceStub(channel)


@contextmanager
def service_processes(url, count, **settings):
    """Addresses of services in processes of their own, and the processes. Nothing survives the block."""
    names = ports.pick(count, ports.random_start())
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SABUESO_")}
    environment |= {"SABUESO_IDENTITY_SECRET": SECRET, "SABUESO_VALKEY_URL": url, "SABUESO_HOST": "127.0.0.1"}
    environment |= {f"SABUESO_{name.upper()}": str(value) for name, value in settings.items()}
    command = [sys.executable, "-m", "services.tool_cache.server"]
    processes = [
        subprocess.Popen(
            command,
            env={**environment, "SABUESO_PORT": str(port), "SABUESO_METRICS_PORT": "0"},
            stderr=subprocess.DEVNULL,
        )
        for port in names
    ]
    try:
        yield [f"127.0.0.1:{port}" for port in names], processes
    finally:
        for process in processes:
            process.kill()
            process.wait()


@asynccontextmanager
async def stub_of(address):
    async with connect(address, DESCRIPTOR) as channel:
        await channel.channel_ready()
        yield rpc.ToolCacheServiceStub(channel)


class OwnValkey:
    """A Valkey that a test may stop, kill and misconfigure."""

    def __init__(self, folder):
        self._folder = folder
        self._port = ports.pick(1, ports.random_start())[0]
        self.url = f"redis://127.0.0.1:{self._port}"
        self.client = redis.Redis(port=self._port, retry=None, socket_timeout=5)
        self.start()

    def start(self):
        self._process = subprocess.Popen(valkey.command(self._folder, self._port), stdout=subprocess.DEVNULL)
        for _ in range(400):
            try:
                self.client.ping()
                return
            except redis.RedisError:
                time.sleep(0.02)
        raise TimeoutError("Valkey did not start")

    def freeze(self):
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self):
        self._process.send_signal(signal.SIGCONT)

    def kill(self):
        self._process.kill()
        self._process.wait()

    def close(self):
        self.kill()
        self.client.close()


def call(arguments="{}", tool="sql_query", version="1", **fields):
    return pb.Call(tool=tool, arguments_json=arguments, version=version, **fields)


def entry(value=b"1", arguments="{}", ttl=MINUTE, sources=(), snapshot=0, token="", **fields):
    return pb.Entry(
        call=call(arguments, **fields), value=value, ttl=ttl, sources=sources, snapshot=snapshot, lease_token=token
    )


async def put(cache, *entries):
    return (await cache.BatchPut(pb.BatchPutRequest(entries=entries))).stored_count


async def get(cache, *calls, lease=False):
    return list((await cache.BatchGet(pb.BatchGetRequest(calls=calls or [call()], lease=lease))).lookups)


async def wait(cache, seconds=5.0, **fields):
    request = pb.WaitRequest(call=call(**fields))
    request.timeout.FromNanoseconds(int(seconds * 1e9))
    return (await cache.Wait(request)).lookup


async def release(cache, token, **fields):
    await cache.Release(pb.ReleaseRequest(leases=[pb.Lease(call=call(**fields), token=token)]))


async def invalidate(cache, *sources, tool=""):
    await cache.Invalidate(pb.InvalidateRequest(tool=tool, sources=sources))


async def refused(awaitable, kind):
    with pytest.raises(aio.AioRpcError) as caught:
        await awaitable
    error = errors.from_rpc(caught.value, "tool_cache")
    assert isinstance(error, kind), caught.value
    return error


async def result_of(cache, tool, arguments="{}"):
    """One caller, as the orchestrator is one: looks up, then waits or runs `tool`, and puts what it made."""
    [found] = await get(cache, call(arguments), lease=True)
    if not found.hit and not found.lease_token:
        found = await wait(cache, arguments=arguments)
    if found.hit:
        return found.value
    try:
        value = await tool()
    except BaseException:
        if found.lease_token:
            await release(cache, found.lease_token, arguments=arguments)
        raise
    await put(cache, entry(value, arguments, snapshot=found.snapshot, token=found.lease_token))
    return value


def entry_names(server, tenant, kind="e"):
    return server.keys(f"sabueso:cache:{{{tenant}}}:{kind}:*")


def counted(metric, **labels):
    return REGISTRY.get_sample_value(f"sabueso_tool_cache_{metric}_total", labels) or 0
