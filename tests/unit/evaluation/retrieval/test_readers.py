"""XQuAD, the multi-hop samples and tau2's bank, as shipped or in their shape."""

import gzip
import json
from pathlib import Path

import pytest

from services.evaluation.retrieval import catalogue, multihop, tau2, xquad
from services.evaluation.retrieval.collection import BrokenCollection

COLLECTIONS = Path(__file__).parents[3] / "data" / "evaluation" / "collections"


@pytest.mark.parametrize(("task", "count"), [("xquad-en", 60), ("xquad-es", 60), ("xquad-es-to-en", 60)])
def test_the_paragraph_of_a_question_answers_it(task, count):
    collection = xquad.load(COLLECTIONS / "xquad", task)
    assert len(collection.passages) == count
    assert {len(one.relevant) for one in collection.questions} == {1}


def test_both_translations_answer_a_question_to_both_languages():
    collection = xquad.load(COLLECTIONS / "xquad", "xquad-es-to-both")
    relevant = sorted(collection.questions[0].relevant)
    assert [one.split(":")[0] for one in relevant] == ["en", "es"]
    assert len({one.split(":", 1)[1] for one in relevant}) == 1
    assert {one.language for one in collection.passages} == {"en", "es"}


def test_byte_order_marks_in_the_middle_of_the_file_are_gone():
    passages = xquad.load(COLLECTIONS / "xquad", "xquad-es").passages
    assert not any("\ufeff" in one.text for one in passages)


@pytest.mark.parametrize(("name", "most"), [("hotpotqa", 2), ("musique", 4)])
def test_a_multi_hop_question_needs_two_passages_or_more(name, most):
    collection = multihop.load(COLLECTIONS / "multihop", name)
    assert len(collection.questions) == 20
    assert {len(one.relevant) for one in collection.questions} <= set(range(2, most + 1))


def test_a_supporting_passage_that_is_not_in_the_corpus_is_noticed(tmp_path):
    (tmp_path / "musique_train_corpus.json").write_text(json.dumps([{"title": "A", "text": "a"}]))
    paragraphs = [{"title": "A", "paragraph_text": "another text", "is_supporting": True}]
    rows = [{"id": "1", "question": "?", "paragraphs": paragraphs}]
    (tmp_path / "musique_train.json").write_text(json.dumps(rows))
    with pytest.raises(BrokenCollection, match="only 0% of the judged passage ids exist"):
        multihop.load(tmp_path, "musique")


def test_a_task_of_the_bank_asks_for_its_required_documents(tmp_path):
    folder = tmp_path / "banking_knowledge"
    folder.mkdir()
    with gzip.open(folder / "documents.json.gz", "wt") as file:
        json.dump([{"id": f"doc_(general)_{n}", "title": f"T{n}", "content": f"c{n}"} for n in range(3)], file)
    task = {
        "id": "task_1",
        "user_scenario": {"instructions": "You want a card."},
        "required_documents": ["doc_(general)_2"],
    }
    (folder / "tasks.json").write_text(json.dumps([task]))
    assert tau2.is_tau2(tmp_path)
    collection = tau2.load(tmp_path)
    assert [(one.text, one.relevant) for one in collection.questions] == [("You want a card.", {"doc_(general)_2"})]


def test_what_is_shipped_is_found_and_the_identifiers_with_it():
    assert sorted(catalogue.found(COLLECTIONS)) == sorted([*xquad.TASKS, *multihop.NAMES, "identifiers"])


def test_a_collection_in_the_layout_of_beir_is_found_by_its_folder():
    assert "handbook" in catalogue.found(COLLECTIONS.parent / "beir")


def test_an_unknown_collection_is_named_with_those_that_there_are():
    with pytest.raises(BrokenCollection, match=r"no such collection: xquad-fr; there are .*xquad-en"):
        catalogue.chosen(catalogue.found(COLLECTIONS), ["xquad-fr"])


def test_a_folder_without_collections_is_refused(tmp_path):
    with pytest.raises(BrokenCollection, match="holds no collection"):
        catalogue.found(tmp_path / "not there")
