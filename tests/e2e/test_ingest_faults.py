"""Whatever process is killed while documents come in: all that was acknowledged is stored in the end, and once."""

import asyncio
import itertools
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import asynccontextmanager

import grpc
import pytest
from grpc import aio
from grpc_health.v1 import health_pb2, health_pb2_grpc

from local import ports, valkey
from sabueso.ingestion.v1 import ingestion_pb2 as pb
from sabueso.ingestion.v1 import ingestion_pb2_grpc as rpc
from sabueso.retrieval.v1 import retrieval_pb2, retrieval_pb2_grpc
from services.runtime.channels import connect
from services.runtime.testing import SECRET, act_as

INGESTION = pb.DESCRIPTOR.services_by_name["IngestionService"]
RETRIEVAL = retrieval_pb2.DESCRIPTOR.services_by_name["RetrievalService"]
SERVICES = ("embedding", "retrieval", "ingestion")
# Processes are killed and started again in each.
pytestmark = pytest.mark.slow


class Processes:
    """Valkey, embedding, retrieval and ingestion, each a process that can be killed and started on the same folder."""

    def __init__(self, folder):
        self.folder = folder
        names = ("valkey", *SERVICES)
        self.ports = dict(zip(names, ports.pick(len(names), ports.random_start()), strict=True))
        self.running = {}
        self.log = (folder / "log").open("wb")

    def address(self, name):
        return f"127.0.0.1:{self.ports[name]}"

    async def start(self, *names):
        for name in names:
            self.running[name] = self._spawned(name)
        for name in names:
            await self._until_it_serves(name)

    def kill(self, name):
        process = self.running.pop(name)
        process.send_signal(signal.SIGKILL)
        process.wait()

    def close(self):
        for name in list(self.running):
            self.kill(name)
        self.log.close()

    def _spawned(self, name):
        return subprocess.Popen(
            self._command(name), env=self._environment(name), stdout=self.log, stderr=subprocess.STDOUT
        )

    def _command(self, name):
        if name == "valkey":
            (self.folder / "valkey").mkdir(exist_ok=True)
            return valkey.command(self.folder / "valkey", self.ports["valkey"])
        return [sys.executable, "-m", f"services.{name}.server"]

    def _environment(self, name):
        own = {
            "embedding": {"EMBEDDING_MODEL": "hash:32"},
            "retrieval": {
                "VECTOR_STORE": f"edge:{self.folder / 'vectors'}",
                "EMBEDDING_ADDRESS": self.address("embedding"),
                "RERANKING_ADDRESS": "127.0.0.1:1",
            },
            "ingestion": {
                "EMBEDDING_ADDRESS": self.address("embedding"),
                "RETRIEVAL_ADDRESS": self.address("retrieval"),
                "VALKEY_URL": f"redis://{self.address('valkey')}",
                "SPOOL_DIR": str(self.folder / "spool"),
                # Equal texts must be embedded in each test: the phase lasts as long as they take.
                "VECTOR_CACHE_BYTES": "0",
            },
        }
        shared = {
            "IDENTITY_SECRET": SECRET,
            "HOST": "127.0.0.1",
            "PORT": str(self.ports[name]),
            "METRICS_PORT": "0",
        }
        settings = {f"SABUESO_{key}": value for key, value in (shared | own.get(name, {})).items()}
        return {"PATH": os.environ["PATH"], **settings}

    async def _until_it_serves(self, name):
        deadline = time.monotonic() + 60
        while not await self._serves(name):
            assert time.monotonic() < deadline, f"{name} does not serve"
            assert self.running[name].poll() is None, (self.folder / "log").read_text()[-2000:]
            await asyncio.sleep(0.05)

    async def _serves(self, name):
        if name == "valkey":
            return not ports.is_free(self.ports[name])
        async with aio.insecure_channel(self.address(name)) as channel:
            try:
                answer = await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=2)
            except aio.AioRpcError:
                return False
            return answer.status == health_pb2.HealthCheckResponse.SERVING


def check_lost(error):
    """A process that was killed may be missed, and nothing else may go wrong."""
    if error.code() not in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED):
        raise error


@pytest.fixture(scope="module")
def processes(tmp_path_factory):
    processes = Processes(tmp_path_factory.mktemp("faults"))
    yield processes
    processes.close()


class House:
    """What a client does, with the patience of a client."""

    def __init__(self, processes, ingestion, retrieval):
        self.processes = processes
        self.ingestion = rpc.IngestionServiceStub(ingestion)
        self.retrieval = retrieval_pb2_grpc.RetrievalServiceStub(retrieval)
        self.acknowledged = {}

    async def submit(self, document_id, text):
        async def messages():
            yield pb.SubmitRequest(header=pb.SubmitHeader(collection="c", document_id=document_id, filename="d.md"))
            content = text.encode()
            for start in range(0, len(content), 2**18):
                yield pb.SubmitRequest(content=content[start : start + 2**18])

        job = (await self.ingestion.Submit(messages(), timeout=30)).job
        self.acknowledged[document_id] = text, job.job_id
        return job

    async def insist(self, document_id, text):
        """Submits until it is acknowledged."""
        async with asyncio.timeout(30):
            while True:
                try:
                    return await self.submit(document_id, text)
                except aio.AioRpcError as error:
                    check_lost(error)
                    await asyncio.sleep(0.2)

    async def until(self, job, holds, seconds=60):
        deadline = time.monotonic() + seconds
        while True:
            try:
                job = (await self.ingestion.GetJob(pb.GetJobRequest(job_id=job.job_id), timeout=10)).job
                if holds(job):
                    return job
            except aio.AioRpcError as error:
                check_lost(error)
            assert time.monotonic() < deadline, f"{pb.JobStatus.Name(job.status)}: {job.reason}"
            await asyncio.sleep(0.005)

    async def check(self, seconds=90):
        """Every acknowledged document is ready, and stored exactly once; there is nothing else."""
        for document_id, (text, job_id) in self.acknowledged.items():
            job = await self.until(pb.Job(job_id=job_id), lambda job: job.status >= pb.JOB_STATUS_READY, seconds)
            assert job.status == pb.JOB_STATUS_READY, f"{document_id}: {job.reason}"
            await self._check_stored(document_id, text, job)
        listed = (await self.retrieval.ListDocuments(retrieval_pb2.ListDocumentsRequest(page_size=1000))).documents
        assert {document.document_id for document in listed} == set(self.acknowledged)
        jobs = {job_id for _, job_id in self.acknowledged.values()}
        left = jobs & {path.name for path in (self.processes.folder / "spool" / "jobs").iterdir()}
        assert not left, "files of jobs that are ready are left"

    async def _check_stored(self, document_id, text, job):
        passages, token = [], ""
        while True:
            request = retrieval_pb2.GetChunksRequest(document_id=document_id, page_token=token)
            page = await self.retrieval.GetChunks(request, timeout=60)
            passages += page.passages
            token = page.next_page_token
            if not token:
                break
        assert [passage.position for passage in passages] == list(range(job.chunk_count))
        assert page.document.chunk_count == job.chunk_count
        stored = Counter(word for passage in passages for word in passage.text.split() if word.startswith("mark"))
        assert stored == Counter(word for word in text.split() if word.startswith("mark"))


@pytest.fixture
async def house(processes):
    """A tenant of its own for each test."""
    missing = [name for name in ("valkey", *SERVICES) if name not in processes.running]
    await processes.start(*missing)
    act_as(f"tenant{next(_NUMBERS)}")
    async with (
        connect(processes.address("ingestion"), INGESTION) as ingestion,
        connect(processes.address("retrieval"), RETRIEVAL) as retrieval,
    ):
        house = House(processes, ingestion, retrieval)
        collection = retrieval_pb2.Collection(name="c")
        await house.retrieval.PutCollection(retrieval_pb2.PutCollectionRequest(collection=collection))
        yield house


_NUMBERS = itertools.count()


def text_of(sections, seed=""):
    """About one chunk a section, each with a word that no other has."""
    filler = "The provider delivers the goods within thirty days of the order and bears all costs of it. " * 15
    return "\n\n".join(f"# Part {n}\n\nmark{seed}x{n} {filler}" for n in range(sections))


def is_storing(job):
    return job.status == pb.JOB_STATUS_EMBEDDING and 0 < job.total_chunk_count == job.chunk_count


PHASES = {
    "queued": lambda job: job.status == pb.JOB_STATUS_QUEUED,
    "parsing": lambda job: job.status >= pb.JOB_STATUS_PARSING,
    "embedding": lambda job: job.status > pb.JOB_STATUS_EMBEDDING or 0 < job.chunk_count,
    "storing": lambda job: job.status > pb.JOB_STATUS_EMBEDDING or is_storing(job),
}


@asynccontextmanager
async def killed(processes, name, pause_seconds=0.5):
    processes.kill(name)
    yield
    await asyncio.sleep(pause_seconds)
    await processes.start(name)


MOMENTS = [
    *((victim, phase) for victim in ("ingestion", "valkey") for phase in ("queued", "parsing", "embedding", "storing")),
    *((victim, phase) for victim in ("retrieval", "embedding") for phase in ("embedding", "storing")),
]


@pytest.mark.parametrize(("victim", "phase"), MOMENTS)
async def test_a_kill_in_mid_job_loses_and_doubles_nothing(house, processes, victim, phase):
    large = await house.submit("large", text_of(400, "a"))
    for number in range(3):
        await house.submit(f"small{number}", text_of(2, f"s{number}"))
    if phase == "queued":
        large = await house.submit("large", text_of(401, "b"))
    await house.until(large, PHASES[phase])
    async with killed(processes, victim):
        pass
    await house.check()


async def test_a_new_version_that_is_killed_leaves_the_old_one_readable(house, processes):
    await house.until(await house.submit("d", text_of(50, "old")), lambda job: job.status == pb.JOB_STATUS_READY)
    new = await house.submit("d", text_of(400, "new"))
    await house.until(new, PHASES["embedding"])
    async with killed(processes, "ingestion"):
        found = await house.retrieval.GetChunks(retrieval_pb2.GetChunksRequest(document_id="d"))
        words = {word for passage in found.passages for word in passage.text.split() if word.startswith("mark")}
        assert {word[:7] for word in words} == {"markold"}
    await house.check()


async def test_documents_sent_while_everything_is_killed_in_turn_are_all_there_once(house, processes):
    seconds, rng = 45, random.Random(7)
    started = time.monotonic()

    async def keep_sending():
        for number in itertools.count():
            if time.monotonic() - started > seconds:
                return
            try:
                # Some are sent again in another version, which must win.
                await house.submit(f"d{number % 40}", text_of(rng.randint(1, 60), f"n{number}"))
            except aio.AioRpcError as error:
                check_lost(error)
                house.acknowledged.pop(f"d{number % 40}", None)  # it may be the new one or the old one now
            await asyncio.sleep(0.05)

    sending = asyncio.create_task(keep_sending())
    while not sending.done():
        await asyncio.sleep(rng.uniform(0.5, 3))
        async with killed(processes, rng.choice(("valkey", *SERVICES)), rng.uniform(0, 1)):
            pass
    await sending
    unsure = {f"d{number}" for number in range(40)} - set(house.acknowledged)
    for document_id in unsure:
        await house.insist(document_id, text_of(1, document_id))
    await house.check(180)
