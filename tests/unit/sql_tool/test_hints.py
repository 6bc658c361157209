"""What a wrong name was meant to be, and where it stands."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.sql_tool import hints


@pytest.mark.parametrize(
    ("name", "candidates", "expected"),
    [
        ("amout", ["id", "amount", "mount_id"], "amount"),
        ("contract_amount", ["id", "amount"], "amount"),
        ("providerId", ["provider_id", "provider"], "provider_id"),
        ("Región", ["name", "region"], "region"),
        ("REGION_CODE", ["name", "region_code", "region"], "region_code"),
        ("zzz", ["id", "amount"], None),
        ("", ["id"], None),
        ("x", [], None),
    ],
)
def test_the_nearest_name_is_found(name, candidates, expected):
    assert hints.nearest(name, candidates) == expected


@given(st.text(max_size=20), st.lists(st.text(max_size=20), max_size=8))
def test_nothing_but_a_candidate_is_ever_named(name, candidates):
    assert hints.nearest(name, candidates) in (None, *candidates)


def test_a_synonym_of_a_description_is_understood_when_only_one_has_it():
    said = {"contracts.amount": "Total value (importe, valor)", "payments.amount": "Paid (pagado)", "c.x": "valor"}
    assert hints.meant("Importe", said) == "contracts.amount"
    assert hints.meant("valor", said) is None
    assert hints.meant("port", said) is None
    assert hints.meant("", said) is None


@pytest.mark.parametrize(
    ("sql", "name", "position"),
    [
        ("SELECT amout FROM c", "amout", 8),
        ("SELECT 'amout', c.amout FROM c", "c.amout", 17),
        ("SELECT 'amout', c.amout FROM c", "amout", 17),
        ("SELECT -- amout\n amout", "amout", 18),
        ("SELECT /* amout */ $$amout$$, AMOUT", "amout", 31),
        ('SELECT "Größe" FROM t', "Größe", 8),
        ("SELECT 1", "amout", None),
    ],
)
def test_the_position_of_a_name_is_counted_from_one_outside_of_literals(sql, name, position):
    assert hints.position_of(sql, name) == position


def test_the_name_at_a_position_is_as_it_is_written():
    assert hints.name_at('SELECT c . "Na me", x', 8) == 'c . "Na me"'
    assert hints.name_at("SELECT 1", 8) == ""
    assert hints.name_at("SELECT", 50) == ""
