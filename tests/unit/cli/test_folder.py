"""Which files are found in a folder, and which ids their documents get."""

import re
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.cli.folder import Choice, SameId, _below, document_id, find, prefix_of

ID = re.compile(r"[A-Za-z0-9._:/-]{1,200}")


@pytest.fixture
def docs(tmp_path):
    folder = tmp_path / "docs"
    for name in ("a.md", "b.pdf", "sub/c.md", "sub/deep/d.md", ".hidden.md", ".git/config", "sub/.cache/x.md"):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    return folder


def ids(paths, choice=Choice(), prefix=""):  # noqa: B008 - it is frozen
    return [file.document_id for file in find(paths, choice, prefix)]


def test_ids_are_the_folders_name_and_the_path_below_it(docs):
    assert ids([docs]) == ["docs/a.md", "docs/b.pdf", "docs/sub/c.md", "docs/sub/deep/d.md"]
    assert ids([docs], prefix="2025/manual") == [
        "2025/manual/a.md", "2025/manual/b.pdf", "2025/manual/sub/c.md", "2025/manual/sub/deep/d.md",
    ]  # fmt: skip


def test_a_file_has_the_same_id_alone_as_with_its_folder(docs):
    assert ids([docs / "a.md"]) == ["docs/a.md"]
    assert ids([docs / "a.md", docs], Choice(recursive=False)) == ["docs/a.md", "docs/b.pdf"]
    assert ids([docs / ".hidden.md"]) == ["docs/.hidden.md"]


def test_patterns_choose_by_path_or_name(docs):
    assert ids([docs], Choice(include=["*.md"])) == ["docs/a.md", "docs/sub/c.md", "docs/sub/deep/d.md"]
    assert ids([docs], Choice(exclude=["sub/*"])) == ["docs/a.md", "docs/b.pdf"]
    assert ids([docs], Choice(include=["*.md"], exclude=["*/deep/*", "a.*"])) == ["docs/sub/c.md"]
    assert ids([docs], Choice(recursive=False)) == ["docs/a.md", "docs/b.pdf"]


def test_links_are_followed_and_loops_survived(docs, tmp_path):
    (docs / "loop").symlink_to(docs)
    (docs / "sub" / "up").symlink_to("..")
    (docs / "broken").symlink_to("nowhere")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "e.md").write_text("e")
    (docs / "linked").symlink_to(elsewhere)
    found = find([docs], Choice())
    assert "docs/linked/e.md" in [file.document_id for file in found]
    assert len(found) == 5


def test_two_files_are_never_one_document(docs, tmp_path):
    other = tmp_path / "other" / "docs"
    other.mkdir(parents=True)
    (other / "a.md").write_text("another")
    with pytest.raises(SameId, match="--prefix"):
        find([docs, other], Choice())


def test_names_outside_the_alphabet_stay_apart_and_stable():
    assert document_id("docs", "año 1.md").startswith("docs/ano_1.md-")
    assert document_id("docs", "año.md") != document_id("docs", "ano.md")
    composed, apart = (unicodedata.normalize(form, "año.md") for form in ("NFC", "NFD"))
    assert document_id("docs", composed) == document_id("docs", apart)
    assert document_id("docs", "a" * 300) != document_id("docs", "a" * 301)
    assert document_id("docs", "x/chunks").startswith("docs/x/chunks-")
    assert ID.fullmatch(prefix_of(Path("/srv/Documentación")))


@given(st.text(min_size=1, max_size=400), st.text(min_size=1, max_size=400))
def test_ids_are_valid_and_as_different_as_names(one, other):
    root = prefix_of(Path("/srv"), "¡" + one)
    first, second = document_id(root, one), document_id(root, other)
    assert ID.fullmatch(first)
    same = unicodedata.normalize("NFC", one) == unicodedata.normalize("NFC", other)
    assert (first == second) == same


def test_a_folder_that_cannot_be_read_is_an_error_and_not_empty(docs):
    (docs / "sub" / "deep" / "d.md").unlink()
    found = _below(docs, Choice())
    while next(found) != "sub/c.md":  # os.walk has seen the folder below by now
        pass
    (docs / "sub" / "deep").rmdir()
    with pytest.raises(FileNotFoundError):
        list(found)
