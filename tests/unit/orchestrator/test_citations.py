import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.orchestrator.citations import CitationFilter

EXISTING = {1, 2, 12}


def shown(*pieces):
    marks = CitationFilter(EXISTING.__contains__)
    text = "".join(marks.feed(piece) for piece in pieces) + marks.flush()
    return text, marks.used


@pytest.mark.parametrize(
    ("text", "expected", "used"),
    [
        ("It is so [1].", "It is so [1].", [1]),
        ("Twice [2][1], again [2].", "Twice [2][1], again [2].", [2, 1]),
        ("No such source [7].", "No such source .", []),
        ("As a list [1, 2].", "As a list [1][2].", [1, 2]),
        ("Half of it [1, 9].", "Half of it [1].", [1]),
        ("A year [2025] is no mark.", "A year [2025] is no mark.", []),
        ("See [annex] and a[i].", "See [annex] and a[i].", []),
        ("Open at the end [1", "Open at the end [1", []),
        ("[[1]]", "[[1]]", [1]),
    ],
)
def test_marks_are_checked_and_the_rest_is_left_alone(text, expected, used):
    assert shown(text) == (expected, used)


def test_only_what_may_become_a_mark_is_held_back():
    marks = CitationFilter(EXISTING.__contains__)
    assert marks.feed("Yes [1") == "Yes "
    assert marks.feed("2") == ""
    assert marks.feed("] and [se") == "[12] and [se"


TEXTS = st.lists(
    st.one_of(
        st.text(max_size=12),
        st.sampled_from(["[", "]", "[1]", "[2]", "[9]", "[1, 2]", "[12,9]", "[ 1 ]", ", ", "1", "[[", "[2025]"]),
    ),
    max_size=25,
).map("".join)


@given(TEXTS, st.lists(st.integers(0, 200), max_size=20))
def test_the_result_does_not_depend_on_how_the_text_is_cut(text, cuts):
    places = sorted({min(cut, len(text)) for cut in cuts} | {0, len(text)})
    pieces = [text[start:end] for start, end in pairwise(places)]
    assert shown(*pieces) == shown(text) == shown(*text)


@given(TEXTS)
def test_text_minus_invalid_marks_is_unchanged(text):
    result, used = shown(text)
    single = re.compile(r"\[ ?(\d{1,3}) ?\]")
    if re.search(r"\d ?, ?\d", text):  # lists of marks are rewritten; see the table above
        return
    expected = single.sub(lambda match: f"[{int(match[1])}]" if int(match[1]) in EXISTING else "", text)
    assert result == expected
    assert set(used) <= EXISTING


@given(st.text(alphabet="[1, ", max_size=400))
def test_little_is_ever_held_back(text):
    marks = CitationFilter(EXISTING.__contains__)
    length = len(marks.feed(text))
    assert len(text) - length < 50 or "]" in text
