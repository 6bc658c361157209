"""Folding and stems, which everything else is matched by."""

import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from services.understudy.words import fold, stems


@given(st.text())
def test_folding_keeps_every_character_in_its_place(text):
    folded = fold(text)
    assert len(folded) == len(text)
    for char, one in zip(text, folded, strict=True):
        fraction = unicodedata.decomposition(char).startswith("<fraction>")
        assert one == (char if fraction else unicodedata.normalize("NFKD", char)[0].lower()[:1] or char)


def test_the_stems_of_a_text_may_be_added_to():
    first = stems("Two contracts")
    first.append("x")
    assert stems("Two contracts") == ["two", "contract"]
