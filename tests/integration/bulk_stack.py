"""Embedding and retrieval as processes, and `sabueso bulk-index` beside them with Ray, for the slow tests."""

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest
from grpc import aio

from local import ports
from sabueso.retrieval.v1 import retrieval_pb2 as pb
from sabueso.retrieval.v1 import retrieval_pb2_grpc as rpc
from services.runtime.channels import connect
from services.runtime.testing import SECRET, act_as
from tests.integration.bulk_servers import ENGLISH, SPANISH

RAY = Path(".sabueso/clients/ray")
WITHIN_SECONDS = 400
_COMMAND = "from services.cli.main import main; main()"


@dataclass
class Stack:
    """Where the services listen, and the environment of a run."""

    embedding: str
    retrieval: str
    scratch: Path
    environment: dict = field(default_factory=dict)

    def command(self, folder, tenant, *options):
        ledger = self.scratch / f"{tenant}.sqlite"
        said = ["--tenant", tenant, "--collection", "corpus", "--cpus", "2", "--ledger", str(ledger), "--json"]
        return [sys.executable, "-c", _COMMAND, "bulk-index", str(folder), *said, *options]

    def begin(self, folder, tenant, *options, **environment):
        return subprocess.Popen(
            self.command(folder, tenant, *options),
            env=self.environment | environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, folder, tenant, *options, **environment):
        return finished(self.begin(folder, tenant, *options, **environment))


def finished(process):
    """Exit status, the report and what was complained of."""
    try:
        said, complaints = process.communicate(timeout=WITHIN_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        pytest.fail(f"the run did not end: {process.communicate()}")
    return process.returncode, json.loads(said or "{}"), complaints


@contextlib.contextmanager
def stack(scratch):
    if not (RAY / "pyarrow").is_dir():
        pytest.fail("Ray is not there: python -m local.clients ray")
    at = dict(zip(("embedding", "retrieval"), ports.pick(2, ports.random_start()), strict=True))
    common = {"SABUESO_IDENTITY_SECRET": SECRET, "SABUESO_METRICS_PORT": "0", "SABUESO_HOST": "127.0.0.1"}
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("SABUESO_", "RAY_"))}
    embedding = f"127.0.0.1:{at['embedding']}"
    own = {
        "embedding": {"SABUESO_EMBEDDING_MODEL": "hash:32"},
        "retrieval": {
            "SABUESO_VECTOR_STORE": f"edge:{scratch / 'vectors'}",
            "SABUESO_EMBEDDING_ADDRESS": embedding,
            "SABUESO_LOG_LEVEL": "WARNING",
        },
    }
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", f"services.{name}.server"],
            env=clean | common | own[name] | {"SABUESO_PORT": str(port)},
        )
        for name, port in at.items()
    ]
    # Not pytest's folder: Ray makes sockets below, whose names must be short.
    with tempfile.TemporaryDirectory(prefix="ray", ignore_cleanup_errors=True) as folder:
        environment = {
            "SABUESO_RETRIEVAL_ADDRESS": f"127.0.0.1:{at['retrieval']}",
            "SABUESO_EMBEDDING_ADDRESS": embedding,
            "PYTHONPATH": os.pathsep.join(map(os.path.abspath, (RAY, ".", "protos/gen"))),
            "PYTHONWARNINGS": "ignore",
            "RAY_TMPDIR": folder,
            "TMPDIR": folder,  # killed workers leave files
        }
        try:
            yield Stack(embedding, f"127.0.0.1:{at['retrieval']}", scratch, clean | common | environment)
        finally:
            for process in processes:
                process.kill()
                process.wait()


def write_corpus(folder, count):
    """Markdown in Spanish and English, of a few passages each."""
    folder.mkdir()
    chance = random.Random(7)
    for number in range(count):
        sentence = (SPANISH, ENGLISH)[number % 2]
        paragraphs = [" ".join(sentence.format(chance.randrange(10**6)) for _ in range(6)) for _ in range(8)]
        (folder / f"{number:04}.md").write_text(f"# {number}\n\n" + "\n\n".join(paragraphs), encoding="utf-8")


class Index:
    """The retrieval service, as the tests look at it."""

    def __init__(self, channel):
        self._stub = rpc.RetrievalServiceStub(channel)

    async def make(self, tenant):
        act_as(tenant, labels=["*"])
        ends = time.monotonic() + WITHIN_SECONDS
        request = pb.PutCollectionRequest(collection=pb.Collection(name="corpus"))
        while True:
            try:
                return await self._stub.PutCollection(request, timeout=10)
            except aio.AioRpcError:
                assert time.monotonic() < ends, "retrieval did not start in time"

    async def documents(self, tenant):
        act_as(tenant, labels=["*"])
        answer = await self._stub.ListDocuments(pb.ListDocumentsRequest(page_size=1000), timeout=60)
        return {one.document_id: one for one in answer.documents}

    async def passages(self, tenant, document_id):
        """Of a whole document, as bytes: what two tenants' documents have in common is compared as it is."""
        act_as(tenant, labels=["*"])
        answer = await self._stub.GetChunks(pb.GetChunksRequest(document_id=document_id), timeout=60)
        assert not answer.next_page_token
        return [one.SerializeToString(deterministic=True) for one in answer.passages]

    async def search(self, tenant, query):
        act_as(tenant, labels=["*"])
        answer = await self._stub.Search(pb.SearchRequest(query=query, top_k=5), timeout=60)
        return list(answer.passages)


@contextlib.asynccontextmanager
async def index_at(address):
    async with connect(address) as channel:
        yield Index(channel)


def workers_of(process, stage):
    """Ray's processes that run a stage, below the process of a run."""
    found = []
    for one in psutil.Process(process.pid).children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
            if f"MapBatches({stage})" in " ".join(one.cmdline()):
                found.append(one)
    return found


def kill(processes):
    for one in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            one.send_signal(signal.SIGKILL)


def everything_below(process):
    with contextlib.suppress(psutil.NoSuchProcess):
        return psutil.Process(process.pid).children(recursive=True)
    return []
