"""Starts embedding and reranking, by the servers of their own and on Ray, beside an embedding service of the test's."""

import asyncio
import contextlib
import os
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import psutil
import pytest
import yaml
from grpc import aio
from grpc_health.v1 import health_pb2, health_pb2_grpc

from local import ports
from sabueso.embedding.v1 import embedding_pb2 as pb
from sabueso.embedding.v1 import embedding_pb2_grpc as rpc
from sabueso.reranking.v1 import reranking_pb2 as reranking_pb
from sabueso.reranking.v1 import reranking_pb2_grpc as reranking_rpc
from sabueso.type.v1.vectors_pb2 import TokenVectors
from services.runtime.channels import connect
from services.runtime.testing import SECRET, act_as

RAY = Path(".sabueso/clients/ray")
STARTS_WITHIN_SECONDS = 240
# Raylet gives its agents 15 seconds, which a busy machine may not.
STARTS = 3


def good_vectors(request, call):
    values = np.ones((2, 4), "<f2").tobytes()
    vectors = TokenVectors(dimensions=4, values=values)
    return pb.EmbedResponse(embeddings=[pb.Embedding(token_vectors=vectors) for _ in request.texts])


class Embedder(rpc.EmbeddingServiceServicer):
    """The embedding service that reranking calls: does as its `behaviour` says."""

    def __init__(self):
        self.behaviour = good_vectors
        self.calls = []

    def Embed(self, request, context):
        self.calls.append(context)
        return self.behaviour(request, context)


@dataclass
class Services:
    """Where both listen, and on Ray the process that holds the cluster."""

    embedding: str
    reranking: str
    metrics: str
    processes: list = field(default_factory=list)
    deploy: Callable = None


def settings(embedder, metrics_port):
    return {
        "embedding": {"SABUESO_EMBEDDING_MODEL": "hash:32", "SABUESO_METRICS_PORT": str(metrics_port)},
        "reranking": {"SABUESO_EMBEDDING_ADDRESS": embedder.address, "SABUESO_EMBEDDING_TIMEOUT_SECONDS": "300"},
    }


def clean_environment():
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("SABUESO_", "RAY_"))}
    return inherited | {"SABUESO_IDENTITY_SECRET": SECRET, "SABUESO_METRICS_PORT": "0", "SABUESO_HOST": "127.0.0.1"}


@contextlib.contextmanager
def plain_servers(embedder):
    metrics_port, *picked = ports.pick(3, ports.random_start())
    at = dict(zip(("embedding", "reranking"), picked, strict=True))
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", f"services.{name}.server"],
            env=clean_environment() | settings(embedder, metrics_port)[name] | {"SABUESO_PORT": str(port)},
        )
        for name, port in at.items()
    ]
    try:
        yield Services(*(f"127.0.0.1:{port}" for port in (*picked, metrics_port)), processes)
    finally:
        for process in processes:
            process.kill()
            process.wait()


def ray_config(embedder, port, http_port, metrics_port):
    """Both manifests in one, for a cluster of two processors."""
    merged = {"grpc_options": {"port": port, "grpc_servicer_functions": []}, "applications": []}
    for name, given in settings(embedder, metrics_port).items():
        manifest, *_ = yaml.safe_load_all(Path(f"k8s/ray/{name}.yaml").read_text(encoding="utf-8"))
        config = yaml.safe_load(manifest["spec"]["serveConfigV2"])
        for function in config["grpc_options"]["grpc_servicer_functions"]:
            if function not in merged["grpc_options"]["grpc_servicer_functions"]:
                merged["grpc_options"]["grpc_servicer_functions"].append(function)
        (application,) = config["applications"]
        (deployment,) = application["deployments"]
        application["route_prefix"] = f"/{name}"
        deployment |= {"max_ongoing_requests": 8, "max_queued_requests": 8, "max_replicas_per_node": 2}
        deployment["autoscaling_config"] |= {"min_replicas": 1, "max_replicas": 2, "target_ongoing_requests": 4}
        deployment["autoscaling_config"]["upscale_delay_s"] = 1
        # Replicas that share a GPU: Ray counts what it is told, whether it is there or not.
        deployment["ray_actor_options"] = {"num_cpus": 0.5, "num_gpus": 0.25, "runtime_env": {"env_vars": given}}
        merged["applications"].append(application)
    merged["http_options"] = {"host": "127.0.0.1", "port": http_port}
    return merged


@contextlib.contextmanager
def ray_cluster(embedder):
    if not (RAY / "ray").is_dir():
        pytest.fail("Ray is not there: python -m local.clients ray")
    for start in range(STARTS):
        port, http_port, metrics_port = ports.pick(3, ports.random_start())
        # Not pytest's folder: Ray makes sockets below, whose names must be short.
        with tempfile.TemporaryDirectory(prefix="ray", ignore_cleanup_errors=True) as folder:
            config = ray_config(embedder, port, http_port, metrics_port)
            process = subprocess.Popen(
                [sys.executable, "tests/contract/ray_cluster.py", folder],
                stdin=subprocess.PIPE,
                env=clean_environment()
                | {
                    "PYTHONPATH": os.pathsep.join(map(os.path.abspath, (RAY, ".", "protos/gen"))),
                    "RAY_USAGE_STATS_ENABLED": "0",
                    # Some of its ports listen to more than this machine.
                    "RAY_AUTH_MODE": "token",
                    "RAY_AUTH_TOKEN": secrets.token_hex(32),
                    "PYTHONWARNINGS": "ignore",
                },
                start_new_session=True,
            )

            def deploy(change=lambda applications: None, config=config, folder=folder, process=process):
                change({one["name"]: one for one in config["applications"]})
                path = Path(folder) / "serve.yaml"
                path.write_text(yaml.safe_dump(config), encoding="utf-8")
                process.stdin.write(f"{path}\n".encode())
                process.stdin.flush()

            try:
                deploy()
                if asyncio.run(answers(f"127.0.0.1:{port}", process)):
                    addresses = (f"127.0.0.1:{at}" for at in (port, port, metrics_port))
                    yield Services(*addresses, [process], deploy)
                    return
            finally:
                end_ray(process)
        assert start + 1 < STARTS, "Ray did not start; see above"


def end_ray(process):
    """Ray ends what it started; what is left after that is ended here."""
    started = []
    with contextlib.suppress(psutil.NoSuchProcess):
        started = psutil.Process(process.pid).children(recursive=True)
    with contextlib.suppress(BrokenPipeError):
        process.stdin.close()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(40)
    for one in (*started, process):
        with contextlib.suppress(psutil.NoSuchProcess, ProcessLookupError):
            one.kill()
    process.wait()
    psutil.wait_procs(started, timeout=10)


async def answers(address, process):
    """Whether both services are there; False when the process ended before."""
    act_as("acme")
    async with connect(address) as channel:
        waiting = {
            rpc.EmbeddingServiceStub(channel).Describe: pb.DescribeRequest(),
            reranking_rpc.RerankingServiceStub(channel).Describe: reranking_pb.DescribeRequest(),
        }
        ends = time.monotonic() + STARTS_WITHIN_SECONDS
        for method, request in waiting.items():
            while True:
                try:
                    await method(request, timeout=10)
                    break
                except aio.AioRpcError:
                    if process.poll() is not None:
                        return False
                    assert time.monotonic() < ends, "the servers did not start in time"
                    await asyncio.sleep(0.2)
    return True


async def is_there(address):
    async with aio.insecure_channel(address) as channel:
        check = health_pb2_grpc.HealthStub(channel).Check
        ends = time.monotonic() + STARTS_WITHIN_SECONDS
        while True:
            with contextlib.suppress(aio.AioRpcError):
                if (await check(health_pb2.HealthCheckRequest(), timeout=10)).status == 1:
                    return
            assert time.monotonic() < ends, "the server did not start in time"
            await asyncio.sleep(0.1)
