import json

from hypothesis import given
from hypothesis import strategies as st

from services.orchestrator.results import Page, Pages, Passage, Passages, Rows
from services.orchestrator.structured import structured


def passage(number, text="text"):
    return Passage(
        f"d{number}", f"d{number}#1", "Title", "c.pdf", 3, "8.3", "es", text, "legal", 0.5, {"year": "2025"}
    )  # fmt: skip


def test_passages_come_with_ids_scores_and_metadata():
    assert structured(Passages((passage(1),))) == {
        "passages": [
            {
                "document_id": "d1",
                "chunk_id": "d1#1",
                "collection": "legal",
                "title": "Title",
                "source": "c.pdf",
                "page": 3,
                "section": "8.3",
                "language": "es",
                "score": 0.5,
                "metadata": {"year": "2025"},
                "text": "text",
            }
        ],
        "truncated": False,
    }


def test_a_format_without_pages_has_none():
    one = Passage("d", "c", "T", "s", 0, "", "", "text")
    assert structured(Passages((one,)))["passages"][0]["page"] is None


def test_rows_come_with_their_statement():
    found = Rows("SELECT a FROM t WHERE b = $1", "[7]", ("a",), ((1,), (None,)), truncated=True)
    assert structured(found) == {
        "columns": ["a"],
        "rows": [[1], [None]],
        "row_count": 2,
        "truncated": True,
        "statement": "SELECT a FROM t WHERE b = $1",
        "params": [7],
    }


def test_pages_are_results():
    found = structured(Pages((Page("https://a.example", "A", "about a", "2025-01-01"),)))
    assert found == {
        "results": [{"title": "A", "url": "https://a.example", "snippet": "about a", "published": "2025-01-01"}],
        "truncated": False,
    }


@given(st.lists(st.text(max_size=60), max_size=20), st.integers(0, 3_000))
def test_what_does_not_fit_is_left_out_whole_and_said(texts, most):
    for found, name in (
        (Passages(tuple(passage(number, text) for number, text in enumerate(texts))), "passages"),
        (Pages(tuple(Page(text, text, text, "") for text in texts)), "results"),
        (Rows("s", "", ("a",), tuple((text,) for text in texts)), "rows"),
    ):
        whole, cut = structured(found), structured(found, most)
        kept = cut[name]
        assert kept == whole[name][: len(kept)]
        assert len(json.dumps(kept, ensure_ascii=False)) <= max(2, most)
        assert cut["truncated"] == (len(kept) < len(texts))
