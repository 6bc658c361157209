"""Politeness, parts and stems."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.orchestrator.routing.wording import cleaned, parts, punctuated, stems


@pytest.mark.parametrize(
    ("question", "left"),
    [
        ("Hola, ¿cuántos pagos hay?", "¿cuántos pagos hay?"),
        ("Please, how many payments are late?", "how many payments are late?"),
        ("Could you please tell me what the policy says? Thanks!", "what the policy says?"),
        ("Oye, ¿me puedes decir cuántos contratos firmamos?", "¿cuántos contratos firmamos?"),
        ("¿Qué dice la política, por favor?", "¿Qué dice la política?"),
        ("Quisiera saber qué dice la política", "qué dice la política"),
        ("Gracias", "Gracias"),
        ("Hi there!", "Hi there!"),
        ("Hideouts of the owl", "Hideouts of the owl"),
        ("Canteen opening hours", "Canteen opening hours"),
    ],
)
def test_politeness_goes_and_the_question_stays(question, left):
    assert cleaned(question) == left


@pytest.mark.parametrize(
    ("question", "count"),
    [
        ("How many contracts did we sign in 2025, and which conditions recur?", 2),
        ("¿Cuántos pagos hay atrasados y qué dice el procedimiento?", 2),
        ("Thanks! How many payments are late?", 2),
        ("How many contracts did we sign with Spain and Portugal?", 1),
        ("¿Qué dice la política de compras y ventas?", 1),
        ("What is art. 5 about?", 1),
        ("?", 1),
    ],
)
def test_a_question_is_cut_where_it_asks_again(question, count):
    assert len(parts(question)) == count


@given(st.text(max_size=200))
def test_cleaning_and_cutting_never_fail_nor_add_words(text):
    assert all(part in text for part in parts(text))
    assert cleaned(text).removeprefix("¿") in " ".join(text.split())
    assert 1 <= len(parts(text)) <= 4


def test_forms_of_a_word_share_a_stem():
    assert stems("firmamos") & stems("firmado")
    assert stems("signed") & stems("signing")
    assert not stems("pago") & stems("contrato")


@pytest.mark.parametrize(
    ("typed", "written"),
    [
        ("cuántos pagos hay", "¿Cuántos pagos hay?"),
        ("qué dice la política?", "¿Qué dice la política?"),
        ("how many payments are late", "How many payments are late?"),
        ("¿Qué dice?", "¿Qué dice?"),
        ("payments by region", "Payments by region"),
        ("", ""),
    ],
)
def test_questions_are_read_as_the_examples_are_written(typed, written):
    assert punctuated(typed) == written


@given(st.text(max_size=60))
def test_punctuation_is_added_once(text):
    assert punctuated(punctuated(text)) == punctuated(text)
