import asyncio
import contextlib
import os
import resource
import signal
import time
from pathlib import Path

import psutil
import pytest

from services.ingestion import parsing
from services.ingestion.parsed import Unreadable
from services.ingestion.parsing import Parser
from services.runtime.errors import DependencyFailed

ENTRY = "tests.unit.ingestion.hostile_parsers:parse"
MEMORY_BYTES = 512 * 2**20


@pytest.fixture(scope="module")
def parser():
    """Patient: for files that are to end by themselves, or by something other than the clock."""
    with contextlib.closing(Parser(MEMORY_BYTES, 60, entry=ENTRY)) as made:
        yield made


@pytest.fixture(scope="module")
def hasty():
    with contextlib.closing(Parser(MEMORY_BYTES, 1.5, entry=ENTRY)) as made:
        yield made


@pytest.fixture
def run(tmp_path):
    """Parses a file of the given words and answers the text of its first block."""

    async def parse(parser: Parser, words: str) -> str:
        path = tmp_path / f"{len(list(tmp_path.iterdir()))}.txt"
        path.write_text(words)
        return (await parser.parse(path, "a.txt", "text/plain")).blocks[0].text

    return parse


def children(parser: Parser) -> list[psutil.Process]:
    return psutil.Process(parser.server_id).children(recursive=True) if parser.server_id else []


def command_of(process: psutil.Process) -> str:
    with contextlib.suppress(psutil.NoSuchProcess):
        return " ".join(process.cmdline())
    return ""


def is_running(process_id: int) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return psutil.Process(process_id).status() != psutil.STATUS_ZOMBIE
    return False


async def until(true, seconds: float = 20) -> None:
    async with asyncio.timeout(seconds):
        while not true():
            await asyncio.sleep(0.01)


async def test_what_the_parser_understood_comes_back(parser, run):
    assert await run(parser, "say hola") == "hola"


async def test_a_refusal_comes_back_in_its_own_words(parser, run):
    with pytest.raises(Unreadable, match=r"^Save it as docx\.$"):
        await run(parser, "refuse Save it as docx.")


async def test_a_parse_that_loops_forever_ends_with_its_time(hasty, run):
    with pytest.raises(Unreadable, match=r"longer than 1\.5 s"):
        await run(hasty, "loop")
    assert not children(hasty)


async def test_a_parse_that_waits_forever_ends_with_its_time(hasty, run):
    with pytest.raises(Unreadable, match=r"longer than 1\.5 s"):
        await run(hasty, "wait 60")
    assert not children(hasty)


async def test_a_parse_that_eats_memory_is_told_apart(parser, run):
    with pytest.raises(Unreadable, match="more than 512 MiB of memory"):
        await run(parser, "eat")


@pytest.mark.parametrize("death", ["abort", "fault"])
async def test_a_parse_that_crashes_takes_nothing_along(parser, run, death):
    with pytest.raises(Unreadable, match="damaged"):
        await run(parser, death)
    assert await run(parser, "say still here") == "still here"


async def test_an_unexpected_error_is_logged_without_the_words_of_the_document(parser, run, caplog):
    with pytest.raises(Unreadable, match="damaged"):
        await run(parser, "fail top-secret")
    (record,) = (record for record in caplog.records if record.name == parsing.log.name)
    assert record.cause.startswith("KeyError hostile_parsers.py:")
    assert "top-secret" not in caplog.text


async def test_endless_recursion_says_that_the_file_is_nested_too_deeply(parser, run):
    with pytest.raises(Unreadable, match="nested too deeply"):
        await run(parser, "recurse")


async def test_a_huge_answer_is_refused(parser, run):
    with pytest.raises(Unreadable, match="too much text"):
        await run(parser, f"write {65 * 2**20}")


async def test_a_large_answer_comes_back_whole(parser, run):
    assert len(await run(parser, f"write {20 * 2**20}")) == 20 * 2**20


async def test_a_lone_surrogate_does_not_break_the_answer(parser, run):
    assert await run(parser, "surrogate") == "bad?end"


async def test_a_parse_cannot_write_files(parser, run, tmp_path):
    with pytest.raises(Unreadable, match="damaged"):
        await run(parser, f"store {tmp_path / 'stored'}")
    assert (tmp_path / "stored").stat().st_size == 0


async def test_a_parse_sees_no_setting_of_the_service(run, monkeypatch):
    monkeypatch.setenv("SABUESO_IDENTITY_SECRET", "secret")
    with contextlib.closing(Parser(MEMORY_BYTES, 60, entry=ENTRY)) as parser:
        names = (await run(parser, "tell")).split()
    assert "PATH" in names
    assert not [name for name in names if "SABUESO" in name]


async def test_processes_that_a_parse_leaves_behind_are_ended(parser, run):
    kin = [int(word) for word in (await run(parser, "fork")).split()]
    await until(lambda: not any(map(is_running, kin)))


async def test_processes_of_a_parse_end_with_its_time(hasty, run):
    with pytest.raises(Unreadable):
        await run(hasty, "fork_and_wait timed")
    await until(lambda: not children(hasty))


async def test_a_cancelled_parse_is_ended_with_its_kin(parser, run):
    task = asyncio.create_task(run(parser, "fork_and_wait cancelled"))
    await until(lambda: any("cancelled" in command_of(child) for child in children(parser)))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await until(lambda: not children(parser))


async def test_a_killed_server_is_replaced_and_its_files_are_read_again(run):
    with contextlib.closing(Parser(MEMORY_BYTES, 60, entry=ENTRY)) as parser:
        await run(parser, "say warm")
        first = parser.server_id
        tasks = [asyncio.create_task(run(parser, "wait 1")) for _ in range(3)]
        await until(lambda: len(children(parser)) == 3)
        old = [child.pid for child in children(parser)]
        os.kill(first, signal.SIGKILL)
        assert all(text.startswith("waited") for text in await asyncio.gather(*tasks))
        assert parser.server_id != first
        await until(lambda: not any(map(is_running, old)))


@pytest.mark.slow
async def test_a_server_that_hangs_is_replaced_and_its_file_is_read(run):
    with contextlib.closing(Parser(MEMORY_BYTES, 60, entry=ENTRY)) as parser:
        await run(parser, "say warm")
        first = parser.server_id
        os.kill(first, signal.SIGSTOP)
        assert await run(parser, "say hola") == "hola"
        assert parser.server_id != first
        await until(lambda: not is_running(first))


async def test_a_server_that_cannot_start_is_no_fault_of_the_file(run):
    with contextlib.closing(Parser(MEMORY_BYTES, 60, entry="tests.no_such_module:parse")) as parser:
        with pytest.raises(DependencyFailed, match="parsing server"):
            await run(parser, "say hola")


async def test_twenty_files_are_read_at_the_same_time(parser, run):
    started = time.monotonic()
    texts = await asyncio.gather(*(run(parser, "wait 2") for _ in range(20)))
    assert len(set(texts)) == 20
    assert time.monotonic() - started < 30  # one after another: 40 s
    assert not children(parser)


async def test_a_closed_parser_leaves_no_process(run):
    parser = Parser(MEMORY_BYTES, 60, entry=ENTRY)
    task = asyncio.create_task(run(parser, "wait 60"))
    await until(lambda: parser.server_id and len(children(parser)) == 1)
    processes = [parser.server_id, children(parser)[0].pid]
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    parser.close()
    await until(lambda: not any(map(is_running, processes)))


async def test_a_parser_that_is_dropped_leaves_no_process(run):
    parser = Parser(MEMORY_BYTES, 60, entry=ENTRY)
    await run(parser, "say hola")
    process_id = parser.server_id
    del parser
    await until(lambda: not is_running(process_id))


async def test_the_server_is_small_and_a_file_costs_it_nothing(run, tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("Una frase.")
    with contextlib.closing(Parser(MEMORY_BYTES, 60)) as parser:
        for _ in range(3):
            await parser.parse(Path(path), "a.txt", "")
        before = psutil.Process(parser.server_id).memory_info().rss
        for _ in range(20):
            await parser.parse(Path(path), "a.txt", "")
        assert psutil.Process(parser.server_id).memory_info().rss - before < 2**20
        assert before < 200 * 2**20


async def test_the_server_has_one_thread_and_no_grpc(run, tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("Una frase.")
    with contextlib.closing(Parser(MEMORY_BYTES, 60)) as parser:
        await parser.parse(path, "a.txt", "")
        server = psutil.Process(parser.server_id)
        assert server.num_threads() == 1
        assert not [one.path for one in server.memory_maps() if "grpc" in one.path or "numpy" in one.path]


@contextlib.contextmanager
def no_descriptor_left():
    """Every one that this process may open is taken."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (psutil.Process().num_fds() + 50, before[1]))
    taken = []
    try:
        with contextlib.suppress(OSError):
            while True:
                taken.append(os.dup(0))
        yield
    finally:
        for descriptor in taken:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


async def test_a_file_is_not_blamed_for_a_lack_of_file_descriptors(parser, tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("write 5")
    await parser.parse(path, "a.txt", "")
    with no_descriptor_left(), pytest.raises(DependencyFailed):
        await parser.parse(path, "a.txt", "")
    await parser.parse(path, "a.txt", "")
