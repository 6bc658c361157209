"""Full disks, few file descriptors, a hostile file: told, bounded, and over once there is room again."""

import asyncio
import io
import itertools
import resource
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager

import httpx2
import psutil
import pytest

from tests.chaos.asking import COLLECTION
from tests.chaos.stack import DISKS, ChaosStack
from tests.chaos.watching import survived

# Starting the stack is not counted in.
pytestmark = pytest.mark.timeout(300, func_only=True)
_SEEDS = itertools.count(101)
FAULT_SECONDS = 4.0
WRITERS = {"spool": "ingestion", "valkey": "valkey", "vectors": "retrieval", "postgres": "postgres"}
# Of a worker, as an installation's memory is reckoned.
_MOST_BYTES = 700 << 20


def check(stack, service, how, breaking, seconds=FAULT_SECONDS):
    verdict = asyncio.run(survived(stack, service, how, breaking, seconds, next(_SEEDS)))
    print(verdict)
    assert not verdict.broken, str(verdict)


@pytest.mark.parametrize("disk", DISKS)
def test_a_full_disk_is_told_and_nothing_acknowledged_is_lost(stack: ChaosStack, disk: str) -> None:
    if not (stack.home / disk).is_mount():
        pytest.skip("only who may mount a file system can fill it")
    check(stack, WRITERS[disk], "disk full", lambda: stack.full(disk))


@pytest.mark.parametrize("service", ["gateway", "orchestrator", "ingestion"])
def test_without_file_descriptors_a_process_refuses_and_serves_again(stack: ChaosStack, service: str) -> None:
    used = psutil.Process(stack.pids()[service]).num_fds()
    check(stack, service, "file descriptors", lambda: stack.limited(service, resource.RLIMIT_NOFILE, used + 1))


def hostile_workbook() -> bytes:
    """A sheet of 400 MB that is 400 kB as it is sent."""
    row = b'<row><c t="inlineStr"><is><t>' + b"a" * 4000 + b"</t></is></c></row>"
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(
            "[Content_Types].xml",
            '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
            '<Override PartName="/xl/workbook.xml" ContentType="application/vnd.openxmlformats-officedocument.'
            'spreadsheetml.sheet.main+xml"/></Types>',
        )
        archive.writestr("xl/workbook.xml", "<workbook><sheets><sheet name='a' sheetId='1'/></sheets></workbook>")
        with archive.open("xl/worksheets/sheet1.xml", "w") as sheet:
            sheet.write(b"<worksheet><sheetData>")
            for _ in range(100_000):
                sheet.write(row)
            sheet.write(b"</sheetData></worksheet>")
    return packed.getvalue()


@contextmanager
def hostile_file(stack: ChaosStack) -> Iterator[None]:
    """Sent, and waited for."""
    headers = {"authorization": f"Bearer {stack.keys['demo']}"}
    files = {"file": ("bomb.xlsx", hostile_workbook())}
    form = {"collection": COLLECTION, "document_id": "hostile"}
    with httpx2.Client(base_url=stack.url, headers=headers, timeout=40, trust_env=False) as http:
        posted = http.post("/v1/documents", files=files, data=form)
        assert posted.status_code == 202, posted.text
        process = psutil.Process(stack.pids()["ingestion"])
        largest, deadline = 0, time.monotonic() + 150
        while (status := http.get("/v1/documents/hostile").json())["status"] in ("queued", "parsing", "embedding"):
            largest = max(largest, memory_bytes(process))
            assert time.monotonic() < deadline, status
            time.sleep(0.1)
    assert status["status"] == "failed", status
    assert status["reason"]
    assert largest < _MOST_BYTES, f"{largest >> 20} MiB"
    yield


def memory_bytes(process: psutil.Process) -> int:
    """Of it and its children; one that has just ended has none."""
    total = 0
    for one in (process, *process.children(recursive=True)):
        try:
            total += one.memory_info().rss
        except psutil.Error:
            continue
    return total


def test_a_hostile_file_fails_alone(stack: ChaosStack) -> None:
    check(stack, "ingestion", "hostile file", lambda: hostile_file(stack), 0.0)
