import os

from services.evaluation.retrieval.vector_cache import VectorCache, source_version


def test_vectors_are_there_after_the_file_was_closed(tmp_path):
    cache = VectorCache(tmp_path, "e5")
    cache.put([(b"1", b"one"), (b"2", b"")])
    cache.close()
    again = VectorCache(tmp_path, "e5")
    assert [again.get(key) for key in (b"1", b"2", b"3")] == [b"one", b"", None]
    again.close()


def test_another_version_begins_with_nothing(tmp_path):
    cache = VectorCache(tmp_path, "e5")
    cache.put([(b"1", b"one")])
    cache.close()
    other = VectorCache(tmp_path, "e5 with other code")
    assert other.get(b"1") is None
    other.close()


def test_only_the_two_latest_versions_are_kept(tmp_path):
    for age, version in enumerate(("first", "second", "third")):
        cache = VectorCache(tmp_path, version)
        cache.close()
        for file in tmp_path.glob("*.sqlite"):
            os.utime(file, (file.stat().st_atime, file.stat().st_mtime - 10 * (age + 1)))
    assert len(list(tmp_path.glob("*.sqlite"))) == 2


def test_a_change_of_the_code_is_another_version(tmp_path):
    (tmp_path / "sparse.py").write_text("k1 = 1.2\n")
    before = source_version(tmp_path)
    assert source_version(tmp_path) == before
    (tmp_path / "sparse.py").write_text("k1 = 1.5\n")
    assert source_version(tmp_path) != before


def test_a_change_of_a_file_that_makes_no_vectors_is_the_same_version(tmp_path):
    (tmp_path / "sparse.py").write_text("k1 = 1.2\n")
    (tmp_path / "window.py").write_text("size = 512\n")
    before = source_version(tmp_path, {"sparse.py"})
    (tmp_path / "sparse.py").write_text("k1 = 1.5\n")
    assert source_version(tmp_path, {"sparse.py"}) == before
    (tmp_path / "window.py").write_text("size = 256\n")
    assert source_version(tmp_path, {"sparse.py"}) != before
