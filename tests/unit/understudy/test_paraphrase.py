"""Questions in other words than the passage's are answered; what no answer may lack is still asked for."""

from pathlib import Path

import pytest

from services.understudy.evidence import Passage
from services.understudy.extract import extract
from services.understudy.strictness import denied, other_rank, turned_round, unnamed
from services.understudy.trials.natural_questions import outcomes
from services.understudy.wanted import wanted

NATURAL = Path(__file__).parents[2] / "data" / "understudy" / "natural.jsonl"


@pytest.mark.parametrize(("answered", "floor"), [(False, 0.8), (True, 0.5)])
def test_everyday_questions_are_answered_and_those_without_an_answer_refused(answered, floor):
    wanted = [one for one in outcomes(NATURAL, "dev") if bool(one.question.says) == answered]
    assert len(wanted) >= 10
    assert sum(one.right for one in wanted) / len(wanted) >= floor


def test_a_thing_of_the_kind_asked_for_answers():
    text = "The fair was held on the ice in 1684. An ox was roasted whole. It lasted five weeks."
    (*_, quote) = extract("Which animal was cooked at the fair?", [Passage(1, "d", "", "", text)])
    assert "ox" in quote.text


@pytest.mark.parametrize(
    ("question", "form"),
    [
        ("Which animal was cooked?", "kind"),
        ("¿Qué longitud tiene el puente?", "length"),
        ("How long does it last?", "span"),
        ("¿Con qué frecuencia se revisa?", "often"),
        ("Who keeps the keys?", "who"),
        ("What did they say?", ""),
    ],
)
def test_what_a_question_wants_shows_by_its_words(question, form):
    assert wanted(question).form == form


def test_a_length_is_told_by_its_unit_and_not_by_any_number():
    asked = wanted("¿Qué longitud tiene el puente?")
    assert asked.told("Mide 210 metros.")
    assert not asked.told("Une las dos orillas desde 1871.")


def test_names_numbers_and_years_of_the_question_must_be_told():
    assert unnamed("Why did Klára Novotná leave?", "Klára Benešová left.") == "Novotná"
    assert unnamed("Who won it in 2013?", "It was won by Boom in 2011.") == "2013"
    assert not unnamed("Who won the Fens in 2011?", "The Fens was won by Boom in 2011.")


def test_a_rank_or_an_order_must_be_told():
    assert other_rank("What is the longest gallery?", "It has three galleries.") == "longest"
    assert not other_rank("What is the longest gallery?", "The longest one is the Snail.")
    assert not other_rank("How long does the guarantee last?", "It is given for two years.")


def test_what_is_said_to_be_missing_is_not_told_of():
    question = "What did Arle leave to his gardener in his will?"
    assert denied(question, ["gardener"], ["Arle left no will.", "His land was sold."]) == "Arle left no will."
    assert not denied(question, ["gardener"], ["Arle left his gardener a house."])


def test_the_same_deed_the_other_way_round_is_no_answer():
    assert turned_round("When did Anner beat Dove?", "Dove beat Anner in 1990.")
    assert not turned_round("When did Dove beat Anner?", "Dove beat Anner in 1990.")
    assert not turned_round("When did Anner beat Dove?", "Dove was beaten by Anner in 1990.")
