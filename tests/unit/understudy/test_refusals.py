"""What is not in the passages is not answered: questions without an answer, and with a premise that is false."""

from pathlib import Path

import pytest

from demo import contracts
from demo.world import generate
from services.understudy.answer_kind import answer_kind
from services.understudy.trials import false_premises, refusals

DATA = Path(__file__).parents[2] / "data"
QUESTIONS = DATA / "understudy" / "false_premises.csv"
STRANGERS = DATA / "understudy" / "strangers"


@pytest.fixture(scope="module")
def shelf():
    world = generate()
    texts = {name: contracts.write(world, world.contract(name)) for name in world.conditions}
    for path in sorted(Path(contracts.__file__).parent.glob("texts/policies/*/*.md")):
        texts[path.stem] = path.read_text(encoding="utf-8")
    return false_premises.passages(texts)


@pytest.mark.parametrize(("answered", "floor"), [(False, 0.9), (True, 0.9)])
def test_false_premises_are_refused_and_their_true_twins_answered(shelf, answered, floor):
    wanted = [one for one in false_premises.questions(QUESTIONS, "all") if bool(one.says) == answered]
    right = sum(false_premises.asked(one, shelf).right for one in wanted)
    assert len(wanted) >= 40
    assert right / len(wanted) >= floor


@pytest.mark.slow
@pytest.mark.parametrize(("answered", "floor"), [(False, 0.86), (True, 0.9)])
def test_documents_of_any_subject_answer_what_they_say_and_nothing_else(answered, floor):
    texts = {path.stem: path.read_text(encoding="utf-8") for path in sorted(STRANGERS.glob("*.md"))}
    shelf = false_premises.passages(texts)
    wanted = [
        one for one in false_premises.questions(STRANGERS.with_suffix(".csv"), "dev") if bool(one.says) == answered
    ]
    right = sum(false_premises.asked(one, shelf).right for one in wanted)
    assert len(wanted) >= 70
    assert right / len(wanted) >= floor


@pytest.mark.slow
@pytest.mark.parametrize(("language", "answered"), [("es", 0.65), ("en", 0.65)])
def test_a_question_whose_passage_is_missing_is_refused(language, answered):
    cases = list(refusals.cases(DATA / "evaluation" / "collections" / "xquad", language, language, "dev", 8))[::2]
    found = refusals.measured(cases)
    assert found.count >= 60
    assert found.refused >= 0.93
    assert found.answered >= answered


@pytest.mark.parametrize(
    ("question", "asks", "happened"),
    [
        ("When did we end the contract?", "when", True),
        ("¿Cuándo resolvimos el contrato?", "when", True),
        ("When do warehouses close?", "when", False),
        ("¿Quién aprobó el viaje?", "who", True),
        ("Who signs?", "who", False),
        ("How many days are left?", "many", False),
        ("¿Por qué se suprimió la norma?", "why", True),
        ("What did he say when he left?", "", True),
        ("What was the population?", "", False),
    ],
)
def test_what_a_question_asks_for(question, asks, happened):
    kind = answer_kind(question)
    assert (kind.asks, kind.happened) == (asks, happened)


def test_a_rule_does_not_say_when_something_happened():
    kind = answer_kind("When did we terminate the contract?")
    assert not kind.fits("Either party may terminate the contract with thirty days' notice.")
    assert kind.fits("The contract was terminated on 3 May 2024.")


def test_a_number_or_a_name_that_the_question_gave_is_no_answer():
    assert not answer_kind("How many contracts above 100 were signed?").fits("Contracts above 100 were signed.")
    assert answer_kind("How many contracts above 100 were signed?").fits("Above 100 there were 47.")
    assert not answer_kind("Who audited Acme?").fits("The auditors said that Acme passed.")
    assert answer_kind("Who audited Acme?").fits("It was audited by Jane Roe.")
