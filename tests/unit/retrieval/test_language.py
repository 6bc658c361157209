"""Languages that a query is looked up in."""

import pytest

from services.retrieval.language import query_languages, spoken

BOTH = ["en", "es"]


@pytest.mark.parametrize(
    ("query", "languages"),
    [
        ("¿Cuántos contratos de más de 100k€ firmamos en 2025?", ["es"]),
        ("qué penalización hay por retraso", ["es"]),
        ("How many contracts above 100k€ did we sign in 2025?", ["en"]),
        ("what is the late delivery penalty", ["en"]),
        ("CT-2025-0001", BOTH),
        ("penalización retraso", BOTH),
        ("el contrato of the year", BOTH),
    ],
)
def test_a_query_is_looked_up_in_its_own_language_where_it_shows(query, languages):
    assert query_languages(query, BOTH) == languages


def test_the_only_language_of_the_documents_is_taken_whatever_the_query():
    assert query_languages("what is the penalty", ["es"]) == ["es"]
    assert query_languages("what is the penalty", [""]) == [""]
    assert query_languages("what is the penalty", []) == [""]


def test_a_language_that_no_document_has_is_not_looked_up():
    assert query_languages("what is the penalty", ["de", "es"]) == ["de", "es"]


def test_the_number_of_languages_is_bounded():
    assert len(query_languages("Berlin", ["de", "en", "es", "fr", "it"])) == 3


@pytest.mark.parametrize(
    ("query", "language"),
    [("¿Qué penalización hay?", "es"), ("what is the penalty", "en"), ("CT-2025-0001", ""), ("Berlin", "")],
)
def test_the_language_of_a_query_is_told_where_it_shows(query, language):
    assert spoken(query) == language
