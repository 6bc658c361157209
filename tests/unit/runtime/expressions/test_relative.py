"""Periods told from today, and ranges of months and days, in both languages."""

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.runtime.expressions.dates import date_ranges

TODAY = date(2026, 7, 15)  # a Wednesday


@pytest.mark.parametrize(
    ("text", "first", "until"),
    [
        ("yesterday", date(2026, 7, 14), date(2026, 7, 15)),
        ("ayer", date(2026, 7, 14), date(2026, 7, 15)),
        ("anteayer", date(2026, 7, 13), date(2026, 7, 14)),
        ("hoy", date(2026, 7, 15), date(2026, 7, 16)),
        ("last week", date(2026, 7, 6), date(2026, 7, 13)),
        ("la semana pasada", date(2026, 7, 6), date(2026, 7, 13)),
        ("esta semana", date(2026, 7, 13), date(2026, 7, 20)),
        ("last month", date(2026, 6, 1), date(2026, 7, 1)),
        ("el mes que viene", date(2026, 8, 1), date(2026, 9, 1)),
        ("last quarter", date(2026, 4, 1), date(2026, 7, 1)),
        ("el trimestre pasado", date(2026, 4, 1), date(2026, 7, 1)),
        ("el último trimestre", date(2026, 4, 1), date(2026, 7, 1)),
        ("the last quarter of 2025", date(2025, 10, 1), date(2026, 1, 1)),
        ("último trimestre de 2025", date(2025, 10, 1), date(2026, 1, 1)),
        ("el semestre anterior", date(2026, 1, 1), date(2026, 7, 1)),
        ("next year", date(2027, 1, 1), date(2028, 1, 1)),
        ("the last 30 days", date(2026, 6, 15), date(2026, 7, 16)),
        ("los últimos tres meses", date(2026, 4, 15), date(2026, 7, 16)),
        ("en lo que va de año", date(2026, 1, 1), date(2026, 7, 16)),
        ("year to date", date(2026, 1, 1), date(2026, 7, 16)),
        ("desde marzo hasta junio", date(2026, 3, 1), date(2026, 7, 1)),
        ("from March to June 2025", date(2025, 3, 1), date(2025, 7, 1)),
        ("between March and June 2025", date(2025, 3, 1), date(2025, 7, 1)),
        ("de noviembre a febrero de 2025", date(2024, 11, 1), date(2025, 3, 1)),
        ("del 1 al 15 de marzo de 2025", date(2025, 3, 1), date(2025, 3, 16)),
        ("entre el 1 de marzo y el 15 de abril de 2025", date(2025, 3, 1), date(2025, 4, 16)),
        ("from March 1 to April 15, 2025", date(2025, 3, 1), date(2025, 4, 16)),
        ("2023-2024", date(2023, 1, 1), date(2025, 1, 1)),
        ("el 3 de mayo", date(2026, 5, 3), date(2026, 5, 4)),
        ("August 3rd", date(2025, 8, 3), date(2025, 8, 4)),
        ("since March", date(2026, 3, 1), None),
        ("desde ayer", date(2026, 7, 14), None),
        ("before June", None, date(2026, 6, 1)),
        ("desde enero de 2025 hasta hoy", date(2025, 1, 1), date(2026, 7, 16)),
    ],
)
def test_a_period_told_from_today_is_a_half_open_range(text, first, until):
    (found,) = date_ranges(f"contratos firmados {text} con ellos", TODAY)
    assert (found.first, found.until) == (first, until)


@pytest.mark.parametrize("text", ["march on", "you may", "31/02/2025", "0 days", "the last 0 days"])
def test_what_is_no_period_is_none(text):
    assert date_ranges(text, TODAY) == []


@given(st.dates(date(1950, 1, 1), date(2090, 12, 31)), st.sampled_from(["last", "this", "next"]))
def test_neighbouring_periods_meet_on_any_day(today, step):
    for unit in ("week", "month", "quarter", "year"):
        (found,) = date_ranges(f"{step} {unit}", today)
        (after,) = date_ranges(f"next {unit}", found.first) if step != "next" else [found]
        assert found.first < found.until
        if step != "next":
            assert after.first == found.until


@given(
    st.lists(
        st.sampled_from("last this los últimos 3 30 days meses year to date 2025 marzo hasta y de - ".split()),
        max_size=12,
    )
)
def test_reading_never_fails(words):
    text = " ".join(words)
    for one in date_ranges(text, TODAY):
        assert 0 <= one.start < one.end <= len(text)
        assert one.first is None or one.until is None or one.first < one.until
