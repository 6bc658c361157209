"""Arguments of reviewed queries, read from questions."""

from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.orchestrator.routing.slots import NotFilled, Slot, fill
from services.orchestrator.routing.wording import stems_of

TODAY = date(2026, 7, 15)
FROM = Slot("signed_from", "date", ">=")
BEFORE = Slot("signed_before", "date", "<")
THROUGH = Slot("through", "date", "<=")
ABOVE = Slot("above_eur", "numeric", ">", unit="EUR", bounds=(0, None), required=False)
REGIONS = Slot(
    "regions",
    "text[]",
    values={"EU": ["UE", "European Union", "Unión Europea"], "UK": ["Reino Unido"], "NA": ["North America"]},
    required=False,
)
STATUS = Slot("status", "text", values={"paid": ["made", "pagado"], "late": ["overdue", "atrasado"]})
SLOTS = (FROM, BEFORE, REGIONS, ABOVE)


# What the tables are about; no value is meant by them.
NOUNS = frozenset({"pagos", "payments", "contratos", "contracts"})


def arguments(question, *slots):
    return fill(question, slots or SLOTS, TODAY, NOUNS).arguments


def refused(question, *slots):
    with pytest.raises(NotFilled) as caught:
        fill(question, slots or SLOTS, TODAY, NOUNS)
    return str(caught.value)


@pytest.mark.parametrize(
    ("question", "amount"),
    [
        ("contratos de más de 100k€ en 2025", 100_000),
        ("contracts above €1.5m in 2025", 1_500_000),
        ("contratos de más de 1.234,56 € en 2025", 1234.56),
        ("contracts of more than 1,234.56 euros in 2025", 1234.56),
        ("contratos superiores a 250 mil euros en 2025", 250_000),
        ("contratos de más de 2 millones en 2025", 2_000_000),
        ("contracts over two hundred thousand euros in 2025", 200_000),
    ],
)
def test_amounts_are_read_in_both_conventions(question, amount):
    assert arguments(question)["above_eur"] == amount


def test_a_period_fills_the_two_ends_as_the_statement_compares_them():
    found = arguments("signed in Q3 2025", Slot("after", "date", ">"), THROUGH)
    assert found == {"after": "2025-06-30", "through": "2025-09-30"}


def test_an_open_period_ends_today():
    assert arguments("desde marzo") == {"signed_from": "2026-03-01", "signed_before": "2026-07-16"}


def test_a_period_without_a_beginning_is_not_guessed():
    assert "open" in refused("signed before 2024")


def test_a_beginning_with_a_default_may_stay_out():
    found = arguments("signed before 2024", Slot("signed_from", "date", ">=", required=False), BEFORE)
    assert found == {"signed_before": "2024-01-01"}


@pytest.mark.parametrize(
    "question",
    [
        "contracts of at least 100k€ in 2025",  # the statement says >
        "contracts below 100k€ in 2025",
        "contracts of 100k€ in 2025",
        "contracts above 100k$ in 2025",
        "contracts above 10 % in 2025",
        "contracts above 10k€ and above 20k€ in 2025",
        "signed in 2023 and in 2025",
        "signed above 100k€",
        "x" * 2001 + " 2025",
    ],
)
def test_what_the_parameters_cannot_say_is_not_filled(question):
    assert refused(question)


def test_values_are_found_by_their_names_in_the_order_of_the_file():
    assert arguments("con North America y la Unión Europea en 2025")["regions"] == ["EU", "NA"]
    assert arguments("con proveedores de la ue en 2025")["regions"] == ["EU"]


def test_a_short_code_is_no_word():
    assert "country" not in arguments(
        "tell us in 2025", FROM, BEFORE, Slot("country", "text", values={"US": [], "IN": []}, required=False)
    )
    assert arguments("from the US in 2025", FROM, BEFORE, Slot("country", "text", values={"US": []}))["country"] == "US"


def test_inflected_names_of_values_are_understood():
    assert arguments("pagos atrasados", STATUS) == {"status": "late"}


def test_what_is_asked_about_is_no_value():
    assert "status" in refused("¿cuántos pagos hay?", STATUS)  # `pagos` is not `pagado`, though their stem is one


def test_two_values_for_one_are_not_guessed():
    assert "several" in refused("overdue payments that were made", STATUS)


def test_a_code_fills_the_only_text():
    contract = Slot("contract_id", "text")
    assert arguments("pagos del contrato CT-2025-0091", contract) == {"contract_id": "CT-2025-0091"}
    assert refused("pagos de CT-2025-0091 y CT-2025-0092", contract)
    both = Slot("contract_ids", "text[]")
    assert arguments("pagos de CT-2025-0091 y CT-2025-0092", both) == {"contract_ids": ["CT-2025-0091", "CT-2025-0092"]}


def test_a_number_without_comparison_fills_the_limit():
    assert arguments("the 5 largest contracts", Slot("top", "integer", "limit")) == {"top": 5}
    assert refused("the 2.5 largest contracts", Slot("top", "integer", "limit"))


def test_one_day_fills_a_day():
    assert arguments("signed yesterday", Slot("on", "date")) == {"on": "2026-07-14"}
    assert refused("signed last week", Slot("on", "date"))


def test_bounds_of_the_file_hold():
    assert "bounds" in refused("above 5 € in 2025", FROM, BEFORE, Slot("a", "numeric", ">", bounds=(10, 20)))
    assert "bounds" in refused("in 2019", Slot("signed_from", "date", ">=", bounds=("2020-01-01", None)), BEFORE)


def test_a_parameter_that_cannot_be_read_from_a_question_is_not_filled():
    assert "flag" in refused("in 2025", FROM, BEFORE, Slot("flag", "boolean"))


NUMBERS = st.integers(1, 9_999_999)
WORDS = st.sampled_from(
    "contratos de más de above between entre y and 2025 1.234,56 100k€ $ % desde marzo hasta yesterday UE Reino Unido "
    "los últimos 30 días CT-2025-0091 mil millones Q3 last quarter at least 5".split()
)
KINDS = st.sampled_from(["date", "timestamp", "integer", "numeric", "text", "text[]", "boolean", "integer[]"])
OPERATORS = st.sampled_from(["=", "<", "<=", ">", ">=", "limit", "unknown"])


@st.composite
def any_slots(draw):
    made = []
    for number in range(draw(st.integers(0, 4))):
        values = draw(st.sampled_from([{}, {}, {"EU": ["UE"], "UK": ["Reino Unido"]}]))
        kind = draw(st.sampled_from(["text", "text[]"])) if values else draw(KINDS)
        low, high = (
            draw(st.sampled_from([(None, None), (0, 1000), (10, None)]))
            if kind in ("integer", "numeric")
            else (None, None)
        )
        made.append(
            Slot(
                f"p{number}",
                kind,
                draw(OPERATORS),
                values,
                draw(st.sampled_from(["", "EUR", "%"])),
                (low, high),
                draw(st.booleans()),
            )
        )
    return made


@given(
    st.one_of(st.lists(WORDS, max_size=14).map(" ".join), st.text(max_size=80)),
    any_slots(),
    st.dates(date(1980, 1, 1), date(2100, 1, 1)),
)
def test_whatever_is_asked_the_arguments_lie_within_the_schema(question, slots, today):
    try:
        found = fill(question, slots, today)
    except NotFilled:
        return
    by_name = {one.name: one for one in slots}
    assert set(found.arguments) <= set(by_name)
    assert all(one.name in found.arguments for one in slots if one.required)
    assert all(0 <= start < end <= len(question) for start, end in found.spans)
    for name, value in found.arguments.items():
        slot = by_name[name]
        low, high = slot.bounds
        for one in value if isinstance(value, list) else [value]:
            if slot.values:
                assert one in slot.values
            elif slot.kind == "number":
                assert isinstance(one, int | float)
                assert low is None or one >= low
                assert high is None or one <= high
                assert slot.type != "integer" or isinstance(one, int)
            elif slot.kind == "date":
                date.fromisoformat(one[:10])
            else:
                assert one in question


@given(st.dates(date(1950, 1, 1), date(2090, 12, 1)), st.integers(0, 400))
def test_any_two_days_are_the_period_that_was_written(first, days):
    last = first + timedelta(days)
    found = arguments(f"signed from {first} to {last}")
    assert found == {"signed_from": str(first), "signed_before": str(last + timedelta(1))}


@given(NUMBERS)
def test_any_amount_is_read_back_in_both_conventions(amount):
    for written in (f"{amount:,}", f"{amount:,}".replace(",", "."), f"{amount}"):
        assert arguments(f"contracts above {written} € in 2025")["above_eur"] == amount


SURGEON = Slot("surgeon", "text", about=stems_of("surgeon cirujano cirujana"))
CONTRACT = Slot("contract", "text", about=stems_of("contract contrato"))


@pytest.mark.parametrize(
    ("question", "name"),
    [
        ('operations of the surgeon "Ana Ruiz"', "Ana Ruiz"),
        ("operaciones del cirujano «Pedro Gil»", "Pedro Gil"),
        ("operations of surgeon “Dr 4 May 2025 EU”", "Dr 4 May 2025 EU"),
    ],
)
def test_what_is_quoted_after_its_name_is_taken_as_it_is_written(question, name):
    assert arguments(question, SURGEON) == {"surgeon": name}


def test_a_quotation_belongs_to_the_parameter_that_is_named_before_it():
    assert arguments('contract "A" of the surgeon "B"', SURGEON, CONTRACT) == {"contract": "A", "surgeon": "B"}


def test_a_quotation_after_something_else_fills_nothing():
    assert "does not say" in refused('operations called "Ana Ruiz"', SURGEON)
    assert "several" in refused('surgeon "A" and surgeon "B"', SURGEON)


def test_a_free_name_that_is_not_quoted_is_not_guessed():
    assert "does not say" in refused("operations of the surgeon Ana Ruiz", SURGEON)
