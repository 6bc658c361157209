"""Days of publication in the forms that providers write."""

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.web_tool.search.dates import iso_date

TODAY = date(2026, 3, 31)


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("2026-01-02", "2026-01-02"),
        ("2026-01-02T10:20:30", "2026-01-02"),
        ("2026-01-02T10:20:30.123Z", "2026-01-02"),
        ("2026-01-02T10:20:30+01:00", "2026-01-02"),
        ("2026-01-02 10:20:30 UTC", "2026-01-02"),
        ("2026/1/2", "2026-01-02"),
        ("Fri, 02 Jan 2026 10:20:30 GMT", "2026-01-02"),
        ("Jan 2, 2026", "2026-01-02"),
        ("January 2, 2026", "2026-01-02"),
        ("2 Jan 2026", "2026-01-02"),
        ("2nd January 2026", "2026-01-02"),
        ("Sept. 9, 2025", "2025-09-09"),
        ("2 ene 2026", "2026-01-02"),
        ("2 de enero de 2026", "2026-01-02"),
        ("viernes, 2 de enero de 2026", "2026-01-02"),
        ("5 mar. 2026", "2026-03-05"),
        ("14 ago 2025", "2025-08-14"),
        ("3 days ago", "2026-03-28"),
        ("hace 3 días", "2026-03-28"),
        ("hace 3 dias", "2026-03-28"),
        ("1 day ago", "2026-03-30"),
        ("hace un día", "2026-03-30"),
        ("2 weeks ago", "2026-03-17"),
        ("hace 2 semanas", "2026-03-17"),
        ("1 month ago", "2026-02-28"),
        ("hace 1 mes", "2026-02-28"),
        ("hace 2 meses", "2026-01-31"),
        ("a year ago", "2025-03-31"),
        ("hace 2 años", "2024-03-31"),
        ("5 hours ago", "2026-03-31"),
        ("hace 5 horas", "2026-03-31"),
        ("23 minutes ago", "2026-03-31"),
        ("23 min ago", "2026-03-31"),
        ("hace 23 min", "2026-03-31"),
        ("yesterday", "2026-03-30"),
        ("Ayer", "2026-03-30"),
        ("hoy", "2026-03-31"),
    ],
)
def test_a_day_is_read(text, day):
    assert iso_date(text, TODAY) == day


@pytest.mark.parametrize(
    "text",
    [
        "", "12", "2025", "Q3 2024", "03/04/2025", "2026-02-30", "31 feb 2026", "Jan 2, 20267", "soon", "mañana",
        "2031-01-01", "1066-10-14", "0 days ago", "3 days", "hace 3 lunas", "hace mucho", "9999 years ago",
        "Mon, nonsense", "x" * 10_000,
    ],
)  # fmt: skip
def test_what_is_no_certain_day_is_left_out(text):
    assert iso_date(text, TODAY) == ""


@given(st.text(max_size=100))
def test_any_text_is_a_day_or_nothing(text):
    day = iso_date(text, TODAY)
    assert day == "" or date.fromisoformat(day)
