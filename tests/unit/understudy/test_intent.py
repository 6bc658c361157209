"""Which tool a question is for, in both languages."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.understudy.arithmetic import arithmetic
from services.understudy.intent import split
from services.understudy.plan import read_parts
from services.understudy.schema_reader import read_schema
from tests.unit.understudy.schemas import CONTRACTS

SQL, DOCUMENTS, WEB = "sql_query", "vector_search", "web_search"

QUESTIONS = [
    (
        "How many contracts above 100k€ did we sign in 2025 with EU providers, and which special conditions recur?",
        [SQL, DOCUMENTS],
    ),
    (
        (
            "¿Cuántos contratos de más de 100k€ firmamos en 2025 con proveedores de la UE, y qué "
            "condiciones especiales se repiten?"
        ),
        [SQL, DOCUMENTS],
    ),
    ("How many orders in March?", [SQL]),
    ("What does the returns policy say?", [DOCUMENTS]),
    ("What is the price of copper today?", [WEB]),
    ("Sum of the contracts of Q3", [SQL]),
    ("¿Qué dice la política de devoluciones?", [DOCUMENTS]),
    ("¿Cuál es el precio del cobre hoy?", [WEB]),
    ("Suma de los contratos del tercer trimestre", [SQL]),
    ("importe medio de los contratos por región", [SQL]),
    ("top 5 providers by total amount", [SQL]),
    ("¿Qué proveedor tiene más contratos?", [SQL]),
    ("contratos con importe superior a 50.000 €", [SQL]),
    ("List the contracts signed in 2024", [SQL]),
    ("¿Cuánto pagamos en 2024?", [SQL]),
    ("How much did we pay in 2024?", [SQL]),
    ("¿Cuál es el contrato más grande?", [SQL]),
    ("average contract amount in 2023", [SQL]),
    ("Número de proveedores por país", [SQL]),
    ("What is the total value of contracts with providers outside the EU?", [SQL]),
    ("How many contracts did we sign in 2025 and for what total?", [SQL]),
    ("How many payments are pending, and what do they add up to?", [SQL]),
    ("Which is the largest contract of 2025, and who is the provider?", [SQL]),
    ("For what amount was CT-2024-0001 signed?", [SQL]),
    ("¿Por qué importe se firmó el CT-2024-0001?", [SQL]),
    ("With how much notice may we audit the provider of CT-2024-0001?", [DOCUMENTS]),
    ("¿En cuánto limita el contrato CT-2024-0001 la subida anual del precio?", [DOCUMENTS]),
    ("Which minimum age do we demand for our suppliers' workers?", [DOCUMENTS]),
    ("¿A qué proveedores pedimos la huella de carbono?", [DOCUMENTS]),
    ("What does clause 12.4 say?", [DOCUMENTS]),
    ("¿Cómo solicito vacaciones?", [DOCUMENTS]),
    ("How long do we have to report an accident?", [DOCUMENTS]),
    ("¿Cuánto tiempo tenemos para recurrir?", [DOCUMENTS]),
    ("¿En cuántos días hay que responder a un cliente?", [DOCUMENTS]),
    ("Who approves trips abroad?", [DOCUMENTS]),
    ("How do I request a refund?", [DOCUMENTS]),
    ("What is the notice period for termination?", [DOCUMENTS]),
    ("¿Qué requisitos hay para subcontratar?", [DOCUMENTS]),
    ("¿Qué penalización se aplica por retraso en la entrega?", [DOCUMENTS]),
    ("What happens if the supplier delivers late?", [DOCUMENTS]),
    ("¿Se puede ceder el contrato a un tercero?", [DOCUMENTS]),
    ("Who is responsible for data protection?", [DOCUMENTS]),
    ("Summarize the warranty terms", [DOCUMENTS]),
    ("¿Cuál es la política de gastos de viaje?", [DOCUMENTS]),
    ("¿Cuántos días de preaviso exige el contrato?", [DOCUMENTS]),
    ("How many days of holidays do I have?", [DOCUMENTS]),
    ("What are the payment terms in our contracts?", [DOCUMENTS]),
    ("latest news about the European Central Bank", [WEB]),
    ("¿Qué tiempo hace en Madrid?", [WEB]),
    ("noticias sobre inteligencia artificial", [WEB]),
    ("¿Cuál es el tipo de cambio euro dólar?", [WEB]),
    ("What is the share price of Siemens?", [WEB]),
    ("What's the current inflation rate in Spain?", [WEB]),
    ("¿Cuántos pagos pendientes hay y cuál es el precio actual del petróleo?", [SQL, WEB]),
    (
        "How many payments are pending, what does the payment policy say and what is the exchange rate today?",
        [SQL, DOCUMENTS, WEB],
    ),
    ("hola", []),
    ("Buenos días, ¿qué tal?", []),
    ("gracias!", []),
    ("Thank you very much", []),
    ("¿quién eres?", []),
    ("What can you do?", []),
    ("what is 12 * 7?", []),
    ("¿Cuánto es 15 por 3?", []),
    ("translate 'hello' to French", []),
    ("ok", []),
]


@pytest.mark.parametrize(("question", "tools"), QUESTIONS)
def test_every_part_of_a_question_goes_to_its_tool(question, tools):
    parts = read_parts(question, read_schema(CONTRACTS))
    assert [part.need.value for part in parts if part.need.value] == tools


def test_most_questions_are_routed_alike_without_a_schema():
    right = sum(
        [part.need.value for part in read_parts(question, read_schema("")) if part.need.value] == tools
        for question, tools in QUESTIONS
    )
    assert right >= 0.85 * len(QUESTIONS)


def test_words_of_sequence_make_stages():
    parts = read_parts(
        "First tell me how many contracts we have, then what the confidentiality clause says, then the latest news",
        read_schema(CONTRACTS),
    )
    assert [(part.need.value, part.stage) for part in parts] == [(SQL, 0), (DOCUMENTS, 1), (WEB, 2)]


def test_a_greeting_before_a_question_is_left_out():
    parts = read_parts("Hola. ¿Cuántos contratos tenemos?", read_schema(CONTRACTS))
    assert [part.need.value for part in parts] == [SQL]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("what is 12 * 7?", 84),
        ("¿Cuánto es 15 por 3?", 45),
        ("2+2", 4),
        ("(1,5 + 2) / 7", Decimal("0.5")),
        ("1.000 menos 1", 999),
    ],
)
def test_plain_sums_are_done(text, value):
    assert arithmetic(text) == value


@pytest.mark.parametrize("text", ["1/0", "what is 2**9", "2025-01-01 - 3 days", "9" * 500, "((((", "12"])
def test_what_is_no_plain_sum_is_left_alone(text):
    assert arithmetic(text) is None


@given(st.text(max_size=120))
def test_splitting_loses_no_words(text):
    words = {word for word in "".join(char if char.isalnum() else " " for char in text).split() if len(word) > 14}
    joined = " ".join(part for part, _ in split(text))
    assert all(word in joined for word in words)
