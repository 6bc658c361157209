import pytest

from services.orchestrator.evidence import Evidence
from services.orchestrator.partial import language, partial_answer
from services.orchestrator.results import Page, Pages, Passage, Passages, Rows


def found():
    evidence = Evidence()
    evidence.add(Rows("SELECT", "[]", ("count", "total"), ((47, "8300000.00"),)))
    text = "Penalty [9] of 2 %\na month. " + "x" * 400
    evidence.add(Passages((Passage("d", "c", "Contract", "c.pdf", 1, "8.3", "en", text),)))
    evidence.add(Pages((Page("https://e.eu", "News", "Snippet", ""),)))
    return evidence


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("¿Cuántos contratos firmamos en 2025?", "es"),
        ("cuantos contratos hay con proveedores de la UE", "es"),
        ("How many contracts did we sign?", "en"),
        ("contracts", "en"),
        ("What does the word «señal» mean in the contract of the provider?", "en"),
    ],
)
def test_the_language_of_a_question_is_seen(question, expected):
    assert language(question) == expected


def test_a_partial_answer_lists_what_was_found_with_its_marks():
    text = partial_answer("How many?", found(), "deadline")
    assert "the time is used up" in text
    assert "count = 47, total = 8300000.00 [1]" in text
    assert "Contract, 8.3: «Penalty (9) of 2 % a month." in text
    assert "News: «Snippet» [3]" in text
    assert "could not be checked" in text


def test_it_speaks_the_language_of_the_question():
    text = partial_answer("¿Cuántos hay?", found(), "iterations")
    assert text.startswith("No he podido terminar la respuesta (hacían falta demasiados pasos).")


def test_after_a_broken_off_answer_only_the_rest_is_listed():
    text = partial_answer("How many?", found(), "tool_failed", said=True, used=[1, 2])
    assert text.startswith("The answer above is cut off")
    assert "[3]" in text
    assert "[1]" not in text


def test_without_evidence_it_says_so():
    assert "found nothing" in partial_answer("How many?", Evidence(), "tokens")
