"""The sandbox by itself; what hostile content may do in it is in the tests of those who use it."""

import contextlib
from pathlib import Path

import pytest

from services.runtime.errors import DependencyFailed
from services.runtime.sandbox import NoAnswer, Refused, Sandbox

MEMORY_BYTES = 256 * 2**20


@pytest.fixture(scope="module")
def sandbox():
    entry = "tests.unit.runtime.sandboxed_functions:count"
    with contextlib.closing(
        Sandbox(entry, memory_bytes=MEMORY_BYTES, timeout_seconds=20, max_answer_bytes=100_000)
    ) as made:
        yield made


async def test_bytes_and_arguments_go_in_and_rows_come_out(sandbox):
    rows = list(await sandbox.run(b"a b \xff", separator=" ", deep={"list": [1, None, "ñ"]}))
    assert rows == [{"size": 5, "deep": {"list": [1, None, "ñ"]}}, "a", "b", "\ufffd"]


async def test_a_file_is_read_as_its_bytes_are(sandbox, tmp_path):
    path = tmp_path / "content"
    path.write_bytes(b"xy" * 20_000)
    assert next(await sandbox.run(path, separator="!"))["size"] == 40_000


async def test_a_file_that_is_not_there_is_an_error_of_the_caller(sandbox):
    with pytest.raises(OSError, match="nowhere"):
        await sandbox.run(Path("/nowhere/at/all"), separator=" ")


async def test_content_of_nothing_is_content(sandbox):
    assert list(await sandbox.run(b"", separator=" ")) == [{"size": 0, "deep": None}, ""]


async def test_a_refusal_comes_in_the_words_of_the_function(sandbox):
    with pytest.raises(Refused, match=r"^no separator; año$"):
        await sandbox.run(b"x", separator="")


@pytest.mark.parametrize(("content", "cause"), [(b"x" * 200_000, "size"), (b"raise", "error"), (b"exit", "error")])
async def test_the_cause_of_a_missing_answer_is_told(sandbox, content, cause):
    with pytest.raises(NoAnswer) as caught:
        await sandbox.run(content, separator="!")
    assert caught.value.cause == cause
    assert "secret" not in caught.value.detail


async def test_arguments_that_are_too_long_never_leave(sandbox):
    with pytest.raises(NoAnswer) as caught:
        await sandbox.run(b"x", separator="y" * 20_000)
    assert caught.value.cause == "size"


async def test_the_function_cannot_read_the_content_again_nor_standard_input(sandbox):
    assert list(await sandbox.run(b"stdin", separator="!"))[1:] == [""]


async def test_a_function_that_does_not_exist_is_no_fault_of_the_content():
    with contextlib.closing(Sandbox("tests.nowhere:none", memory_bytes=MEMORY_BYTES, timeout_seconds=5)) as made:
        with pytest.raises(DependencyFailed):
            await made.run(b"x")
