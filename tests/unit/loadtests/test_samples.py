import subprocess

import pytest

from loadtests.offering.samples import revision


def git(folder, *arguments):
    who = ("-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false")
    ran = subprocess.run(["git", *who, *arguments], cwd=folder, check=True, capture_output=True, text=True, timeout=60)
    return ran.stdout.strip()


@pytest.fixture
def copy(tmp_path):
    git(tmp_path, "init", "-q")
    for name in ("docs/page.md", "README.md", "code.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("first\n")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "first")
    return tmp_path


@pytest.mark.parametrize(
    ("changed", "mark"), [((), ""), (("docs/page.md", "README.md"), ""), (("code.py",), "+"), (("new.py",), "+")]
)
def test_a_revision_is_marked_where_the_code_is_another_one(copy, changed, mark):
    for name in changed:
        (copy / name).write_text("second\n")
    assert revision(copy) == git(copy, "rev-parse", "HEAD") + mark


def test_without_a_working_copy_there_is_no_revision(tmp_path):
    assert revision(tmp_path) == ""
