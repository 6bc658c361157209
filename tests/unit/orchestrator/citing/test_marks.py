import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.orchestrator.citing.marks import CitationFilter
from tests.unit.orchestrator.citing.citing_world import passage, streamed

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


HOLIDAYS = passage(
    "Up to five days may be carried over and are used before 31 March of the next year.", "Holidays", "3."
)
PENALTY = passage("A penalty of 2 % of the price is due for each week of delay, and never more than 10 %.")


def test_a_mark_behind_another_number_than_the_sources_is_taken_out_before_it_is_shown():
    shown, found = streamed("Up to seven days may be carried over [1].", HOLIDAYS)
    assert shown == "Up to seven days may be carried over ."
    assert [(one.kind.value, one.mark) for one in found] == [("citation", 1)]
    assert found[0].reason == "seven is not in the source"


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("Up to five weeks may be carried over [1].", "five is not in the source, which says five days day"),
        ("Days carried over are used before 30 April of the next year [1].", "30 April is not in the source"),
        ("Up to five days may be carried over at Acme Logistics [1].", "Acme is not in the source"),
        ("Up to five days may not be carried over [1].", "the source says the contrary"),
    ],
)
def test_a_mark_that_is_clearly_wrong_goes_with_its_reason(answer, reason):
    shown, [found] = streamed(answer, HOLIDAYS)
    assert "[1]" not in shown
    assert found.reason.replace(" day", "", 0).startswith(reason[:30])


def test_a_sentence_that_only_shares_no_word_with_its_source_keeps_its_mark():
    answer = "A warehouse is heated by gas and cleaned by robots every night [1]."
    assert streamed(answer, HOLIDAYS) == (answer, [])


@pytest.mark.parametrize(
    "answer",
    [
        "You can take up to 5 days into the next year [1].",
        "Se pueden pasar hasta cinco días al año siguiente, antes del 31 de marzo [1].",
        "Es dürfen fünf Tage übertragen werden [1].",
        "According to [1], five days may be carried over.",
        "Five days [1].",
        "Holidays, 3.: «Up to five days may be carried over» [1]",
        "The policy does not say whether days can be sold [1].",
    ],
)
def test_a_mark_that_words_support_or_cannot_judge_stays(answer):
    assert streamed(answer, HOLIDAYS) == (answer, [])


def test_what_no_source_says_alone_several_may_say_together():
    answer = "Five days may be carried over, and the penalty is 2 % [1][2]."
    assert streamed(answer, HOLIDAYS, PENALTY) == (answer, [])


def test_each_mark_of_a_sentence_stands_behind_the_words_before_it():
    shown, found = streamed("Five days may be carried over [1] and the penalty is 3 % [2].", HOLIDAYS, PENALTY)
    assert shown == "Five days may be carried over [1] and the penalty is 3 % ."
    assert [one.mark for one in found] == [2]


def test_a_mark_behind_the_full_stop_belongs_to_the_sentence_before():
    shown, found = streamed("The penalty is 9 % a week. [1] Five days may be carried over. [2]", PENALTY, HOLIDAYS)
    assert [one.mark for one in found] == [1]
    assert shown.endswith("carried over. [2]")


def test_figures_of_the_question_may_be_repeated():
    answer = "Of your 12 days, five may be carried over [1]."
    assert streamed(answer, HOLIDAYS)[1]
    assert streamed(answer, HOLIDAYS, question="I have 12 days left. How many can I carry over?") == (answer, [])


def test_right_and_wrong_do_not_depend_on_how_the_text_is_cut():
    answer = "Five days [1] may be carried over [1]. The penalty is 3 % [2][1]. It is 2 % a week [2], [1]."
    assert len({streamed(answer, HOLIDAYS, PENALTY, piece=size)[0] for size in (1, 2, 3, 5, 8, 13, 200)}) == 1


WORDS = st.sampled_from(
    ["five days ", "seven days ", "may ", "not ", "be carried over ", "2 % ", "12 % ", "31 March ", "Acme ", "¿qué? ",
     ". ", ".\n", "- ", "[1]", "[2]", "[3]", "[1, 2]", "[", "]", "[1", " ", "1. ", "«", "»", "SEC-014 ", "10:30 ", "…"]
)  # fmt: skip


def without_marks(text):
    """Those within others, too: `[1[1]]`."""
    while (left := re.sub(r"\[\d\]", "", text)) != text:
        text = left
    return text


@given(st.lists(WORDS, max_size=30).map("".join), st.integers(1, 40))
def test_nothing_is_ever_added_and_only_marks_are_taken_out(text, piece):
    shown, _ = streamed(text, HOLIDAYS, PENALTY, piece=piece)
    rest = iter(re.sub(r"\[(\d), (\d)\]", r"[\1][\2]", text))
    assert all(character in rest for character in shown)  # a subsequence
    assert without_marks(shown) == without_marks(re.sub(r"\[(\d), (\d)\]", r"[\1][\2]", text))


def test_the_time_grows_with_the_length_and_no_faster():
    def work(count):
        calls = []
        marks = CitationFilter(lambda _: True, lambda text, marks: calls.append(len(text)) or {})
        for _ in range(count):
            marks.feed("Five days may be carried over, as the policy says [1] of all. ")
        marks.flush()
        return sum(calls)

    assert work(400) <= 2.1 * work(200)
