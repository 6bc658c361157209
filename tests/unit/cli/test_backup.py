"""A backup as a folder: whole or not there, its damages found, and put back only where there is room."""

import contextlib
import json
import os
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from services.cli.backup import manifest, restoring, saving
from services.cli.backup.part import Refused, Saved
from services.cli.backup.postgres import find_program
from services.cli.backup.spool import Spool
from services.cli.backup.tenant_files import TenantFiles
from services.cli.main import app


class Breaking:
    """A part that breaks down half-way."""

    name = "breaking"

    def __init__(self, error):
        self.error = error

    def save(self, folder):
        (folder / "half").write_text("…")
        raise self.error


class Waiting:
    """A part that takes until it is told to go on."""

    name = "waiting"

    def __init__(self):
        self.began, self.go_on = threading.Event(), threading.Event()

    def save(self, folder):
        self.began.set()
        self.go_on.wait(60)
        return Saved()


@pytest.fixture
def home(tmp_path):
    """An installation with two tenants and a document that waits."""
    (tmp_path / "tenants").mkdir()
    for name in ("acme", "other"):
        (tmp_path / "tenants" / f"{name}.yaml").write_text(f"id: {name}\n")
    (tmp_path / "spool/jobs/job-1").mkdir(parents=True)
    (tmp_path / "spool/jobs/job-1/content").write_text("waits")
    (tmp_path / "spool/vectors").mkdir()
    return tmp_path


def parts(folder):
    return [Spool(folder / "spool"), TenantFiles(folder / "tenants")]


def save(home, target="backup", *more):
    return saving.save(home / target, [*parts(home), *more], ["valkey"], lambda line: None)


def restore(home, target, **options):
    return restoring.restore(home / "backup", parts(target), lambda line: None, **{"replace": False, **options})


def test_what_is_saved_is_restored_elsewhere_as_it_was(home):
    made = save(home)
    assert restore(home, home / "new") == []
    assert (home / "new/spool/jobs/job-1/content").read_text() == "waits"
    assert sorted(path.name for path in (home / "new/tenants").iterdir()) == ["acme.yaml", "other.yaml"]
    assert (made.parts["tenants"].counts, made.left_out) == ({"files": 2}, ("valkey",))


def test_nobody_else_may_read_a_backup(home):
    save(home)
    assert (home / "backup").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("error", [Refused("the server is away"), OSError("the disk is full"), KeyboardInterrupt()])
def test_a_backup_that_breaks_down_leaves_nothing_that_looks_whole(home, error):
    with pytest.raises(type(error)):
        save(home, "backup", Breaking(error))
    assert [path.name for path in home.iterdir() if path.name.startswith("backup")] == []


def test_what_a_killed_run_left_is_no_backup_and_is_overwritten(home):
    (home / "backup.unfinished/tenants").mkdir(parents=True)
    (home / "backup.unfinished/tenants/acme.yaml").write_text("id: ac")
    with pytest.raises(Refused, match="is no backup"):
        restoring.whole(home / "backup.unfinished")
    save(home)
    assert restoring.whole(home / "backup").parts["tenants"].counts == {"files": 2}
    assert not (home / "backup.unfinished").exists()


def test_of_two_runs_to_one_place_the_second_is_refused(home):
    waiting = Waiting()
    first = threading.Thread(target=save, args=(home, "backup", waiting))
    first.start()
    try:
        assert waiting.began.wait(60)
        with pytest.raises(Refused, match="another backup"):
            save(home)
    finally:
        waiting.go_on.set()
        first.join()
    assert restoring.whole(home / "backup")


def test_a_backup_is_never_written_over(home):
    save(home)
    with pytest.raises(Refused, match="there already"):
        save(home)


def test_an_occupied_place_is_named_and_left_alone_without_replace(home):
    save(home)
    (home / "tenants/acme.yaml").write_text("id: acme\npriority: high\n")
    (home / "tenants/third.yaml").write_text("id: third\n")
    with pytest.raises(Refused, match="3 tenants' files"):
        restore(home, home)
    assert (home / "tenants/acme.yaml").read_text().endswith("high\n")
    assert restore(home, home, replace=True) == []
    assert sorted(path.name for path in (home / "tenants").iterdir()) == ["acme.yaml", "other.yaml"]
    assert (home / "tenants/acme.yaml").read_text() == "id: acme\n"


def test_what_differs_from_the_backup_is_told(home):
    made = save(home)
    (home / "tenants/third.yaml").write_text("id: third\n")
    places, _ = restoring.matched(made, parts(home))
    assert restoring.compare(made, places) == ["3 tenants' files are there; 2 were saved"]


def test_a_mistake_in_a_tenants_file_is_saved_with_a_warning(home):
    (home / "tenants/acme.yaml").write_text("id: acme\nlimit: 3\n")
    assert "acme.yaml: limit" in save(home).parts["tenants"].warnings[0]


def test_jobs_are_restored_after_all_else(home):
    made = save(home)
    assert list(restoring.matched(made, parts(home))[0]) == ["tenants", "spool"]


@settings(max_examples=25)
@given(position=st.integers(min_value=0), flipped=st.integers(min_value=1, max_value=255))
def test_whatever_byte_is_changed_is_found(tmp_path_factory, position, flipped):
    home = tmp_path_factory.mktemp("home")
    (home / "tenants").mkdir()
    (home / "tenants/acme.yaml").write_text("id: acme\n")
    saving.save(home / "backup", [TenantFiles(home / "tenants")], [], lambda line: None)
    path = home / "backup/tenants/acme.yaml"
    content = bytearray(path.read_bytes())
    content[position % len(content)] ^= flipped
    path.write_bytes(content)
    assert manifest.damages(home / "backup", manifest.read(home / "backup")) == [
        "tenants/acme.yaml was changed or is damaged"
    ]


def test_missing_and_foreign_files_are_damages(home):
    save(home)
    (home / "backup/tenants/acme.yaml").rename(home / "backup/tenants/stray.yaml")
    with pytest.raises(Refused, match=r"acme\.yaml is missing; .*stray\.yaml does not belong"):
        restoring.whole(home / "backup")


def test_a_backup_of_a_later_format_is_refused(home):
    save(home)
    path = home / "backup/manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"format": 99}))
    with pytest.raises(Refused, match="format 99"):
        restoring.whole(home / "backup")


def test_rotation_keeps_the_newest_whole_ones_and_touches_nothing_else(home):
    store = home / "store"
    for day in range(1, 5):
        saving.save(store / f"sabueso-2027010{day}T030000Z", parts(home), [], lambda line: None)
    (store / "sabueso-20270109T030000Z.unfinished").mkdir()
    (store / "notes").mkdir()
    saving.prune(store, 2)
    assert sorted(path.name for path in store.iterdir()) == [
        "notes",
        "sabueso-20270103T030000Z",
        "sabueso-20270104T030000Z",
        "sabueso-20270109T030000Z.unfinished",
    ]


@pytest.fixture
def sabueso(home):
    def call(*words):
        # Elsewhere than here, where `make up` may have told of a stack: nothing of that is saved, and nothing restored.
        with contextlib.chdir(home):
            return CliRunner().invoke(app, list(words), env={"SABUESO_TENANTS_DIR": str(home / "tenants")})

    return call


def test_the_commands_read_the_services_own_variables(sabueso, home):
    done = sabueso("backup", str(home / "backup"), "--spool-dir", str(home / "spool"))
    assert done.exit_code == 0, done.output
    assert "tenants: 2 files" in done.stdout
    assert "Left out, for no place was said: valkey, vectors, postgres-results" in done.stdout
    assert sabueso("restore", str(home / "backup"), "--check").exit_code == 0
    assert sabueso("restore", str(home / "backup")).exit_code == 1
    (home / "tenants/third.yaml").write_text("id: third\n")
    assert sabueso("restore", str(home / "backup"), "--check").exit_code == 3
    assert sabueso("restore", str(home / "backup"), "--replace").exit_code == 0


def test_scripts_read_json(sabueso, home):
    told = json.loads(sabueso("backup", str(home / "store"), "--keep", "2", "--json").stdout)
    assert told["parts"]["tenants"]["counts"] == {"files": 2}
    checked = json.loads(sabueso("restore", told["folder"], "--check", "--json").stdout)
    assert checked == {"folder": told["folder"], "restored": False, "differs": []}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--only", "vectors"], "there is nothing to save"),
        (["--only", "teants"], "there is no part teants"),
        (["--postgres", "acme"], "say NAME=FILE"),
        (["--postgres", "acme=/nowhere"], "No such file"),
        (["--tenants-dir", "/nowhere"], "holds no tenant's file"),
        (["--vector-store", "edge:/nowhere"], "holds no vector store"),
    ],
)
def test_what_cannot_be_saved_is_one_line_and_status_1(sabueso, home, words, said):
    done = sabueso("backup", str(home / "backup"), *words)
    assert done.exit_code == 1
    assert said in done.stderr
    assert not (home / "backup").exists()


def test_the_program_of_postgresql_that_fits_the_server_is_taken(tmp_path):
    for version in (11, 97, 98):
        (tmp_path / str(version)).mkdir()
        program = tmp_path / str(version) / "pg_dump"
        program.write_text(f'#!/bin/sh\necho "pg_dump (PostgreSQL) {version}.1 (made for this test)"\n')
        program.chmod(0o755)
    folders = [str(path) for path in tmp_path.iterdir()]
    assert find_program("pg_dump", 97, folders) == os.path.join(tmp_path, "97", "pg_dump")
    assert find_program("pg_dump", 98, folders) == os.path.join(tmp_path, "98", "pg_dump")
    with pytest.raises(Refused, match="install postgresql-client-99"):
        find_program("pg_dump", 99, folders)
    with pytest.raises(Refused, match="not on the PATH"):
        find_program("pg_nothing", 99, folders)
