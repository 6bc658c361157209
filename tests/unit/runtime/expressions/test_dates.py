"""Dates in both languages."""

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.runtime.expressions.dates import date_ranges

TODAY = date(2026, 7, 29)


@pytest.mark.parametrize(
    ("text", "first", "until"),
    [
        ("signed in 2025", date(2025, 1, 1), date(2026, 1, 1)),
        ("entre 2022 y 2024", date(2022, 1, 1), date(2025, 1, 1)),
        ("from 2023 to 2024", date(2023, 1, 1), date(2025, 1, 1)),
        ("Q3 2024", date(2024, 7, 1), date(2024, 10, 1)),
        ("tercer trimestre de 2025", date(2025, 7, 1), date(2025, 10, 1)),
        ("the first quarter of 2025", date(2025, 1, 1), date(2025, 4, 1)),
        ("contracts of Q3", date(2026, 7, 1), date(2026, 10, 1)),
        ("orders in October", date(2025, 10, 1), date(2025, 11, 1)),
        ("pedidos de marzo", date(2026, 3, 1), date(2026, 4, 1)),
        ("marzo de 2025", date(2025, 3, 1), date(2025, 4, 1)),
        ("primer semestre de 2025", date(2025, 1, 1), date(2025, 7, 1)),
        ("desde 2023", date(2023, 1, 1), None),
        ("since March 2024", date(2024, 3, 1), None),
        ("before 2024-05-01", None, date(2024, 5, 1)),
        ("después de 2023", date(2024, 1, 1), None),
        ("hasta 2024", None, date(2025, 1, 1)),
        ("el 15 de marzo de 2025", date(2025, 3, 15), date(2025, 3, 16)),
        ("March 15, 2025", date(2025, 3, 15), date(2025, 3, 16)),
        ("15/03/2025", date(2025, 3, 15), date(2025, 3, 16)),
        ("last year", date(2025, 1, 1), date(2026, 1, 1)),
        ("este año", date(2026, 1, 1), date(2027, 1, 1)),
        ("el mes pasado", date(2026, 6, 1), date(2026, 7, 1)),
    ],
)
def test_a_period_is_read_as_a_half_open_range(text, first, until):
    (found,) = date_ranges(text, TODAY)
    assert (found.first, found.until) == (first, until)


@pytest.mark.parametrize("text", ["CT-2025-0001", "we may come", "more than 2000 contracts", "31/02/2024", "2.025 €"])
def test_what_only_looks_like_a_date_is_none(text):
    assert date_ranges(text, TODAY) == []


@given(st.dates(date(1950, 1, 1), date(2090, 12, 30)))
def test_every_iso_day_is_read_back(day):
    (found,) = date_ranges(f"on {day.isoformat()} it was", TODAY)
    assert found.first == day


@given(st.text(alphabet=st.sampled_from("0123456789-/ qtdeQ3 marzoMayin"), max_size=60))
def test_reading_never_fails_and_stays_in_the_text(text):
    for one in date_ranges(text, TODAY):
        assert 0 <= one.start < one.end <= len(text)
        assert one.first or one.until


MONTHS = {
    "es": "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre".split(),
    "en": "January February March April May June July August September October November December".split(),
}
FORMS = {
    "es": (
        "{d} de {m} de {y}",
        "{d} de {m} del {y}",
        "el {d} de {m}, {y}",
        "{d}/{n}/{y}",
        "{d:02}.{n:02}.{y}",
        "{d}-{n}-{y}",
    ),
    "en": ("{m} {d}, {y}", "{d} {m} {y}", "the {d} of {m} {y}", "{s} {d}, {y}", "{d} {s} {y}", "{y}-{n:02}-{d:02}"),
}


@pytest.mark.parametrize(("spoken", "form"), [(spoken, form) for spoken, forms in FORMS.items() for form in forms])
@given(day=st.dates(date(1950, 1, 1), date(2090, 12, 30)))
def test_every_day_is_read_back_as_people_write_it(spoken, form, day):
    month = MONTHS[spoken][day.month - 1]
    written = form.format(d=day.day, m=month, n=day.month, s=month[:3], y=day.year)
    (found,) = date_ranges(f"({written})", TODAY)
    assert (found.first, found.until) == (day, date.fromordinal(day.toordinal() + 1))


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("el primero de mayo de 2025", date(2025, 5, 1)),
        ("el uno de enero de 2026", date(2026, 1, 1)),
        ("1º de mayo de 2025", date(2025, 5, 1)),
        ("the first of May 2025", date(2025, 5, 1)),
        ("the 3rd of May, 2025", date(2025, 5, 3)),
        ("lunes 5 de mayo de 2025", date(2025, 5, 5)),
        ("Monday, May 5th, 2025", date(2025, 5, 5)),
        ("03/25/2025", date(2025, 3, 25)),
        ("treinta y uno de enero de 2025", date(2025, 1, 31)),
        ("veinticinco de diciembre de 2024", date(2024, 12, 25)),
    ],
)
def test_a_day_is_read_in_words_and_by_both_orders(text, day):
    (found,) = date_ranges(text, TODAY)
    assert (found.first, found.until) == (day, date.fromordinal(day.toordinal() + 1))
