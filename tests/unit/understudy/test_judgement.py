"""Forms by which an agent looks at its own work."""

import json
from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.understudy.conversation import Message, read_conversation
from services.understudy.judgement import admits
from services.understudy.reply import Choice, decide

SOURCES = [
    {"number": 1, "text": "The provider pays a penalty of 2 % a month for late delivery under CT-2025-0091."},
    {"number": 2, "text": "contracts_count | total_amount_eur\n47 | 8300000.00"},
]


def filled(text, *fields):
    form = {"properties": {name: {} for name in fields}}
    conversation = read_conversation([Message("system", "Judge."), Message("user", text)])
    return json.loads(decide(conversation, [], Choice(json_schema=form), date(2026, 7, 29)).text)


def judged(*sentences):
    """(text, marks …)"""
    told = [{"number": n, "text": text, "cites": list(cites)} for n, (text, *cites) in enumerate(sentences, 1)]
    return filled(json.dumps({"question": "Q?", "sentences": told, "sources": SOURCES}), "unsupported", "useful")


@pytest.mark.parametrize(
    ("question", "needs"), [("Hola, buenos días", False), ("Thanks a lot!", False), ("¿Cuántos contratos hay?", True)]
)
def test_only_talk_needs_no_evidence(question, needs):
    assert filled(question, "needs_evidence") == {"needs_evidence": needs}


def test_passages_that_hold_what_is_asked_are_relevant():
    passages = [
        {"number": 1, "title": "Contract", "text": "Late delivery gives rise to a penalty of 2 % a month."},
        {"number": 2, "title": "Menu", "text": "The cafeteria opens at eight."},
    ]
    told = {"question": "What is the penalty for late delivery?", "passages": passages}
    assert filled(json.dumps(told), "relevant") == {"relevant": [1]}


def test_what_the_sources_say_is_supported_in_whatever_way_numbers_are_written():
    said = judged(("A penalty of 2 % a month applies to late delivery.", 1), ("Hay 47, por 8.300.000 € [2].", 2))
    assert said == {"unsupported": [], "useful": True}


@pytest.mark.parametrize(
    "sentence",
    [
        ("A penalty of 3 % a month applies to late delivery.", 1),
        ("Late delivery under CT-2025-0092 brings a penalty.", 1),
        ("The cafeteria opens for breakfast and lunch.", 1),
        ("Hay 48 contratos.", 2),
        ("A penalty of 2 % a month.", 2),
    ],
)
def test_a_changed_number_code_or_matter_is_not_supported(sentence):
    assert judged(sentence) == {"unsupported": [1], "useful": False}


def test_an_admission_claims_nothing_and_is_not_useful_by_itself():
    assert judged(("No he encontrado datos que respondan a esta pregunta.",)) == {"unsupported": [], "useful": False}
    assert admits("I did not find anything in the documents that answers this question.")
    assert not admits("The notice is thirty days.")


def test_a_conversation_is_summed_up_with_its_figures_and_within_bounds():
    said = [
        {"role": "user", "text": "How many contracts are there?"},
        {
            "role": "assistant",
            "text": "There are 47 contracts. Among them is CT-2025-0091. " + "So it is, then. " * 200,
        },
    ]
    summary = filled(json.dumps(said), "summary")["summary"]
    assert "47" in summary
    assert "CT-2025-0091" in summary
    assert len(summary) <= 240
    assert filled("Es sind 47 Verträge.", "summary") == {"summary": "Es sind 47 Verträge."}


@given(
    st.text(max_size=200), st.sampled_from([("relevant",), ("unsupported",), ("unsupported", "useful"), ("summary",)])
)
def test_any_text_can_be_judged(text, fields):
    assert set(filled(text, *fields)) == set(fields)
