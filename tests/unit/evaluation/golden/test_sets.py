"""A golden set on disk, and the lock on its test half."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from services.evaluation.golden import lock, sets
from services.evaluation.golden.item import Item, Stratum
from services.evaluation.golden.lock import Reading, ReadingRefused
from services.evaluation.golden.sets import About, BrokenSet

ABOUT = About(name="made-up", version=1, licence="Apache-2.0", languages=["es", "en"], made_by="a test")
DEV = Item("d1", "How many?", "en", Stratum.SINGLE_HOP, sources=("a",), reference="Ten.")
TEST = Item("t1", "¿Cuántos?", "es", Stratum.SINGLE_HOP, sources=("b",), reference="Diez.", split="test")
WHY = Reading("release 1.0", "Ana")


@pytest.fixture
def folder(tmp_path):
    sets.write_about(tmp_path, ABOUT)
    sets.write_half(tmp_path, "dev", [DEV])
    sets.write_half(tmp_path, "test", [TEST])
    return tmp_path


def clock():
    return datetime(2026, 5, 4, 3, 2, 1, tzinfo=UTC)


def test_a_set_is_read_as_it_was_written(folder):
    found = sets.read(folder)
    assert (found.about, found.items) == (ABOUT, (DEV,))
    assert not list(folder.glob(".*"))


def test_writing_the_same_items_gives_the_same_bytes(folder):
    before = (folder / "dev.jsonl").read_bytes()
    sets.write_half(folder, "dev", [DEV])
    assert (folder / "dev.jsonl").read_bytes() == before


@pytest.mark.parametrize(
    ("file", "text", "complaint"),
    [
        ("dev.jsonl", "{}\n", "dev.jsonl: line 1: id"),
        ("dev.jsonl", '{"id":"x","question":"?","language":"en","stratum":"no_tool","split":"test"}', "split test"),
        ("set.yaml", "name: x", "set.yaml: version"),
        ("set.yaml", "- 1", "set.yaml: file"),
        ("set.yaml", "name: [", "set.yaml: line 1"),
        ("set.yaml", ABOUT.model_copy(update={"languages": ["es"]}).model_dump_json(), "`d1` is in en"),
        ("set.yaml", ABOUT.model_copy(update={"schema_version": 9}).model_dump_json(), "schema_version"),
    ],
)
def test_what_is_wrong_is_named_with_its_file(folder, file, text, complaint):
    (folder / file).write_text(text, encoding="utf-8")
    with pytest.raises(BrokenSet, match=complaint):
        sets.read(folder)


def test_a_folder_without_a_set_is_no_set(tmp_path):
    with pytest.raises(BrokenSet, match=r"set\.yaml"):
        sets.read(tmp_path)


def test_a_set_may_have_no_test_half(folder):
    (folder / "test.jsonl").unlink()
    assert sets.read(folder).items == (DEV,)
    with pytest.raises(ReadingRefused, match="no test half"):
        lock.lock(folder)


def test_an_unlocked_test_half_is_not_read(folder):
    with pytest.raises(ReadingRefused, match="not locked"):
        lock.open_test(folder, WHY)
    assert lock.readings(folder) == []


@pytest.mark.parametrize("reading", [Reading("", "Ana"), Reading("  \n", "Ana"), Reading("why", " ")])
def test_the_test_half_is_not_read_without_a_reason_and_a_reader(folder, reading):
    lock.lock(folder)
    with pytest.raises(ReadingRefused, match="for a reason and by somebody"):
        lock.open_test(folder, reading)
    assert lock.readings(folder) == []


def test_each_reading_is_a_line_with_its_reason(folder):
    made = lock.lock(folder, clock=clock)
    assert lock.open_test(folder, WHY, clock=clock).items == (TEST,)
    lock.open_test(folder, Reading("a reason\nof two\tlines", "Luis"), clock=clock)
    first, second = lock.readings(folder)
    assert (first.time, first.reader, first.reason) == ("2026-05-04T03:02:01Z", "Ana", "release 1.0")
    assert (first.name, first.version, first.sha256) == ("made-up", 1, made.sha256[:16])
    assert second.reason == "a reason of two lines"


def test_a_test_half_that_changed_is_not_read(folder):
    lock.lock(folder)
    sets.write_half(folder, "test", [replace(TEST, reference="Once.")])
    with pytest.raises(ReadingRefused, match="not what was frozen"):
        lock.open_test(folder, WHY)
    with pytest.raises(ReadingRefused, match="not what was frozen"):
        lock.verify(folder)
    assert lock.readings(folder) == []


def test_other_spaces_in_the_file_are_no_change(folder):
    made = lock.lock(folder)
    path = folder / "test.jsonl"
    path.write_text(path.read_text(encoding="utf-8").replace('": ', '":') + "\n\n", encoding="utf-8")
    assert lock.verify(folder) == made


def test_locking_again_keeps_the_lock_and_its_day(folder):
    made = lock.lock(folder, clock=clock)
    assert lock.lock(folder) == made


def test_other_items_are_locked_only_with_another_version(folder):
    lock.lock(folder)
    sets.write_half(folder, "test", [replace(TEST, reference="Once.")])
    with pytest.raises(ReadingRefused, match="raise `version`"):
        lock.lock(folder)
    sets.write_about(folder, ABOUT.model_copy(update={"version": 2}))
    assert lock.lock(folder).version == 2
    assert lock.open_test(folder, WHY).items[0].reference == "Once."


def test_a_set_that_leaks_is_not_locked(folder):
    sets.write_half(folder, "test", [replace(TEST, sources=("a",))])
    with pytest.raises(BrokenSet, match="document a is behind"):
        lock.lock(folder)


@pytest.mark.parametrize("text", ["", "{}", '{"version": 1}'])
def test_a_lock_that_cannot_be_read_opens_nothing(folder, text):
    (folder / lock.LOCK).write_text(text, encoding="utf-8")
    with pytest.raises(BrokenSet, match=r"test\.lock\.json"):
        lock.open_test(folder, WHY)


def test_a_log_that_somebody_broke_is_said(folder):
    (folder / lock.READINGS).write_text("nonsense\n", encoding="utf-8")
    with pytest.raises(BrokenSet, match="line 1 is no reading"):
        lock.readings(folder)
