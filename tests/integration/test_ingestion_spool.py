"""Files and vectors on a real disk, through crashes."""

import os
import resource
import time

import pytest

from services.ingestion.spool import Spool, SpoolFull, TooLarge
from services.runtime.errors import DependencyFailed


async def parts(*contents):
    for content in contents:
        yield content


async def test_a_file_is_stored_with_its_hash(tmp_path):
    spool = Spool(tmp_path / "spool", 10, 1000)
    stored = await spool.put("job_1", parts(b"abc", b"def"))
    assert spool.content("job_1").read_bytes() == b"abcdef"
    assert stored.size_bytes == 6
    assert stored.sha256.startswith("bef57ec7f53a6d40")


async def test_a_file_that_is_too_large_leaves_nothing(tmp_path):
    spool = Spool(tmp_path, 5, 1000)
    with pytest.raises(TooLarge):
        await spool.put("job_1", parts(b"abc", b"def"))
    assert not list(tmp_path.iterdir())


async def test_a_disk_with_room_for_a_part_only_takes_nothing(tmp_path):
    """A write that fits by half writes that half, and complains of the next one."""
    spool = Spool(tmp_path, 2**20, 2**24)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (150_000, before[1]))
    try:
        with pytest.raises(DependencyFailed):
            await spool.put("job_1", parts(bytes(100_000), bytes(100_000)))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert not list(tmp_path.iterdir())
    assert (await spool.put("job_1", parts(bytes(100_000), bytes(100_000)))).size_bytes == 200_000


async def test_a_full_spool_refuses_until_there_is_room(tmp_path):
    spool = Spool(tmp_path, 100, 250)
    for job in ("job_1", "job_2"):
        await spool.put(job, parts(bytes(100)))
    await spool.check_room()
    with pytest.raises(SpoolFull):
        await spool.put("job_3", parts(bytes(50), bytes(50)))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["job_1", "job_2"]
    spool.vectors("job_1", "one").append([bytes(100)])
    with pytest.raises(SpoolFull):
        await spool.check_room()
    with pytest.raises(SpoolFull):
        await Spool(tmp_path, 100, 250).check_room()
    spool.drop("job_1")
    await spool.check_room()
    await spool.put("job_3", parts(bytes(100)))


async def test_vectors_are_kept_for_the_same_fingerprint_only(tmp_path):
    spool = Spool(tmp_path, 100, 1000)
    await spool.put("job_1", parts(b"x"))
    spool.vectors("job_1", "one").append([b"first", b""])
    again = spool.vectors("job_1", "one")
    assert again.count == 2
    again.append([b"third"])
    assert list(again.read()) == [b"first", b"", b"third"]
    assert spool.vectors("job_1", "two").count == 0


@pytest.mark.parametrize("cut", [1, 3, 5, 8])
async def test_a_record_cut_off_by_a_crash_is_made_again(tmp_path, cut):
    spool = Spool(tmp_path, 100, 1000)
    await spool.put("job_1", parts(b"x"))
    spool.vectors("job_1", "one").append([b"first", b"second"])
    path = tmp_path / "job_1" / "vectors"
    os.truncate(path, path.stat().st_size - cut)
    file = spool.vectors("job_1", "one")
    assert file.count == 1
    file.append([b"second"])
    assert list(spool.vectors("job_1", "one").read()) == [b"first", b"second"]


async def test_old_folders_without_a_job_are_swept(tmp_path):
    spool = Spool(tmp_path, 100, 1000)
    for job in ("kept", "young", "old", "being_written"):
        await spool.put(job, parts(b"x"))
    hours_ago = time.time() - 7200
    for job in ("kept", "old", "being_written"):
        os.utime(tmp_path / job, (hours_ago, hours_ago))
        if job != "being_written":
            os.utime(tmp_path / job / "content", (hours_ago, hours_ago))
    assert spool.sweep({"kept"}) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["being_written", "kept", "young"]
