import json
import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from services.evaluation.retrieval import beir
from services.evaluation.retrieval.collection import BrokenCollection

HANDBOOK = Path(__file__).parents[3] / "data" / "evaluation" / "beir" / "handbook"


@pytest.fixture
def copy(tmp_path):
    return Path(shutil.copytree(HANDBOOK, tmp_path / "handbook"))


def test_titles_texts_and_positive_judgements_are_read():
    collection = beir.load(HANDBOOK)
    assert beir.is_beir(HANDBOOK)
    assert len(collection.passages) == 10
    assert collection.passages[0].title == "Holidays"
    assert {one.question_id: one.relevant for one in collection.questions} == {
        "q1": {"h1"},
        "q2": {"h2"},
        "q3": {"h6"},  # h7 is judged and not relevant
        "q4": {"h7"},
    }


@pytest.mark.parametrize(("folder", "language"), [("handbook", "en"), ("miracl-es", "es"), ("trec-covid", "en")])
def test_the_folders_name_says_the_language(copy, folder, language):
    renamed = copy.rename(copy.with_name(folder))
    assert {one.language for one in beir.load(renamed).passages} == {language}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
@given(st.lists(st.text(min_size=1), min_size=1, max_size=5))
def test_any_text_is_read_as_it_was_written(copy, texts):
    rows = [{"_id": f"d{n}", "text": text} for n, text in enumerate(texts)]
    (copy / "corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    (copy / "qrels" / "test.tsv").write_text("q1\td0\t1\n")
    assert [one.text for one in beir.load(copy).passages] == texts


def test_judgements_without_a_head_line_are_read_too(copy):
    path = copy / "qrels" / "test.tsv"
    path.write_text("q1\th1\t1\n")
    assert [one.question_id for one in beir.load(copy).questions] == ["q1"]


def test_the_dev_judgements_are_taken_where_there_are_no_test_judgements(copy):
    (copy / "qrels" / "test.tsv").rename(copy / "qrels" / "dev.tsv")
    assert len(beir.load(copy).questions) == 4


def test_missing_judgements_are_named(copy):
    shutil.rmtree(copy / "qrels")
    with pytest.raises(BrokenCollection, match="no qrels"):
        beir.load(copy)


@pytest.mark.parametrize("line", ["{", json.dumps({"id": "no underscore"}), "[]"])
def test_a_wrong_line_is_named_by_file_and_number(copy, line):
    with (copy / "queries.jsonl").open("a") as file:
        file.write(line + "\n")
    with pytest.raises(BrokenCollection, match=r"queries.jsonl, line 6"):
        beir.load(copy)


def test_judgements_of_another_collection_are_refused(copy):
    (copy / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq1\t4983\t1\n")
    with pytest.raises(BrokenCollection, match="only 0% of the judged passage ids exist"):
        beir.load(copy)
