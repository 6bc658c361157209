import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.orchestrator.evidence import Evidence, EvidenceBudgets, error_observation, preview
from services.orchestrator.results import Page, Pages, Passage, Passages, Reply, Rows, has_content, summary


def passage(chunk="a", text="Penalty of 2 %.", page=3, document="contract-7"):
    return Passage(document, chunk, "Contract 7", "c7.pdf", page, "8.3", "es", text)


def told(evidence, *passages, reader=None):
    return json.loads(evidence.add(Passages(passages), reader))["passages"]


def rows(*values, columns=("count",), truncated=False):
    return Rows("SELECT 1", "[]", columns, tuple(values), truncated)


def test_sources_are_numbered_over_all_tools():
    evidence = Evidence()
    passages = json.loads(evidence.add(Passages((passage("a"), passage("b", "Another.")))))
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
    found = told(Evidence(), passage(), passage("b", "Another.", page=0))
    assert found[0] == {
        "n": 1,
        "document_id": "contract-7",
        "title": "Contract 7",
        "section": "8.3",
        "page": 3,
        "text": "Penalty of 2 %.",
    }
    assert "page" not in found[1]


@pytest.mark.parametrize(
    ("document", "section", "text", "told_document", "told_text"),
    [
        ("CT-7", "8.3", "It ends.", True, "It ends."),
        ("Contract 7", "8.3", "It ends.", False, "It ends."),
        ("CT-7", "8. End > 8.3 Notice", "8.3 Notice\n\nIt ends.", True, "It ends."),
        ("CT-7", "8.3 Notice", "8.3 Notice", True, "8.3 Notice"),
        ("CT-7", "8.3 Notice", "8.3 Notices\nIt ends.", True, "8.3 Notices\nIt ends."),
        ("CT-7", "", "\nIt ends.", True, "\nIt ends."),
    ],
)
def test_nothing_of_a_passage_is_said_twice(document, section, text, told_document, told_text):
    one = Passage(document, "a", "Contract 7", "c7.pdf", 3, section, "es", text)
    [found] = told(Evidence(), one)
    assert ("document_id" in found) is told_document
    assert found["text"] == told_text


def test_footnotes_of_a_source_do_not_pass_for_citations():
    found = told(Evidence(), passage(text="As shown [3], [4, 5] and [sic]."))
    assert found[0]["text"] == "As shown (3), (4, 5) and [sic]."


def test_a_source_found_again_keeps_its_number():
    evidence = Evidence()
    told(evidence, passage("a"), passage("b", "Another."))
    assert [one["n"] for one in told(evidence, passage("b", "Another."), passage("c", "A third."))] == [2, 3]


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
    found = json.loads(Evidence().add(Passages((), off_topic=True)))
    assert found["passages"] == []
    assert "`collection`" in found["note"]
    assert "note" not in json.loads(Evidence().add(Passages(())))


def test_the_line_for_people_says_how_documents_were_searched():
    found = (passage(),)
    assert summary(Passages(found)) == "1 passage"
    assert summary(Passages(found, queries=("a", "b"), transform="hyde")) == "1 passage; 2 queries (hyde)"
    assert summary(Passages(found, queries=("whole",))) == "1 passage; follow-up completed"
    assert summary(Passages(found, collections=("contracts", "policies"))) == "1 passage; in contracts, policies"
    assert summary(Passages((), off_topic=True)) == "0 passages; no collection is about this"


def test_a_text_of_two_documents_is_given_once_and_names_both():
    evidence = Evidence()
    one, other = passage(text="La penalización es del 2 %."), passage(document="d8", text="LA PENALIZACION  ES DEL 2%")
    (entry,) = told(evidence, one, other)
    assert entry["also_in"] == [{"n": 2, "document_id": "d8", "title": "Contract 7", "section": "8.3", "page": 3}]
    assert evidence.sources == {1: one, 2: other}


@pytest.mark.parametrize(
    "other",
    ["The penalty is 3 % a month.", "The penalty is not 2 % a month.", "The penalty is 2 % a year.", "2 % a month."],
)
def test_texts_that_say_something_else_are_two(other):
    assert len(told(Evidence(), passage("a", "The penalty is 2 % a month."), passage("b", other))) == 2


def test_a_part_of_a_text_that_was_given_is_not_given_again():
    whole = "Late delivery is fined with 2 % of the monthly fee for every week, at most 20 %. Both sides may end it."
    part = "Late delivery is fined with 2 % of the monthly fee for every week"
    assert len(told(Evidence(), passage("a", whole), passage("b", part))) == 1
    assert len(told(Evidence(), passage("b", part), passage("a", whole))) == 2


def test_results_without_text_are_not_the_same():
    pages = Pages((Page("https://a.eu", "A", "", ""), Page("https://b.eu", "B", "", "")))
    assert len(json.loads(Evidence().add(pages))["results"]) == 2


def test_what_a_transcript_holds_already_is_only_named_and_another_transcript_gets_it():
    evidence = Evidence()
    told(evidence, passage(), reader="main")
    assert told(evidence, passage(), reader="main") == [
        {"n": 1, "document_id": "contract-7", "title": "Contract 7", "section": "8.3", "page": 3} | {"given": "above"}
    ]
    assert told(evidence, passage(), reader="s1")[0]["text"] == "Penalty of 2 %."
    assert told(evidence, passage())[0]["text"] == "Penalty of 2 %."


def long(number, chars=2_000):
    return passage(str(number), f"Clause {number}. " + " ".join(f"{number}.{i}" for i in range(chars // 6)))


def test_of_a_long_result_the_most_relevant_come_first_and_last():
    found = [long(number) for number in range(7)]
    entries = told(Evidence(budgets=EvidenceBudgets()), *found)
    assert [one["n"] for one in entries] == [1, 3, 5, 7, 6, 4, 2]
    assert [one["n"] for one in told(Evidence(), *found)] == [1, 2, 3, 4, 5, 6, 7]
    assert [one["n"] for one in told(Evidence(budgets=EvidenceBudgets()), *found[:5])] == [1, 2, 3, 4, 5]


def test_older_results_are_shortened_once_their_kind_is_over_its_budget_and_others_are_not():
    evidence = Evidence(budgets=EvidenceBudgets(documents=1_000))
    evidence.add(Passages((long(0),)))
    evidence.add(rows(*((i, "x" * 200) for i in range(50)), columns=("i", "x")))
    evidence.cite([2])
    assert [evidence.shortened(index) for index in range(2)] == ["", ""]
    evidence.add(Passages((long(1), long(2))))
    assert [bool(evidence.shortened(index)) for index in range(3)] == [True, False, False]
    (entry,) = json.loads(evidence.shortened(0))["passages"]
    assert entry["n"] == 1
    assert len(entry["text"]) < 300
    assert 1 in evidence


def test_what_was_cited_stays_whole():
    evidence = Evidence(budgets=EvidenceBudgets(documents=1_000, rows=100, replies=100))
    evidence.add(Passages((long(0), long(1))))
    evidence.add(rows(*((i, "x" * 200) for i in range(5)), columns=("i", "x")))
    evidence.add(Reply("crm__find", "{}", "word " * 200))
    evidence.cite([2])
    evidence.add(Passages((long(2), long(3))))
    evidence.add(rows((1, "x" * 900), columns=("i", "y")))
    evidence.add(Reply("crm__find", '{"a": 1}', "word " * 200))
    texts = [len(one["text"]) for one in json.loads(evidence.shortened(0))["passages"]]
    assert texts[0] < 300 < texts[1]
    table = json.loads(evidence.shortened(1))
    assert (len(table["rows"]), table["row_count"], table["truncated"]) == (3, 5, True)
    assert len(evidence.shortened(2)) < 300


def test_what_was_shortened_is_given_again_when_it_is_found_again():
    evidence = Evidence(budgets=EvidenceBudgets(documents=1_000))
    told(evidence, long(0), reader="main")
    told(evidence, long(1), long(2), reader="main")
    assert evidence.shortened(0)
    assert "text" in told(evidence, long(0), reader="main")[0]


def test_older_results_are_shortened_all_at_once_so_that_the_prompt_changes_rarely():
    evidence, changes, before = Evidence(budgets=EvidenceBudgets(documents=3_000)), 0, ()
    for number in range(30):
        evidence.add(Passages((long(number),)))
        now = tuple(bool(evidence.shortened(index)) for index in range(number + 1))
        changes += now[: len(before)] != before
        before = now
    assert 1 <= changes <= 8


def test_titles_and_sections_are_no_place_for_a_text():
    long = "Ends here. " * 10_000
    document = Passage("d", "c", long, "d.pdf", 1, long, "en", "The text.")
    (told_document,) = told(Evidence(1_000), document)
    assert told_document["text"] == "The text."
    assert max(len(told_document["title"]), len(told_document["section"])) < 400
    page = json.loads(Evidence(1_000).add(Pages((Page("https://e.eu", long, "Text", ""),))))["results"][0]
    assert (page["snippet"], len(page["title"]) < 400) == ("Text", True)


def test_the_columns_of_a_table_count_as_its_rows_do():
    columns = tuple(f"column_{number:03}" for number in range(80))
    table = json.loads(Evidence(1_250).add(rows((1,) * 80, (2,) * 80, columns=columns)))
    assert (table["rows"], table["row_count"], table["truncated"]) == ([[1] * 80], 2, True)
