import json

from hypothesis import given
from hypothesis import strategies as st

from services.orchestrator.evidence import Evidence, error_observation, preview
from services.orchestrator.results import Page, Pages, Passage, Passages, Rows, has_content, summary


def passage(chunk="a", text="Penalty of 2 %.", page=3):
    return Passage("contract-7", chunk, "Contract 7", "c7.pdf", page, "8.3", "es", text)


def rows(*values, columns=("count",), truncated=False):
    return Rows("SELECT 1", "[]", columns, tuple(values), truncated)


def test_sources_are_numbered_over_all_tools():
    evidence = Evidence()
    passages = json.loads(evidence.add(Passages((passage("a"), passage("b")))))
    table = json.loads(evidence.add(rows((47,))))
    web = json.loads(evidence.add(Pages((Page("https://e.eu", "E", "Text", "2025-01-01"),))))
    assert [one["n"] for one in passages["passages"]] == [1, 2]
    assert table == {"n": 3, "columns": ["count"], "rows": [[47]], "row_count": 1, "truncated": False}
    assert web == {
        "results": [{"n": 4, "title": "E", "url": "https://e.eu", "snippet": "Text", "published": "2025-01-01"}]
    }
    assert list(evidence.sources) == [1, 2, 3, 4]
    assert 4 in evidence
    assert 5 not in evidence


def test_a_passage_is_told_with_what_is_known_of_it():
    told = json.loads(Evidence().add(Passages((passage(), passage("b", page=0)))))["passages"]
    assert told[0] == {
        "n": 1,
        "document_id": "contract-7",
        "title": "Contract 7",
        "section": "8.3",
        "page": 3,
        "language": "es",
        "text": "Penalty of 2 %.",
    }
    assert "page" not in told[1]


def test_footnotes_of_a_source_do_not_pass_for_citations():
    told = json.loads(Evidence().add(Passages((passage(text="As shown [3], [4, 5] and [sic]."),))))
    assert told["passages"][0]["text"] == "As shown (3), (4, 5) and [sic]."


def test_a_source_found_again_keeps_its_number():
    evidence = Evidence()
    evidence.add(Passages((passage("a"), passage("b"))))
    again = json.loads(evidence.add(Passages((passage("b"), passage("c")))))
    assert [one["n"] for one in again["passages"]] == [2, 3]


def test_nothing_found_is_no_content_and_an_answer_of_zero_is():
    assert not has_content(Passages(()))
    assert not has_content(Pages(()))
    assert not has_content(rows())
    assert not has_content(rows((None,)))
    assert has_content(rows((0,)))


def test_many_rows_are_cut_to_the_ceiling_and_marked():
    table = json.loads(Evidence(1_000).add(rows(*((i, "x" * 50) for i in range(200)), columns=("i", "x"))))
    assert 5 < len(table["rows"]) < 30
    assert table["row_count"] == 200
    assert table["truncated"] is True


@given(st.lists(st.text(max_size=300), min_size=1, max_size=10))
def test_passages_stay_near_the_ceiling_and_are_valid_json(texts):
    found = Passages(tuple(passage(str(i), text) for i, text in enumerate(texts)))
    text = Evidence(1_000).add(found)
    assert json.loads(text)["passages"][0]["n"] == 1
    assert len(text) < 1_400


def test_a_failure_is_told_with_its_tool():
    assert json.loads(error_observation("web_search", "timeout after 5s")) == {
        "error": "timeout after 5s",
        "tool": "web_search",
    }
    helped = json.loads(error_observation("sql_query", "no column", code="unknown_column", position="8", hint="use x"))
    assert (helped["code"], helped["position"], helped["hint"]) == ("unknown_column", 8, "use x")


def test_the_preview_shows_the_first_rows():
    assert json.loads(preview(rows((1,), (2,), (3,)), max_rows=2)) == {"columns": ["count"], "rows": [[1], [2]]}


def test_summaries_are_for_people():
    assert summary(Passages((passage(),))) == "1 passage"
    assert summary(rows((1,), (2,), truncated=True)) == "2 rows (truncated)"
    assert summary(Pages(())) == "0 pages"


def test_the_model_is_told_when_no_collection_is_about_its_query():
    told = json.loads(Evidence().add(Passages((), off_topic=True)))
    assert told["passages"] == []
    assert "`collection`" in told["note"]
    assert "note" not in json.loads(Evidence().add(Passages(())))


def test_the_line_for_people_says_how_documents_were_searched():
    found = (passage(),)
    assert summary(Passages(found)) == "1 passage"
    assert summary(Passages(found, queries=("a", "b"), transform="hyde")) == "1 passage; 2 queries (hyde)"
    assert summary(Passages(found, queries=("whole",))) == "1 passage; follow-up completed"
    assert summary(Passages(found, collections=("contracts", "policies"))) == "1 passage; in contracts, policies"
    assert summary(Passages((), off_topic=True)) == "0 passages; no collection is about this"
