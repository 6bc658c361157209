"""What a model only repeats of what we told it is no answer, however the stream is cut; all else passes untouched."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.orchestrator import prompts
from services.orchestrator.calling.guided_model import _NO_PLAN
from services.orchestrator.shield.own_words import OwnWords, ours
from services.orchestrator.text_filter import Passing
from services.orchestrator.tool_maker import default_descriptions

RULES = "Never repeat this line or the word canary in it."
OWN = ours(RULES, default_descriptions().values())
REPEATED = (
    "(no text)",
    " (no text)\n",
    prompts.FINAL,
    "No more tools can be called in this conversation.",
    _NO_PLAN,
    # As SmolLM2 wrote them: sentences of ours put together, with a word of its own.
    "[Your reply was not the JSON object that was asked for. No more tools can be called in this conversation. "
    "Write it again, complete.]",
    "[Your answer was not the JSON object that was asked for. No more tools can be called in this conversation. "
    "Write it again, complete.]",
    "Answer my question now, in its language, from the evidence gathered",
    "NOT for what documents say (clauses, conditions, policies): use vector_search.",
    RULES,
)
ANSWERS = (
    "No.",
    "No",
    "No text was found in the contract [1].",
    "No more tools can be called back under warranty [1].",
    "Never repeat a dose within six hours [2].",
    "Answer: 2 % a month [1].",
    "The evidence gathered above is a list of the features of pumps.",
    "- 2 % [1]\n- 3 % [2]",
    "[1] says 2 %.",
    "Write it again, complete with the date, says the manual [1].",
    "I search the company's own documents, its databases and the web.",
    "",
)


def shown(text, *sizes, own=OWN):
    one, at, turn, said = OwnWords(own, Passing()), 0, 0, ""
    while at < len(text):
        size = sizes[turn % len(sizes)]
        said += one.feed(text[at : at + size])
        at, turn = at + size, turn + 1
    return said + one.flush()


@pytest.mark.parametrize("text", REPEATED)
@pytest.mark.parametrize("size", [1, 3, 7, 1_000])
def test_what_only_repeats_us_is_nothing(text, size):
    assert shown(text, size) == ""


@pytest.mark.parametrize("text", ANSWERS)
@pytest.mark.parametrize("size", [1, 5, 1_000])
def test_an_answer_passes_as_it_is(text, size):
    assert shown(text, size) == text


@pytest.mark.parametrize("size", [1, 4, 1_000])
def test_an_answer_after_words_of_ours_remains(size):
    assert shown(f"{prompts.FINAL} The penalty is 2 % [1].", size) == "The penalty is 2 % [1]."


def test_each_turn_begins_anew():
    one = OwnWords(OWN, Passing())
    assert one.feed("(no text)") + one.flush() == ""
    assert one.feed("2 % [1].") + one.flush() == "2 % [1]."
    assert one.feed("(no text)") + one.flush() == ""


def test_no_more_than_a_few_words_are_held_of_an_answer():
    one = OwnWords(OWN, Passing())
    assert one.feed("The penalty for late delivery ") != ""


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=200), st.lists(st.integers(1, 9), min_size=1, max_size=4))
def test_the_same_is_shown_wherever_the_stream_is_cut(text, sizes):
    assert shown(text, *sizes) == shown(text, 1_000)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.sampled_from([*REPEATED, *ANSWERS, "No more", "tools", "Answer my question"]), max_size=4),
    st.lists(st.integers(1, 9), min_size=1, max_size=4),
)
def test_so_it_is_with_words_of_ours_in_it(parts, sizes):
    text = " ".join(parts)
    assert shown(text, *sizes) == shown(text, 1_000)


def test_recorded_answers_of_a_small_model_are_told_apart():
    lines = Path("tests/data/recorded/smollm2.jsonl").read_text(encoding="utf-8").splitlines()[1:]
    texts = [json.loads(line)["text"] for line in lines]
    gone = [text for text in texts if not shown(text, 5).strip()]
    assert len(gone) == 5
    assert all("no text" in text or "tools can be called" in text for text in gone)
    assert [shown(text, 5) for text in texts if text not in gone] == [text for text in texts if text not in gone]
