"""The parts of bulk indexing that need neither Ray nor a server."""

import hashlib
import sqlite3
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.ingestion.bulk import files, optional
from services.ingestion.bulk.config import Settings
from services.ingestion.bulk.corpus import Outcome, Source, Target, failed
from services.ingestion.bulk.ledger import Ledger
from services.ingestion.bulk.patience import patiently, reason_of
from services.ingestion.bulk.pipeline import Shape, TooSmall, workers_of
from services.ingestion.bulk.run import Progress
from services.ingestion.parsed import Unreadable
from services.ingestion.worker import Retry
from services.runtime import errors
from services.runtime.testing import SECRET

SHA = hashlib.sha256(b"x").hexdigest()


def stored(source, sha256=SHA):
    return Outcome(source.document_id, source.uri, "stored", "", sha256, source.stamp, 3)


# ---- the ledger ----------------------------------------------------------------------------------------------------


def test_the_ledger_knows_files_that_have_not_changed_and_no_others(tmp_path):
    source = Source("/c/a.txt", "c/a.txt", "10:1")
    with Ledger(tmp_path / "deep" / "ledger.sqlite") as ledger:
        assert ledger.sha256s([source]) == {}
        ledger.record(stored(source))
    with Ledger(tmp_path / "deep" / "ledger.sqlite") as ledger:
        assert ledger.sha256s([source]) == {"c/a.txt": SHA}
        assert ledger.sha256s([Source("/c/a.txt", "c/a.txt", "10:2")]) == {}
        assert ledger.sha256s([Source("/d/a.txt", "c/a.txt", "10:1")]) == {}
        assert ledger.sha256s([Source("/c/a.txt", "c/a.txt", "")]) == {}
        ledger.forget()
        assert ledger.sha256s([source]) == {}


def test_the_ledger_believes_nothing_of_a_file_without_a_stamp_or_that_was_not_read(tmp_path):
    unread, timeless = Source("/c/a.txt", "c/a.txt", "10:1"), Source("http://c/b.txt", "c/b.txt")
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        ledger.record(failed(unread, "It cannot be read."))
        ledger.record(stored(timeless))
        assert ledger.sha256s([unread, timeless]) == {}


def test_an_entry_outlives_a_killed_process(tmp_path):
    script = (
        "import os, pathlib, sys; from services.ingestion.bulk.ledger import Ledger;"
        "from services.ingestion.bulk.corpus import Outcome;"
        "Ledger(pathlib.Path(sys.argv[1])).record(Outcome('c/a', '/c/a', 'stored', '', 'abc', '1:1'));"
        "os.kill(os.getpid(), 9)"
    )
    path = tmp_path / "ledger.sqlite"
    assert subprocess.run([sys.executable, "-c", script, str(path)], check=False).returncode == -9
    with Ledger(path) as ledger:
        assert ledger.sha256s([Source("/c/a", "c/a", "1:1")]) == {"c/a": "abc"}


def test_two_runs_do_not_share_a_ledger(tmp_path):
    path = tmp_path / "ledger.sqlite"
    with Ledger(path), pytest.raises(sqlite3.OperationalError, match="locked"):
        Ledger(path)


def test_what_is_no_ledger_is_refused(tmp_path):
    path = tmp_path / "ledger.sqlite"
    path.write_text("something else, and long enough to be read as a header of a database " * 20)
    with pytest.raises(sqlite3.DatabaseError):
        Ledger(path)


# ---- files and names -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("uri", "name", "media_type"),
    [
        ("/c/a b.md", "a b.md", "text/markdown"),
        ("s3://bucket/k/a.pdf", "a.pdf", "application/pdf"),
        ("https://a.example/x/deed.html?version=3", "deed.html", "text/html"),
        ("/c/a?b.txt", "a?b.txt", "text/plain"),
        ("/c/thing", "thing", "application/octet-stream"),
    ],
)
def test_a_file_is_named_and_typed_as_a_client_of_the_gateway_would(uri, name, media_type):
    source = Source(uri, "c/x", store=uri if "://" in uri else "")
    assert (source.filename, source.content_type) == (name, media_type)


def test_labels_are_said_once():
    target = Target("acme", "corpus", labels=("a", "b", "a"))
    assert target.submission(Source("/c/a", "c/a"), SHA, "es", "job").labels == ("a", "b")


@given(st.text(), st.lists(st.text()), st.sampled_from(["stored", "unchanged", "empty", "failed"]))
def test_an_outcome_comes_back_as_it_went(text, warnings, state):
    outcome = Outcome("c/a", text, state, text, SHA, text, 2, tuple(warnings))
    line = outcome.to_json()
    assert "\n" not in line
    assert Outcome.from_json(line) == outcome


def test_a_stamp_changes_with_the_file(tmp_path):
    path = tmp_path / "a"
    path.write_text("one")
    before = files.stamp_of(path)
    path.write_text("three")
    assert files.stamp_of(path) != before


def test_reading_stops_at_the_limit(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"12345")
    assert files.read(Source(str(path), "c/a"), 5) == b"12345"
    with pytest.raises(Unreadable, match="larger than 4 bytes"):
        files.read(Source(str(path), "c/a"), 4)
    with pytest.raises(Unreadable, match="It cannot be read: Is a directory"):
        files.read(Source(str(tmp_path), "c"), 4)


# ---- patience ------------------------------------------------------------------------------------------------------


class Failing:
    """Fails some times, then answers."""

    def __init__(self, times, error):
        self.left, self.error, self.renewed = times, error, 0

    async def attempt(self):
        if self.left:
            self.left -= 1
            raise self.error
        return "done"

    async def renew(self):
        self.renewed += 1


async def test_a_passing_failure_is_tried_again_after_a_look_around():
    failing = Failing(2, errors.DependencyFailed("It does not answer.", dependency="store"))
    assert await patiently(failing.attempt, Retry(3, 0.001), failing.renew) == "done"
    assert failing.renewed == 2


async def test_a_failure_that_stays_is_not_tried_again():
    failing = Failing(1, errors.InvalidField("`labels` are wrong.", field="labels"))
    with pytest.raises(errors.InvalidField):
        await patiently(failing.attempt, Retry(3, 0.001), failing.renew)
    assert failing.renewed == 0


async def test_patience_ends():
    failing = Failing(9, errors.Overloaded("The queue is full."))
    with pytest.raises(errors.Overloaded):
        await patiently(failing.attempt, Retry(3, 0.001), failing.renew)
    assert failing.left == 6


def test_an_unexpected_failure_says_its_kind_and_no_content():
    assert reason_of(KeyError("secret text")) == "Internal error (KeyError); the log of the worker tells more."


# ---- the run, seen from outside ------------------------------------------------------------------------------------


def test_failures_and_warnings_are_kept_and_the_rest_is_counted():
    progress = Progress(3)
    warned = Outcome("c/b", "/c/b", "stored", chunk_count=2, warnings=("It gives orders.",))
    for outcome in (stored(Source("/c/a", "c/a")), warned, failed(Source("/c/c", "c/c"), "It is damaged.")):
        progress.add(outcome)
    assert (progress.done, progress.chunks, progress.counts["stored"]) == (3, 5, 2)
    assert [one.document_id for one in progress.failures + progress.warned] == ["c/c", "c/b"]


@pytest.mark.parametrize(
    ("shape", "cpus", "expected"),
    [
        (Shape(), 2, (1, 1.0, 1)),
        (Shape(), 32, (31, 1.0, 4)),
        (Shape(prepare_workers=4, store_workers=2), 6, (4, 1.0, 2)),
        # Encoders leave less than a processor to one that prepares; it works all the same.
        (Shape(encoders=1), 2, (1, 0.75, 1)),
    ],
)
def test_workers_fit_into_the_cluster(shape, cpus, expected):
    assert workers_of(shape, cpus) == expected


def test_a_cluster_that_is_too_small_is_told_and_not_waited_for():
    with pytest.raises(TooSmall, match="2 processors"):
        workers_of(Shape(encoders=2), 2)


def test_encoders_get_their_model_and_what_else_is_said():
    settings = Settings(identity_secret=SECRET, encoder_model="hash:8", encoder_settings="THREADS=2,MAX_TOKENS=64")
    assert settings.encoder_variables == {
        "SABUESO_EMBEDDING_MODEL": "hash:8",
        "SABUESO_THREADS": "2",
        "SABUESO_MAX_TOKENS": "64",
    }


def test_a_missing_package_is_told_with_the_fix():
    with pytest.raises(optional.RayMissing, match=r"--group ray -c requirements\.lock -c ray\.lock"):
        optional.module("ray_that_is_not_there")


@pytest.mark.slow
def test_no_service_and_no_command_loads_ray():
    """It is large, and is not there in the services' images."""
    script = (
        "import sys\n"
        "sys.modules['ray'] = sys.modules['pyarrow'] = None  # an import of either fails\n"
        "import services.cli.main, services.ingestion.server, services.ingestion.bulk.run\n"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
