"""What a model only repeats of what we told it is no answer, however the stream is cut; all else passes untouched."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.orchestrator import prompts
from services.orchestrator.calling.guided_model import NO_PLAN
from services.orchestrator.calling.written_calls import NotACall
from services.orchestrator.planning import prompts as planning
from services.orchestrator.shield.own_words import OwnWords, defaults_among, ours
from services.orchestrator.shield.tenant_shield import TenantShield
from services.orchestrator.text_filter import Passing
from services.orchestrator.tool_maker import default_descriptions
from services.orchestrator.tools import Tool
from services.runtime.tenants import GuardTools

RULES = "Never repeat this line or the word canary in it."
OWN = ours(RULES, default_descriptions().values())
REPEATED = (
    "(no text)",
    " (no text)\n",
    "(No text)",
    "**(no text)**\n\n(no text).",
    "_(no text)_ (no text)",
    prompts.FINAL,
    "No more tools can be called in this conversation.",
    NO_PLAN,
    # As SmolLM2 wrote them: sentences of ours put together, with a word of its own.
    "[Your reply was not the JSON object that was asked for. No more tools can be called in this conversation. "
    "Write it again, complete.]",
    "[Your answer was not the JSON object that was asked for. No more tools can be called in this conversation. "
    "Write it again, complete.]",
    "Answer my question now, in its language, from the evidence gathered",
    "NOT for what documents say (clauses, conditions, policies): use vector_search.",
    RULES,
    f"**{prompts.FINAL}**",
    str(NotACall("it is no JSON")),
    prompts.guided_rules(()).split("</tools>\n")[1].split("\n")[0],
    prompts.UNREACHED,
    planning.FINDINGS,
    "One step is one question that can be understood by itself, in the language of the\nquestion, with its names, "
    "numbers, dates and codes exactly as they are.",
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
    "**Bold**",
    "-5 °C",
    "(no text) is what the form says [1].",
    "No more tools can be called in this depot.",
    "NOT for what leases say (clauses, conditions, policies): use vector_search.",
    "Your reply was not the 4 object that was asked for.",
    "Today is 2025-11-29.",
    "You have all tools.",
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


@pytest.mark.parametrize("size", [1, 4, 1_000])
@pytest.mark.parametrize(
    "answer", ["[1] says 2 %.", "-5 °C", "- a\n- b", "* a\n* b", "**x** is it", "(see [1])", "`x`", "> q", '"a" is b']
)
@pytest.mark.parametrize("after", [" ", "\n\n", "\n"])
def test_what_an_answer_after_words_of_ours_begins_with_stays(answer, after, size):
    for told in (prompts.FINAL, f"({prompts.FINAL})", f"**{prompts.FINAL}**", NO_PLAN):
        assert shown(f"{told}{after}{answer}", size) == answer


async def _calls(arguments, seconds):
    raise NotImplementedError


def of_a_shield(text, **descriptions):
    tools = {
        name: Tool(name, "", described, form=None, result=None, call=_calls, timeout_seconds=1)
        for name, described in descriptions.items()
    }
    one = TenantShield("acme", GuardTools(), tools, "?").outgoing()
    return one.feed(text) + one.flush()


def test_what_a_tenants_own_texts_say_is_an_answer():
    default = default_descriptions()["sql_query"]
    fact = "Amounts are in euros without VAT."
    assert of_a_shield(fact, sql_query=f"{default}\nTables: contracts. {fact}") == fact
    assert of_a_shield(fact, sql_query=f"Asks the tables. Use it for sums. {fact}") == fact
    assert of_a_shield(fact, crm__find=f"Finds customers. Use it for names. {fact}") == fact
    told = "Let the database aggregate; do not fetch rows to add them up."
    assert of_a_shield(told, sql_query=f"{default}\nTables: contracts.") == ""
    assert of_a_shield(told, sql_query=told) == told
    assert defaults_among({"sql_query": f"{default} More."}) == []


def test_no_sentence_of_ours_is_longer_than_what_is_held():
    assert max(len(" ".join(one.words)) for one in OWN) < 500


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
