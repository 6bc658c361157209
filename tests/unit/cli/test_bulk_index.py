"""`sabueso bulk-index`: which files are taken, and what it says before anything is begun."""

import pytest
from typer.testing import CliRunner

from services.cli.main import app

SECRET = "for-tests-only-for-tests-only-32b"


@pytest.fixture
def bulk_index(tmp_path):
    def call(*words, secret=SECRET, **environment):
        known = {
            "SABUESO_IDENTITY_SECRET": secret,
            "SABUESO_RETRIEVAL_ADDRESS": "127.0.0.1:1",
            "SABUESO_URL": "http://127.0.0.1:1",
            "SABUESO_API_KEY": "sk-of-the-other-commands",
        }
        said = ["--tenant", "acme", "--collection", "corpus", "--ledger", str(tmp_path / "ledger.sqlite")]
        return CliRunner().invoke(app, ["bulk-index", *said, *words], env=known | environment)

    return call


def test_it_asks_whose_documents_they_are():
    done = CliRunner().invoke(app, ["bulk-index", ".", "--collection", "corpus"])
    assert done.exit_code == 1
    assert "--tenant" in done.stderr


def test_a_run_without_the_installation_s_secret_names_the_variable(bulk_index, tmp_path):
    (tmp_path / "a.txt").write_text("one")
    done = bulk_index(str(tmp_path), secret=None)
    assert done.exit_code == 78
    assert "SABUESO_IDENTITY_SECRET" in done.stderr


def test_a_misspelt_setting_is_refused(bulk_index, tmp_path):
    (tmp_path / "a.txt").write_text("one")
    done = bulk_index(str(tmp_path), SABUESO_RETREIVAL_ADDRESS="127.0.0.1:1")
    assert done.exit_code == 78
    assert "SABUESO_RETREIVAL_ADDRESS" in done.stderr


def test_services_that_are_away_are_named_before_anything_is_begun(bulk_index, tmp_path):
    (tmp_path / "a.txt").write_text("one")
    done = bulk_index(str(tmp_path))
    assert done.exit_code == 1
    assert "retrieval" in done.stderr


def test_two_files_that_would_become_one_document_are_refused(bulk_index, tmp_path):
    for name in ("x", "y"):
        (tmp_path / name / "same").mkdir(parents=True)
        (tmp_path / name / "same" / "a.txt").write_text(name)
    done = bulk_index(str(tmp_path / "x" / "same"), str(tmp_path / "y" / "same"))
    assert done.exit_code == 1
    assert "would become the same document" in done.stderr


def test_a_list_names_what_is_taken_and_nothing_of_it_is_no_run(bulk_index, tmp_path):
    (tmp_path / "list").write_text(f"\n{tmp_path / 'empty'}\n")
    (tmp_path / "empty").mkdir()
    done = bulk_index("--from", str(tmp_path / "list"))
    assert (done.exit_code, done.stderr.strip()) == (1, "There are no such files.")
    assert "No such file" in bulk_index("--from", str(tmp_path / "gone")).stderr


def test_a_ledger_that_is_none_is_named(bulk_index, tmp_path):
    (tmp_path / "a.txt").write_text("one")
    (tmp_path / "ledger.sqlite").write_text("no ledger, and longer than the header of a database would be " * 20)
    done = bulk_index(str(tmp_path))
    assert done.exit_code == 1
    assert "ledger.sqlite" in done.stderr
