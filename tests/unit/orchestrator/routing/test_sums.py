"""Sums that a question spells out."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.orchestrator.routing.sums import is_sum


@pytest.mark.parametrize(
    "question",
    [
        "What is 17 times 23?",
        "¿Cuánto es el 15 % de 300?",
        "17 + 5 * 2",
        "45*12 =",
        "Calcula el 7 % de 1.300",
        "How much is 1,250 minus 399?",
        "¿Cuánto es 3 al cubo?",
        "(3 + 4) / 7",
        "And 8 times 9?",
        "¿Cuánto es 10 por ciento de 50?",
    ],
)
def test_what_the_calculator_takes_is_a_sum(question):
    assert is_sum(question)


@pytest.mark.parametrize(
    "question",
    [
        "What is 15 % of last year's revenue?",
        "¿Cuánto es el 15 % de los ingresos?",
        "How much is contract 4711?",
        "What is the amount of CT-2025-0091?",
        "2024",
        "2025-01-31",
        "10-12-2024",
        "3/4/2025",
        "+34 600 123 456 es el teléfono de quién",
        "1/0",
        "",
        "-",
    ],
)
def test_what_needs_a_source_is_no_sum(question):
    assert not is_sum(question)


@given(
    st.lists(st.integers(0, 10**6), min_size=2, max_size=6),
    st.sampled_from(["plus", "minus", "times", "más", "menos", "por", "+", "-", "*"]),
    st.sampled_from(["What is", "How much is", "¿Cuánto es", "Calcula", ""]),
)
def test_every_chain_of_numbers_and_signs_is_a_sum(numbers, sign, opening):
    assert is_sum(f"{opening} {f' {sign} '.join(map(str, numbers))}")


@given(st.text(max_size=300))
def test_no_text_is_an_error(text):
    is_sum(text)
