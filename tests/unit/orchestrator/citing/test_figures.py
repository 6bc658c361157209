from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.orchestrator.citing.calendar_dates import Day
from services.orchestrator.citing.figures import Kind, figures


def numbers(text):
    return [(str(one.value), one.unit) for one in figures(text) if one.kind is Kind.NUMBER]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0,26 EUR por kilómetro", [("0.26", "EUR")]),
        ("De 5.000 a 50.000 EUR", [("5000", "EUR"), ("50000", "EUR")]),
        ("€8.3 million, 8,3 millones de euros", [("8300000.0", "EUR"), ("8300000.0", "EUR")]),
        ("100k€ y 3M€", [("100000", "EUR"), ("3000000", "EUR")]),
        ("un 20 % y un 5 por ciento", [("20", "%"), ("5", "%")]),
        ("between five and ten years", [("5", "year"), ("10", "year")]),
        ("treinta y cinco días", [("35", "day")]),
        ("24 working days or 15 días naturales", [("24", "day"), ("15", "day")]),
        ("5-10 days", [("5", "day"), ("10", "day")]),
        ("the 10th and the 25th", [("10", ""), ("25", "")]),
        ("in 2001–02", [("2001", ""), ("2002", "")]),
        ("clause 8.3", [("0", "section")]),
    ],
)
def test_numbers_are_read_with_their_units(text, expected):
    assert sorted(numbers(text)) == sorted(expected)


@pytest.mark.parametrize(
    "text",
    [
        "1. First\n2) Second\n(3) Third",
        "## 4. Retention\n- **5.** Fifth",
        "As [1] and [2, 3] say",
        "Step 2: open it",
        "See https://example.com/2024/05 and `SELECT 42`",
    ],
)
def test_list_marks_section_numbers_marks_and_addresses_are_no_numbers(text):
    assert numbers(text) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("7 January 1943", [Day(1943, 1, 7)]),
        ("el 7 de enero de 1943", [Day(1943, 1, 7)]),
        ("2025-03-10 and 10/06/2025", [Day(2025, 3, 10), Day(2025, 6, 10)]),
        ("12/31/2025", [Day(2025, 12, 31)]),
        ("24 y 31 de diciembre", [Day(0, 12, 24), Day(0, 12, 31)]),
        ("March 5, 2024", [Day(2024, 3, 5)]),
        ("febrero de 1974", [Day(1974, 2, 0)]),
        ("each December", [Day(0, 12, 0)]),
        ("it may march on", []),
    ],
)
def test_dates_are_read_in_both_languages(text, expected):
    assert [one.day for one in figures(text) if one.kind is Kind.DATE] == expected


def test_a_date_agrees_with_one_that_says_at_least_as_much():
    assert Day(0, 3, 31).agrees(Day(2025, 3, 31))
    assert Day(2025, 1, 0).agrees(Day(2025, 1, 1))
    assert not Day(2025, 3, 31).agrees(Day(2024, 3, 31))
    assert not Day(2025, 3, 31).agrees(Day(2025, 3, 0))


def test_codes_and_times_are_told_from_numbers():
    found = figures("SEC-014 and CT-2025-0091 from 10:00 to 6 pm")
    assert [(one.kind.value, one.text) for one in found] == [
        ("code", "SEC-014"), ("code", "CT-2025-0091"), ("time", "10:00"), ("time", "6 pm"),
    ]  # fmt: skip
    assert [one.value for one in found[2:]] == [Decimal(600), Decimal(1080)]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("about 9,400 dollars", "about"),
        ("más de 30 kilos", "over"),
        ("casi 155.000 EUR", "under"),
        ("47 contracts", ""),
    ],
)
def test_what_a_text_calls_its_number_is_noted(text, said):
    assert figures(text)[0].rounded == said


@given(st.text(max_size=300))
def test_any_text_is_read_and_figures_lie_within_it(text):
    for one in figures(text):
        assert 0 <= one.start <= one.end <= len(text)
