"""Questions that vary the one before."""

from datetime import date
from pathlib import Path

import pytest

from services.orchestrator.model import Message
from services.orchestrator.routing.follow_up import goes_on, varied
from services.orchestrator.routing.reviewed import reviewed
from services.runtime import tenants

TODAY = date(2026, 7, 15)
DEMO = tenants.load(Path(__file__).parents[4] / "demo" / "tenant_files")["demo"]
QUERIES = [reviewed(name, query, source) for source in DEMO.sql for name, query in source.verified_queries.items()]
SIGNED = "How many contracts above 50k€ did we sign in 2025 with EU providers?"
BASE = {"signed_from": "2025-01-01", "signed_before": "2026-01-01", "regions": ["EU"], "above_eur": 50000}


def asked(*questions):
    return [one for text in questions for one in (Message("user", text), Message("assistant", "There are 12 [1]."))]


def found(text, *earlier):
    fit = varied(QUERIES, asked(*earlier), text, TODAY)
    return (fit.name, fit.arguments) if fit else None


@pytest.mark.parametrize(
    ("text", "changed"),
    [
        ("And in 2024?", {"signed_from": "2024-01-01", "signed_before": "2025-01-01"}),
        ("¿Y el mes pasado?", {"signed_from": "2026-06-01", "signed_before": "2026-07-01"}),
        ("What about Latin America?", {"regions": ["LATAM"]}),
        ("And above 200k€?", {"above_eur": 200000}),
        (
            "¿Y en 2023 con los del Reino Unido?",
            {"signed_from": "2023-01-01", "signed_before": "2024-01-01", "regions": ["UK"]},
        ),
    ],
)
def test_what_the_follow_up_says_is_changed_and_the_rest_stays(text, changed):
    assert found(text, SIGNED) == ("contracts_signed", {**BASE, **changed})


def test_a_follow_up_of_a_follow_up_keeps_both_changes():
    assert found("And in Latin America?", SIGNED, "And in 2024?") == (
        "contracts_signed",
        {**BASE, "signed_from": "2024-01-01", "signed_before": "2025-01-01", "regions": ["LATAM"]},
    )


@pytest.mark.parametrize(
    "text",
    [
        "And which were they?",
        "And with Iberdrola?",
        "And by month?",
        "And without the EU?",
        "And below 20k€?",
        "¿Y qué dicen sobre las penalizaciones?",
        "And why in 2024?",
        "And in 2023 and in 2024?",
        "And then?",
        "Thank you",
        "¿Y los borradores de 2024?",
    ],
)
def test_what_the_query_cannot_say_is_left_to_the_model(text):
    assert found(text, SIGNED) is None


def test_only_the_last_question_is_varied():
    assert found("And in 2024?", SIGNED, "What does the policy say about gifts?") is None
    assert found("And in 2024?") is None


@pytest.mark.parametrize("text", ["And in France?", "¿Y en Francia?", "Who are they from?", "¿De quién son esos?"])
def test_what_asks_for_more_goes_on(text):
    assert goes_on(asked("How many payments are late?"), text)


@pytest.mark.parametrize("text", ["Thanks a lot", "Ponlo en inglés", "Make it shorter", "¿Estás seguro?"])
def test_what_asks_for_the_same_in_other_words_does_not_go_on(text):
    assert not goes_on(asked("How many payments are late?"), text)


def test_what_answers_the_assistant_goes_on():
    history = [Message("user", "Which provider is best?"), Message("assistant", "By volume?")]
    assert goes_on(history, "Yes")
    assert not goes_on([], "Yes")
