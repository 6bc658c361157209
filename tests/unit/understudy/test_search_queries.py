import json
from datetime import date

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.understudy.conversation import Message, read_conversation
from services.understudy.glossary import synonyms
from services.understudy.reply import Choice, decide

ITEM = {"type": "string"}
ITEMS = {"type": "array", "items": ITEM}


def filled(fields, text, history=()):
    """What the stand-in writes for `text` into a form of `fields`."""
    schema = {"type": "object", "properties": fields, "required": list(fields), "additionalProperties": False}
    messages = [Message("system", "Fill in."), *history, Message("user", text)]
    reply = decide(read_conversation(messages), [], Choice("none", json_schema=schema), date(2025, 11, 29))
    return json.loads(reply.text)


def passage(text):
    return filled({"hypothetical_passage": ITEM}, text)["hypothetical_passage"]


def sub_questions(text):
    return filled({"sub_questions": ITEMS}, text)["sub_questions"]


@pytest.mark.parametrize(
    ("question", "begins", "holds"),
    [
        ("¿Qué plazo de preaviso hay para rescindir?", "Sobre plazo de preaviso para rescindir,", "antelacion"),
        ("What is the penalty for late delivery?", "On penalty for late delivery,", "surcharge"),
    ],
)
def test_a_hypothetical_passage_states_in_words_that_mean_the_same(question, begins, holds):
    written = passage(question)
    assert written.startswith(begins)
    assert holds in written
    assert "?" not in written


@pytest.mark.parametrize(
    ("question", "ways"),
    [
        (
            "¿Hay multas por retraso?",
            ["¿Hay penalizacion por demora?", "¿Hay sancion por mora?", "multas retraso"],
        ),
        (
            "What are the penalties for late delivery?",
            [
                "What are the fine for late delivery?",
                "What are the surcharge for late delivery?",
                "penalties late delivery",
            ],
        ),
        ("vacaciones", ["información sobre vacaciones"]),
    ],
)
def test_paraphrases_take_other_words_of_the_same_language(question, ways):
    assert filled({"paraphrases": ITEMS}, question)["paraphrases"] == ways


@pytest.mark.parametrize(
    ("question", "parts"),
    [
        ("Compare the warranty of Acme and Borealis", ["the warranty of Acme", "the warranty of Borealis"]),
        (
            "¿Qué diferencias hay entre Iberdrola y Endesa en la garantía?",
            ["¿Iberdrola en la garantía?", "¿Endesa en la garantía?"],
        ),
        (
            "¿Cuál es la garantía, el plazo y la penalización por retraso?",
            [
                "¿Cuál es la garantía por retraso?",
                "¿Cuál es el plazo por retraso?",
                "¿Cuál es la penalización por retraso?",
            ],
        ),
        (
            "Which suppliers are late and how do we fine them?",
            ["Which suppliers are late", "how do we fine them, suppliers late"],
        ),
        ("What is the notice period?", []),
    ],
)
def test_a_question_is_taken_apart_at_its_conjunctions(question, parts):
    assert sub_questions(question) == parts


@pytest.mark.parametrize(
    ("question", "broader"),
    [
        (
            "¿Cuántos días de vacaciones pasan a 2026?",
            "¿Qué normas y condiciones generales hay sobre días de vacaciones pasan?",
        ),
        ("What is the notice of 30 days?", "What are the general rules and conditions about notice of days?"),
    ],
)
def test_a_broader_question_leaves_the_figures_out(question, broader):
    assert filled({"broader_question": ITEM}, question)["broader_question"].startswith(broader[:-1])


def test_the_next_step_looks_for_the_words_that_were_not_found():
    fields = {"sufficient": {"type": "boolean"}, "next_query": ITEM}
    question = "Which warranty and notice does Acme give?"
    found = [{"title": "Acme", "section": "", "text": "The warranty of Acme is three years."}]
    told = {"question": question, "queries": [question], "passages": found}
    assert filled(fields, json.dumps(told)) == {"sufficient": False, "next_query": "notice"}
    found[0]["text"] += " It gives notice of 30 days."
    assert filled(fields, json.dumps(told)) == {"sufficient": True, "next_query": ""}
    assert filled(fields, "no JSON") == {"sufficient": True, "next_query": ""}


@pytest.mark.parametrize(
    ("question", "transform"),
    [
        ("¿Qué dice CT-2025-0091 de Iberdrola y Endesa?", "none"),
        ("What do Iberdrola and Endesa charge?", "decompose"),
        ("¿Qué multas hay?", "multi_query"),
        ("What does the cafeteria serve?", "none"),
    ],
)
def test_a_plan_is_chosen_by_the_words_of_the_question(question, transform):
    plan = filled({"transform": ITEM, "queries": ITEMS}, question)
    assert plan["transform"] == transform
    assert bool(plan["queries"]) is (transform != "none")


@pytest.mark.parametrize(
    ("before", "question", "holds"),
    [
        ("¿Qué contratos tienen penalización?", "¿y en 2024?", ["penalización", "2024"]),
        ("What was the limit in 2023?", "and in 2024?", ["limit", "2024"]),
        (
            "¿Qué dice el contrato CT-2025-0091 de las multas?",
            "¿qué plazo tiene ese contrato?",
            ["CT-2025-0091", "plazo"],
        ),
        ("What does the holiday policy say?", "does it apply to part-time staff?", ["holiday", "part-time"]),
    ],
)
def test_a_follow_up_gets_the_words_of_the_question_before(before, question, holds):
    history = [Message("user", before), Message("assistant", "…")]
    written = filled({"standalone_query": ITEM}, question, history)["standalone_query"]
    assert all(word in written for word in holds)


def test_what_stands_alone_is_repeated():
    history = [Message("user", "What was the limit?"), Message("assistant", "5")]
    question = "What does the holiday policy say about carrying days over?"
    assert filled({"standalone_query": ITEM}, question, history)["standalone_query"] == question


def test_other_forms_are_filled_as_before():
    assert filled({"query": ITEM}, "What is copper?") == {"query": "What is copper?"}


def test_synonyms_are_of_the_same_language_and_of_the_word_and_not_of_its_stem():
    assert synonyms("multa", "es") == ("penalizacion", "sancion", "recargo")
    assert synonyms("penalties", "en") == ("fine", "surcharge")
    assert synonyms("penalty", "es") == ()
    assert synonyms("contrato", "es") == ()


@settings(deadline=None)
@given(st.text(alphabet='aAñ ¿?.,;1-yandE\n"', max_size=120))
def test_any_text_can_be_worked_on(text):
    for fields in (
        {"hypothetical_passage": ITEM},
        {"paraphrases": ITEMS},
        {"sub_questions": ITEMS},
        {"broader_question": ITEM},
        {"sufficient": {"type": "boolean"}, "next_query": ITEM},
        {"transform": ITEM, "queries": ITEMS},
        {"standalone_query": ITEM},
    ):
        assert filled(fields, text).keys() == fields.keys()
