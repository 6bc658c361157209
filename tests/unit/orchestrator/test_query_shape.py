import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.orchestrator.query_shape import Shape, identifiers, leans_on_history, shape


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("¿Qué dice el contrato CT-2025-0091?", ["CT-2025-0091"]),
        ("error err-4032 at start", ["err-4032"]),
        ("supplier B12345678", ["B12345678"]),
        ("invoice 20250091", ["20250091"]),
        ("bearing 6204-2RS/C3", ["6204-2RS/C3"]),
        ("penalties in clause 8.3", ["clause 8.3"]),
        ("la cláusula 8 del contrato", ["cláusula 8"]),
        ("contratos de más de 100k€ en 2025", []),
        ("on 2025-11-01, part-time and 24/7", []),
        ("1.000.000 EUR", []),
        ("the notice period", []),
    ],
)
def test_codes_and_clause_numbers_are_identifiers_and_amounts_and_dates_are_not(query, found):
    assert identifiers(query) == found


@pytest.mark.parametrize(
    "query",
    [
        "and in 2024?",
        "¿y cuáles penalizan más?",
        "¿y en Portugal?",
        "¿cuáles?",
        "in 2024?",
        "What about the notice period?",
        "¿Qué hay de las garantías?",
        "does it apply to part-time staff?",
        "who signed them?",
        "¿qué plazo tiene ese contrato?",
        "¿se aplica también a ellos?",
        "los otros",
        "What is that?",
        "their penalties",
        "sus plazos",
    ],
)
def test_what_cannot_be_understood_alone_leans_on_the_conversation(query):
    assert leans_on_history(query)


@pytest.mark.parametrize(
    "query",
    [
        "What does the holiday policy say about carrying days over?",
        "¿Cuál es el plazo de preaviso para rescindir?",
        "penalty for late delivery",
        "documents that mention penalties",
        "contratos y sus cláusulas de penalización",
        "suppliers of steel and their penalties for late delivery",
        "¿está permitido el teletrabajo?",
        "gastos de viaje en el este de Europa",
        "CT-2025-0091",
        "Which contracts with EU providers that we signed in 2025 hold a penalty, and what is it?",
        "condiciones especiales que se repiten en los contratos de proveedores de la UE",
    ],
)
def test_what_says_all_itself_does_not(query):
    assert not leans_on_history(query)


@pytest.mark.parametrize(
    ("query", "is_of"),
    [
        ("CT-2025-0091", Shape.EXACT),
        ("What does CT-2025-0091 say of notice and who signed it?", Shape.EXACT),
        ("holiday carry over", Shape.EXACT),
        ("penalización por retraso", Shape.EXACT),
        ('"fuerza mayor"', Shape.EXACT),
        ("¿Qué plazo de preaviso hay y cuáles son las penalizaciones?", Shape.SEVERAL),
        ("Compare the penalties of both suppliers", Shape.SEVERAL),
        ("¿Qué diferencias hay entre la garantía y el aval?", Shape.SEVERAL),
        ("What do Iberdrola and Endesa charge?", Shape.SEVERAL),
        ("garantía, plazo y penalización por retraso", Shape.SEVERAL),
        ("What is the notice? How is it sent?", Shape.SEVERAL),
        ("What is the holiday policy?", Shape.OPEN),
        ("What is the holiday policy? Be brief.", Shape.OPEN),
        ("How does the warranty work for pumps?", Shape.OPEN),
    ],
)
def test_the_shape_of_a_query_is_told_from_its_words(query, is_of):
    assert shape(query) is is_of


@settings(deadline=None)
@given(st.text(alphabet="aA1? ,.-/yand\n¿é", max_size=400))
def test_any_text_has_a_shape(query):
    assert shape(query) in Shape
    assert leans_on_history(query) in (True, False)


@pytest.mark.parametrize("piece", ["a", "A1-", "?", "./", "a, ", "a-", "entre ", "1", "y que ", "¿a? "])
def test_a_long_query_costs_little_time(piece):
    query = (piece * 4096)[:4096]
    started = time.perf_counter()
    shape(query)
    leans_on_history(query)
    assert time.perf_counter() - started < 15
