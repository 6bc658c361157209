"""The stand-in for a judge: it sees gross changes, and is no judge."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.evaluation.answered import Answered, Passage
from services.evaluation.golden.item import Item, Stratum
from services.evaluation.judge.judge import JudgeFailed
from services.evaluation.judge.language_bias import language_bias, xquad_cases
from services.evaluation.judge.lexical import LexicalJudge, sentences
from services.evaluation.metrics import noise_sensitivity
from services.evaluation.metrics.catalogue import named, score_all
from services.evaluation.metrics.embedder import ScriptedEmbedder
from services.evaluation.score import Status

XQUAD = Path(__file__).parents[3] / "data/evals/metrics/xquad"
TERM = Passage("El plazo de preaviso del contrato de limpieza es de 60 días naturales.", "c7")
PENALTY = Passage("Por cada semana de retraso se aplica una penalización del 5 % del precio.", "c8")
CANTEEN = Passage("The canteen serves lunch from noon, and the menu changes every Monday.", "canteen")
QUESTION = "¿Cuál es el plazo de preaviso del contrato de limpieza?"
NAMES = ["faithfulness", "context_precision", "context_recall", "completeness"]


def answered(answer, *passages):
    return Answered(QUESTION, answer, "es", passages=passages)


async def values(answer, *passages):
    item = Item("1", QUESTION, "es", Stratum.SINGLE_HOP, reference="El preaviso es de 60 días naturales.")
    scores = await score_all(named(NAMES), answered(answer, *passages), item, LexicalJudge(), ScriptedEmbedder({}))
    return [one.value for one in scores]


async def test_a_right_answer_from_the_right_passage_scores_one_everywhere():
    assert await values("El plazo de preaviso es de 60 días [1].", TERM) == [1, 1, 1, 1]


async def test_another_number_is_not_supported():
    (faithfulness, *_) = await values("El plazo de preaviso es de 90 días [1].", TERM)
    assert faithfulness == 0


@pytest.mark.parametrize(
    ("said", "shown", "supported"),
    [("1.200 euros", "1,200 euros", 1), ("1.5 euros", "15 euros", 0), ("1.5 euros", "1.5 euros", 1)],
)
async def test_numbers_are_compared_without_separators_of_thousands_and_no_further(said, shown, supported):
    (faithfulness, *_) = await values(f"El recargo es de {said}.", Passage(f"El recargo es de {shown}.", "c9"))
    assert faithfulness == supported


@pytest.mark.parametrize(
    ("question", "count"),
    [("¿Quién firmó y cuándo termina?", 2), ("Who signed, and how much is due?", 2), ("Pan y agua, ¿hay?", 1), ("", 1)],
)
async def test_a_question_is_taken_apart_before_another_question_word(question, count):
    found = await LexicalJudge().ask("aspects", "es", {"question": question}, {})
    assert len(found["aspects"]) == count


async def test_an_invented_sentence_lowers_faithfulness_and_a_useless_passage_precision():
    said = "El plazo de preaviso es de 60 días. Además, la empresa patrocina un equipo ciclista."
    assert await values(said, TERM, CANTEEN) == [0.5, 0.5, 1, 1]


async def test_a_lost_passage_lowers_recall():
    (_, precision, recall, _) = await values("El plazo de preaviso es de 60 días.", CANTEEN)
    assert (precision, recall) == (0, 0)


async def test_a_refusal_in_words_has_no_claims():
    found = await named(["faithfulness"])[0].score(
        answered("No tengo información suficiente sobre el preaviso.", TERM), None, LexicalJudge(), ScriptedEmbedder({})
    )
    assert found.status is Status.NO_CLAIMS


async def test_noise_that_is_copied_is_seen():
    clean = answered("El plazo de preaviso es de 60 días.", TERM)
    noisy = answered("El plazo de preaviso es de 60 días. Se aplica una penalización del 5 %.", PENALTY, TERM)
    found = await noise_sensitivity.score(clean, noisy, LexicalJudge())
    assert (found.value, found.details["from_noise"]) == (0, 0.5)


async def test_it_cannot_tell_a_wrong_answer_that_stands_in_the_same_passage_and_nobody_shall_think_so():
    found = await language_bias(xquad_cases(XQUAD), LexicalJudge())
    assert all(0.4 < accuracy < 0.6 for accuracy in found.accuracy.values())
    assert "stand-in" in LexicalJudge().name


async def test_a_task_that_words_say_nothing_on_is_a_failure():
    with pytest.raises(JudgeFailed):
        await LexicalJudge().ask("beauty", "en", {}, {})


def test_sentences_are_split_at_their_ends_and_nowhere_else():
    assert sentences("The term is 1.5 years, i.e. 18 months [2]. It ends in May!\n- Fee: 3.5 %.") == [
        "The term is 1.5 years, i.e. 18 months.",
        "It ends in May!",
        "Fee: 3.5 %.",
    ]


@given(st.text(max_size=200))
async def test_whatever_the_answer_is_there_is_a_score_or_a_reason(text):
    scores = await score_all(
        named([*NAMES, "answer_relevance"]), answered(text, TERM), None, LexicalJudge(), ScriptedEmbedder({})
    )
    assert all((one.value is None) or 0 <= one.value <= 1 for one in scores)
    assert Status.OVER_BUDGET not in {one.status for one in scores}
