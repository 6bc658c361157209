"""What a question takes for granted: each kind of false premise is seen, and its true twin is not blamed."""

import pytest

from services.understudy.answer import compose
from services.understudy.evidence import Findings, Passage
from services.understudy.intent import Part
from services.understudy.predicate import predicate
from services.understudy.premise import Said, premise
from services.understudy.schema_reader import read_schema
from services.understudy.signs import Need
from services.understudy.words import language


def lack(question, text, *, after="", heading=""):
    return premise(question).lack(Said(text, after=after, heading=heading, language=language(text)))


@pytest.mark.parametrize(
    ("question", "word"),
    [
        ("Who stole the bronze anchor?", "stole"),
        ("Why did Marta Olsen refuse to finish the tower?", "refuse"),
        ("When did the port authority buy the yard?", "buy"),
        ("Why was the treasurer dismissed?", "dismissed"),
        ("When did we cancel the order?", "cancel"),
        ("Why does the warranty cover the glass?", "cover"),
        ("¿Cuándo murió la doctora Vidal?", "murio"),
        ("¿Por qué se despidió al enfermero?", "despidio"),
        ("¿Qué premio recibió el arquitecto?", "recibio"),
        ("¿Quién ha sustituido a la directora?", "sustituido"),
        ("How long does it last?", ""),
        ("What is the price of the lamp?", ""),
        ("¿Cuánto dura la garantía?", ""),
        ("¿Qué hace la clínica?", ""),
    ],
)
def test_the_deed_that_a_question_asks_of_is_found(question, word):
    assert predicate(question, language(question)) == word


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("Who stole the bronze bell?", "The bronze bell was found by fishermen in 1974."),
        ("¿Por qué se despidió al enfermero?", "El enfermero atiende a cada paciente porque es urgente."),
        ("When did Alba Ltd acquire Norte Ltd?", "Norte Ltd acquired Alba Ltd in 2019."),
        ("When did Alba Ltd acquire Norte Ltd?", "Alba Ltd was acquired by Norte Ltd in 2019."),
        ("¿Cuándo compró la familia Vidal el grupo Norte?", "El grupo Norte compró la clínica a la familia Vidal."),
        ("Who burned down the boathouse?", "The boathouse burned down in 1938."),
        ("Who elects the treasurer?", "The president is elected by members, the treasurer is appointed by her."),
        ("When was the second bridge built?", "The bridge was built in 1931."),
        ("When does the 90-day term begin?", "The term of 60 days begins with the delivery."),
        ("¿Cuándo empieza el plazo de noventa días?", "El plazo es de 60 días y empieza con la entrega."),
        ("Who bought the mill in 2003?", "The city bought the mill in 2019."),
        ("Why was the store closed?", "The store was closed in 2016."),
        ("How much does the tour cost?", "The tour lasts 75 minutes and its cost is part of the ticket."),
        ("Why may members row after dark?", "Members may not row after dark because of the current."),
        ("¿Por qué se entregan los resultados por teléfono?", "El laboratorio no entrega los resultados por teléfono."),
        ("Who mapped the northern coast?", "Anna Lund mapped the southern coast."),
        ("Why did Calder recall the T60 ovens?", "Calder recalled ovens of series T50 because of a thermostat."),
    ],
)  # fmt: skip
def test_a_false_premise_is_seen(question, text):
    assert lack(question, text) is not None


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("Who found the bronze bell?", "The bronze bell was found by fishermen in 1974."),
        ("When did Norte Ltd acquire Alba Ltd?", "Norte Ltd acquired Alba Ltd in 2019."),
        ("When did Norte Ltd acquire Alba Ltd?", "Alba Ltd was acquired by Norte Ltd in 2019."),
        ("¿Cuándo compró el grupo Norte la clínica?", "El grupo Norte compró la clínica a la familia Vidal."),
        ("¿Quién sustituyó a Rosa Quintana?", "Rosa Quintana dejó el cargo y la sustituyó Iván Lobera."),
        ("Who appoints the treasurer?", "Members elect the president, the treasurer is appointed by her."),
        ("When was the second bridge built?", "The 2nd bridge was built in 1931."),
        ("When does the 60-day term begin?", "The term of sixty days begins with the delivery."),
        ("Why was the store closed?", "The store was closed in 2016 because of a flood."),
        ("How much does the tour cost?", "The tour costs 75 EUR."),
        ("Why may members not row after dark?", "Members may not row after dark because of the current."),
        ("Where is photography not permitted?", "Photography is not permitted in the map room."),
        ("Are dogs admitted?", "Dogs are not admitted."),
        ("Who mapped the southern coast?", "Anna Lund mapped the southern coast."),
        ("Which winner led the choir?", "The choir, led by the winner, sang."),
    ],
)  # fmt: skip
def test_a_true_premise_is_not_blamed(question, text):
    assert lack(question, text) is None


def told(question, text):
    passage = Passage(1, "d", "T", "", text)
    found = Findings(passages=(passage,), searched=frozenset({"vector_search"}))
    return compose(question, [Part(question, Need.DOCUMENTS, 0)], found, read_schema(""), language(question))


def test_a_refusal_names_what_is_missing_and_says_what_is_written_instead():
    text = told("Who mapped the northern coast of the island?", "Anna Lund mapped the southern coast of the island.")
    assert text.startswith("I did not find anything in the documents that answers this")
    assert "northern" in text
    assert "southern coast" in text
    assert "[1]" not in text


def test_a_refusal_in_spanish_does_so_too():
    question = "¿Quién cartografió la costa norte de la isla?"
    text = told(question, "Anna Lund cartografió la costa sur de la isla en 1895.")
    assert text.startswith("No he encontrado en los documentos nada que responda")
    assert "«norte»" in text
    assert "costa sur" in text
