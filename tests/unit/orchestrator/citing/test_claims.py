import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.orchestrator.citing.claims import Claim, claim_before, claims, pieces, sentences


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One thing. Another thing.", ["One thing.", "Another thing."]),
        ("It is 2.5 % of it, e.g. half. So be it!", ["It is 2.5 % of it, e.g. half.", "So be it!"]),
        ("Said before [1]. Said after. [2] And more.", ["Said before [1].", "Said after. [2]", "And more."]),
        ("- First\n- Second", ["- First", "- Second"]),
        ("¿Es así? ¡Sí! Claro.", ["¿Es así?", "¡Sí!", "Claro."]),
    ],
)
def test_sentences_end_where_readers_end_them(text, expected):
    assert list(sentences(text)) == expected


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        (
            "There are 47 contracts [1] and a penalty of 2 % [2].",
            [("There are 47 contracts", (1,)), ("and a penalty of 2 %", (2,))],
        ),
        ("There are 47 contracts [1][4].", [("There are 47 contracts", (1, 4))]),
        ("There are 47 contracts [1], [4].", [("There are 47 contracts", (1, 4))]),
        ("According to [1], there are many contracts.", [("According to  , there are many contracts.", (1,))]),
    ],
)
def test_each_mark_stands_behind_what_comes_before_it(sentence, expected):
    assert list(claims(sentence)) == [Claim(text, marks) for text, marks in expected]


def test_a_mark_that_comes_now_stands_behind_the_last_words():
    assert claim_before("One. There are 47 contracts [1] and a penalty of 2 % ") == "and a penalty of 2 %"
    assert claim_before("There are 47 contracts. ") == "There are 47 contracts."
    assert claim_before("According to ") == ""
    assert claim_before("") == ""


@given(st.text(alphabet="aB1 .!?\n[]2,»", max_size=120))
def test_the_pieces_are_the_text(text):
    assert "".join(pieces(text)) == text
