"""Vectors on a real disk: found again, bounded, and never in the way."""

import hashlib
import os

import pytest

from services.ingestion.vector_cache import DiskVectorCache, MemoryVectorCache


def key(text):
    return hashlib.sha256(text.encode()).hexdigest()


@pytest.fixture(params=["memory", "disk"])
def cache(request, tmp_path):
    return MemoryVectorCache() if request.param == "memory" else DiskVectorCache(tmp_path / "vectors", 10_000)


async def test_what_was_put_is_found_in_the_order_of_the_question(cache):
    await cache.put([(key("a"), b"first"), (key("b"), b"")])
    assert await cache.get([key("b"), key("unknown"), key("a")]) == [b"", None, b"first"]
    await cache.put([(key("a"), b"newer")])
    assert await cache.get([key("a")]) == [b"newer"]


async def test_vectors_outlive_the_process(tmp_path):
    await DiskVectorCache(tmp_path, 10_000).put([(key("a"), b"first")])
    assert await DiskVectorCache(tmp_path, 10_000).get([key("a")]) == [b"first"]


@pytest.mark.parametrize("cut", [0, 3, 6])
async def test_a_file_torn_by_a_power_cut_is_a_miss_and_goes(tmp_path, cut):
    cache = DiskVectorCache(tmp_path, 10_000)
    await cache.put([(key("a"), b"first")])
    path = tmp_path / key("a")[:2] / key("a")
    os.truncate(path, cut)
    assert await cache.get([key("a")]) == [None]
    assert not path.exists()


async def test_what_was_not_used_for_longest_goes_first(tmp_path):
    cache = DiskVectorCache(tmp_path, 1000)
    await cache.put([(key(str(number)), bytes(196)) for number in range(5)])
    for number in range(5):
        path = tmp_path / key(str(number))[:2] / key(str(number))
        os.utime(path, (number, number))
    assert await cache.get([key("0")]) == [bytes(196)]  # used now
    await cache.put([(key("new"), bytes(196))])
    left = await cache.get([key(str(number)) for number in range(5)])
    assert [one is not None for one in left] == [True, False, False, True, True]
    assert await cache.get([key("new")]) == [bytes(196)]


async def test_the_folder_stays_within_its_bytes_over_restarts(tmp_path):
    for start in range(0, 60, 10):
        cache = DiskVectorCache(tmp_path, 2000)
        for number in range(start, start + 10):
            await cache.put([(key(str(number)), bytes(200))])
            assert sum(path.stat().st_size for path in tmp_path.glob("*/*")) <= 2000


async def test_a_cache_of_no_bytes_keeps_nothing(tmp_path):
    cache = DiskVectorCache(tmp_path / "vectors", 0)
    await cache.put([(key("a"), b"first")])
    assert await cache.get([key("a")]) == [None]
    assert not (tmp_path / "vectors").exists()


async def test_a_disk_that_fails_is_a_miss_and_not_an_error(tmp_path):
    (tmp_path / "vectors").write_text("a file where the folder should be")
    cache = DiskVectorCache(tmp_path / "vectors", 1000)
    await cache.put([(key("a"), b"first")])
    assert await cache.get([key("a")]) == [None]
