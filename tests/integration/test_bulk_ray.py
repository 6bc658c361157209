"""Bulk indexing on a Ray cluster of two processors: whole, resumable, and the same as the service makes it.

Ray is large, and fetched for the slow tests (local/clients.py).
"""

import asyncio
import signal
import time

import psutil
import pytest

from tests.integration.bulk_servers import corpus
from tests.integration.bulk_stack import (
    WITHIN_SECONDS,
    everything_below,
    finished,
    index_at,
    kill,
    stack,
    workers_of,
    write_corpus,
)
from tests.integration.test_bulk_pipeline import sent_to_the_service, sources_in

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

COUNT, SOME = 200, 20


@pytest.fixture(scope="module")
def services(tmp_path_factory):
    with stack(tmp_path_factory.mktemp("bulk")) as started:
        yield started


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("files") / "corpus"
    write_corpus(root, COUNT)
    return root


async def some_are_stored(run, index, tenant):
    ends = time.monotonic() + WITHIN_SECONDS
    while len(await index.documents(tenant)) <= SOME:
        assert run.poll() is None, finished(run)
        assert time.monotonic() < ends, "nothing is stored"
        await asyncio.sleep(0.1)


async def test_workers_killed_in_the_middle_leave_the_documents_that_the_service_would_make(
    services, folder, valkey_url, tmp_path
):
    async with index_at(services.retrieval) as index:
        await index.make("killed")
        await index.make("sent")
        run = services.begin(folder, "killed")
        await some_are_stored(run, index, "killed")
        victims = [*workers_of(run, "Prepare"), *workers_of(run, "Store")]
        assert len(victims) == 2, "it was over too soon"
        kill(victims)
        status, report, complaints = await asyncio.to_thread(finished, run)
        assert (status, report.get("failed")) == (0, []), complaints
        assert report["counts"]["stored"] + report["counts"]["unchanged"] == COUNT

        addresses = {"embedding_address": services.embedding, "retrieval_address": services.retrieval}
        await sent_to_the_service(addresses, valkey_url, tmp_path, sources_in(folder))
        bulk, sent = await index.documents("killed"), await index.documents("sent")
        assert len(sent) == COUNT
        assert bulk.keys() == sent.keys()
        for id_, document in bulk.items():
            document.ClearField("update_time")
            sent[id_].ClearField("update_time")
            assert document == sent[id_]
            assert await index.passages("killed", id_) == await index.passages("sent", id_)
        assert len({one.language for one in bulk.values()}) == 2


async def test_a_run_that_was_killed_goes_on_where_it_was(services, folder):
    async with index_at(services.retrieval) as index:
        await index.make("resumed")
        run = services.begin(folder, "resumed")
        await some_are_stored(run, index, "resumed")
        workers = [*workers_of(run, "Prepare"), *workers_of(run, "Store")]
        left = everything_below(run)
        run.send_signal(signal.SIGKILL)
        run.communicate()
        # They end with the one that started them.
        _, alive = await asyncio.to_thread(psutil.wait_procs, workers, WITHIN_SECONDS)
        assert alive == []
        kill(left)  # Ray's own would take a minute
        before = await index.documents("resumed")
        assert SOME < len(before) < COUNT

        changed, *_ = before
        (folder.parent / changed).write_text("# Nuevo\n\nOtro texto, con el mismo nombre.", encoding="utf-8")
        gone = next(path for path in sorted(folder.iterdir()) if f"corpus/{path.name}" not in before)
        gone.unlink()
        status, report, complaints = await asyncio.to_thread(services.run, folder, "resumed")
        assert (status, report.get("failed")) == (0, []), complaints
        after = await index.documents("resumed")
        assert len(after) == COUNT - 1
        assert (report["counts"]["stored"], report["counts"]["unchanged"]) == (COUNT - len(before), len(before) - 1)
        assert after[changed].title == "Nuevo"
        for id_ in before.keys() - {changed}:
            assert after[id_] == before[id_]  # with the time at which it was stored


async def test_encoders_of_its_own_and_files_that_fail(services, tmp_path):
    """The embedding service is not there; one file is broken, and the rest is found."""
    root = tmp_path / "corpus"
    for name, content in corpus().items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)
    options = {"SABUESO_EMBEDDING_ADDRESS": "127.0.0.1:1", "SABUESO_ENCODER_MODEL": "hash:32"}
    async with index_at(services.retrieval) as index:
        await index.make("own")
        run = await asyncio.to_thread(
            lambda: services.run(root.as_uri(), "own", "--encoders", "1", "--encoder-cpus", "0.5", **options)
        )
        status, report, complaints = run
        assert status == 1, complaints
        assert report["counts"] == {"stored": len(corpus()) - 2, "unchanged": 0, "empty": 1, "failed": 1}
        (failure,) = report["failed"]
        assert failure["file"].endswith("broken.pdf")
        assert "damaged" in failure["reason"]
        assert [one["document_id"] for one in report["warned"]] == ["corpus/orders.txt"]
        found = await index.search("own", "penalización por retraso")
        assert found
