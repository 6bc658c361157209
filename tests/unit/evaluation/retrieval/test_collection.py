import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.evaluation.retrieval.collection import BrokenCollection, Passage, joined


def passages(count):
    return [Passage(f"p{n}", f"text {n}") for n in range(count)]


def questions(count):
    return [(f"q{n}", f"question {n}") for n in range(count)]


def test_questions_without_a_judgement_are_left_out():
    collection = joined("small", passages(3), questions(3), [("q1", "p0"), ("q1", "p2")])
    assert [(one.question_id, one.relevant) for one in collection.questions] == [("q1", frozenset({"p0", "p2"}))]


@pytest.mark.parametrize(
    ("judged", "what"),
    [
        ([(f"q{n}", f"p{n + 2}") for n in range(20)], "passage"),
        ([(f"q{n + 2}", f"p{n}") for n in range(20)], "question"),
    ],
)
def test_judgements_on_other_ids_than_the_texts_are_refused(judged, what):
    with pytest.raises(BrokenCollection, match=f"shifted: only 90% of the judged {what} ids exist"):
        joined("shifted", passages(20), questions(20), judged)


@given(st.integers(1, 60), st.integers(0, 60))
def test_a_join_passes_exactly_when_nineteen_of_twenty_ids_exist(known, lost):
    judged = [("q0", f"p{n}") for n in range(known)] + [("q0", f"x{n}") for n in range(lost)]
    if known / (known + lost) >= 0.95:
        assert len(joined("some", passages(known), questions(1), judged).questions[0].relevant) == known
    else:
        with pytest.raises(BrokenCollection):
            joined("some", passages(known), questions(1), judged)


def test_an_id_that_comes_twice_is_refused():
    with pytest.raises(BrokenCollection, match="1 passage ids come twice"):
        joined("twice", [*passages(2), Passage("p1", "again")], questions(1), [("q0", "p0")])


def test_a_collection_without_judgements_is_refused():
    with pytest.raises(BrokenCollection, match="no judgements"):
        joined("none", passages(2), questions(1), [])
