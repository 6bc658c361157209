"""Numbers and thresholds in both languages."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.runtime.expressions.quantities import comparisons, parse_number, quantities


@pytest.mark.parametrize(
    ("text", "value", "unit"),
    [
        ("100k€", "100000", "EUR"),
        ("100 k€", "100000", "EUR"),
        ("€100k", "100000", "EUR"),
        ("100.000 €", "100000", "EUR"),
        ("100,000", "100000", ""),
        ("1 000 000 €", "1000000", "EUR"),
        ("1,5 M€", "1500000", "EUR"),
        ("1.5 million euros", "1500000", "EUR"),
        ("2,5 millones de euros", "2500000", "EUR"),
        ("cien mil euros", "100000", "EUR"),
        ("doscientos cincuenta mil", "250000", ""),
        ("two hundred thousand dollars", "200000", "USD"),
        ("$5m", "5000000", "USD"),
        ("1.234.567,89 EUR", "1234567.89", "EUR"),
        ("1,234,567.89", "1234567.89", ""),
        ("0.125", "0.125", ""),
        ("12,5 %", "12.5", "%"),
        ("veinte por ciento", "20", "%"),
    ],
)
def test_a_number_is_read_with_its_unit(text, value, unit):
    (found,) = quantities(f"contratos de {text} firmados")
    assert (found.value, found.unit) == (Decimal(value), unit)


@pytest.mark.parametrize("text", ["CT-2025-0001", "un contrato", "one contract", "SEC-014", "v2.x", "no number"])
def test_codes_and_articles_are_no_numbers(text):
    assert quantities(text) == []


@pytest.mark.parametrize(
    ("text", "operator", "value"),
    [
        ("contracts above 100k€", ">", 100_000),
        ("contratos de más de 100k€", ">", 100_000),
        ("contratos superiores a 50.000 €", ">", 50_000),
        ("contratos que superan los 50.000 €", ">", 50_000),
        ("contracts of at least 1 million euros", ">=", 1_000_000),
        ("contratos de al menos cien mil euros", ">=", 100_000),
        ("250 k€ o más", ">=", 250_000),
        ("less than 3,000 units", "<", 3_000),
        ("menos de 3.000 unidades", "<", 3_000),
        ("no more than 3 lots", "<=", 3),
        ("como máximo 10 lotes", "<=", 10),
        ("exactly 7 lots", "=", 7),
    ],
)
def test_a_threshold_is_read_with_its_direction(text, operator, value):
    (found,) = comparisons(text)
    assert (found.operator, found.quantity.value) == (operator, value)


def test_a_range_takes_the_size_of_its_second_number():
    (found,) = comparisons("entre 1 y 2 millones de euros")
    assert found.operator == "between"
    assert (found.quantity.value, found.upper.value, found.quantity.unit) == (1_000_000, 2_000_000, "EUR")


def test_a_year_is_no_threshold():
    assert comparisons("more than any contract signed in 2025") == []


@given(st.integers(0, 10**15))
def test_grouped_numbers_of_both_languages_are_read_back(number):
    english = f"{number:,}"
    assert parse_number(english) == number
    assert parse_number(english.replace(",", ".")) == number


@given(st.decimals(min_value=1000, max_value=10**12, places=2, allow_nan=False))
def test_grouped_decimals_of_both_languages_are_read_back(number):
    english = f"{number:,.2f}"
    spanish = english.translate(str.maketrans(",.", ".,"))
    assert parse_number(english) == parse_number(spanish) == number


@given(st.text(alphabet=st.sampled_from("0123456789.,€$k Mmil-/% yo"), max_size=60))
def test_reading_never_fails_and_stays_in_the_text(text):
    for one in quantities(text):
        assert 0 <= one.start < one.end <= len(text)
    for one in comparisons(text):
        assert 0 <= one.start < one.end <= len(text)
