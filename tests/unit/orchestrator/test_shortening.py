import re

from hypothesis import given
from hypothesis import strategies as st

from services.orchestrator.shortening import brief, folded, says_the_same


def test_whole_sentences_are_kept():
    assert brief("It is 2 %. It is due at once. And more follows here.", 32) == "It is 2 %. It is due at once. …"
    assert brief("Short.", 32) == "Short."


def test_a_number_is_never_cut():
    assert brief("The amount is 1 250 000 euros in all", 20) == "The amount is…"
    assert brief("The amount is 1,250,000 euros in all", 20) == "The amount is…"
    assert brief("1" * 50, 20) == "…"


@given(st.text(alphabet="ab 12.,\n", max_size=80), st.integers(0, 60))
def test_what_is_left_is_a_beginning_that_ends_where_a_word_ends(text, most):
    short = brief(text, most)
    if len(text) <= most:
        assert short == text
        return
    kept = short.removesuffix("…").rstrip()
    assert text.startswith(kept)
    assert len(short) <= most + 2
    rest = text[len(kept) :]
    assert not kept or re.match(r"\s", rest)


def test_case_accents_signs_and_articles_make_no_difference_and_all_else_does():
    assert folded("La Penalización: «2 %».") == folded("penalizacion 2%")
    assert len({folded(one) for one in ("5", "-5", "<5", "5 %", "$5", "€5")}) == 6
    assert folded("It is 2.5 %") != folded("It is 25 %")
    assert folded("It is not due") != folded("It is due")


def test_a_few_words_are_in_many_texts_without_saying_the_same():
    assert says_the_same("a b", "a b")
    assert not says_the_same("a b", "a b c")
    assert says_the_same("1 2 3 4 5 6 7 8", "0 1 2 3 4 5 6 7 8 9")
    assert not says_the_same("1 2 3 4 5 6 7 8", "0 1 2 3 4 5 6 7 88 9")
