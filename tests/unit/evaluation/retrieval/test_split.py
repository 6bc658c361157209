import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.evaluation.retrieval import catalogue, identifiers, split
from services.evaluation.retrieval.collection import Collection, Passage, Question

SHIPPED = Path(__file__).parents[3] / "data" / "evaluation" / "collections"
# Each question is answered by passages of some of twelve documents, two passages each.
RELEVANT = st.lists(st.sets(st.integers(0, 23), min_size=1, max_size=3), min_size=2, max_size=30)


def collection(relevant, name="some", by_document=True):
    passages = [Passage(f"p{n:02d}", f"text {n}", source=f"d{n // 2:02d}") for n in range(24)]
    questions = [
        Question(f"q{at:02d}", f"question {at}", frozenset(f"p{n:02d}" for n in each))
        for at, each in enumerate(relevant)
    ]
    return Collection(name, passages, questions, by_document, name)


def ids(halves):
    return [{one.question_id for questions in half.values() for one in questions} for half in (halves.dev, halves.test)]


@given(RELEVANT)
def test_no_document_answers_questions_of_both_halves(relevant):
    one = collection(relevant)
    halves = split.halves(one, {})
    split.check_apart(one, halves)
    dev, test = ids(halves)
    assert dev | test == {each.question_id for each in one.questions}
    assert not dev & test
    documents = [
        {int(passage[1:]) // 2 for each in one.questions if each.question_id in half for passage in each.relevant}
        for half in (dev, test)
    ]
    assert not documents[0] & documents[1]


@given(RELEVANT, st.randoms())
def test_the_order_of_the_questions_does_not_matter(relevant, random):
    one = collection(relevant)
    shuffled = list(one.questions)
    random.shuffle(shuffled)
    assert ids(split.halves(one, {})) == ids(split.halves(replace(one, questions=shuffled), {}))


def test_the_halves_have_the_same_number_of_groups():
    halves = split.halves(collection([{n} for n in range(24)], by_document=False), {})
    assert (len(halves.dev), len(halves.test)) == (12, 12)


def test_collections_of_one_family_are_split_alike():
    one = collection([{2 * n} for n in range(12)])
    other = replace(one, name="translated", questions=[replace(each, text="otra") for each in one.questions])
    assert ids(split.halves(one, {})) == ids(split.halves(other, {}))


def test_what_is_frozen_holds_whatever_the_hash_says():
    one = collection([{2 * n} for n in range(12)])
    form = split.frozen_form([one])
    swapped = {"some": form["some"] | {"dev": form["some"]["test"], "test": form["some"]["dev"]}}
    dev, test = ids(split.halves(one, form))
    assert ids(split.halves(one, swapped)) == [test, dev]


def test_a_part_of_a_frozen_collection_keeps_its_halves():
    one = collection([{2 * n} for n in range(12)])
    form = split.frozen_form([one])
    fewer = replace(one, questions=one.questions[3:7])
    kept = {each.question_id for each in fewer.questions}
    assert ids(split.halves(fewer, form)) == [half & kept for half in ids(split.halves(one, form))]


@pytest.mark.parametrize("change", [{"text": "another"}, {"relevant": frozenset({"p01"})}, {"question_id": "q99"}])
def test_a_question_that_changed_since_is_refused(change):
    one = collection([{2 * n} for n in range(12)])
    form = split.frozen_form([one])
    changed = replace(one, questions=[replace(one.questions[0], **change), *one.questions[1:]])
    with pytest.raises(split.SplitChanged, match="are not those that were frozen"):
        split.halves(changed, form)


def test_passages_that_changed_since_are_refused():
    one = collection([{2 * n} for n in range(12)])
    form = split.frozen_form([one])
    changed = replace(one, passages=[replace(one.passages[0], text="another"), *one.passages[1:]])
    with pytest.raises(split.SplitChanged, match="the passages are not those that were frozen"):
        split.halves(changed, form)


def test_a_document_in_both_halves_is_refused():
    one = collection([{0}, {1}])
    halves = split.Halves({"a": [one.questions[0]]}, {"b": [one.questions[1]]})
    with pytest.raises(split.SplitChanged, match="d00 answers questions of both halves"):
        split.check_apart(one, halves)


def test_all_passages_are_searched_whatever_half_is_asked():
    one = collection([{2 * n} for n in range(12)])
    dev, test, both = (split.part(one, part, {}) for part in (split.DEV, split.TEST, split.ALL))
    assert dev.passages == test.passages == one.passages
    assert len(dev.questions) + len(test.questions) == len(both.questions) == 12


def test_what_is_frozen_is_written_and_read_back(tmp_path):
    form = split.frozen_form([collection([{2 * n} for n in range(12)]), identifiers.load()])
    split.write_frozen(form, tmp_path / "splits.json")
    assert split.read_frozen(tmp_path / "splits.json") == form


def test_the_frozen_halves_share_nothing():
    frozen = json.loads(split.FROZEN.read_text(encoding="utf-8"))
    assert len(frozen) >= 12
    for kept in frozen.values():
        assert not kept["dev"]["groups"].keys() & kept["test"]["groups"].keys()


def test_what_is_shipped_is_frozen_and_for_tuning_only():
    frozen = split.read_frozen()
    for name, load in catalogue.found(SHIPPED).items():
        one = load()
        tested = split.part(one, split.TEST, frozen).questions
        assert name in frozen
        # The identifiers are generated, so that both halves are everybody's.
        assert (len(tested) == 0) == (name != identifiers.NAME)
