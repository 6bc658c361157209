import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.orchestrator.citing.alignment import Alignment
from services.orchestrator.citing.clauses import clauses
from services.orchestrator.citing.lexicon import terms, without_denials
from services.orchestrator.citing.opposing import Opposed, oppositions

WORDS = st.sampled_from(
    "not no sin without unless may must puede debe and y but , . ; : 30 % días days before antes más than de rent "
    "renta tenant inquilino rises baja open closed never nunca the la ( ) \n".split(" ")
)


def kinds(said, *source):
    return {one.kind for one in oppositions(Alignment(said, source))}


@pytest.mark.parametrize(
    ("said", "source", "kind"),
    [
        ("The rate rose in May", "In May the rate fell.", Opposed.WORD),
        ("La luz subió en mayo", "En mayo la electricidad se abarató.", Opposed.WORD),
        ("The fee is 30 euros at least", "La tasa no supera los 30 euros.", Opposed.BOUND),
        ("El depósito es de 300 euros como mínimo", "El depósito es de 300 euros como máximo.", Opposed.BOUND),
        ("Boats are washed before each trip", "Boats are washed after each trip.", Opposed.ORDER),
        ("La caldera se revisa después de la reunión", "The boiler is checked before the meeting.", Opposed.ORDER),
        ("Shops do not have to wear badges", "Shops must wear badges.", Opposed.STANCE),
        ("Las tiendas no tienen que llevar contenedor", "Las tiendas deben llevar contenedor.", Opposed.STANCE),
        ("The price was raised", "The price remained unchanged.", Opposed.MOVED),
        ("The buyer indemnifies the supplier", "The supplier indemnifies the buyer.", Opposed.ROLES),
        ("El banco avisó a la aseguradora", "The insurer warned the bank.", Opposed.ROLES),
        ("El impuesto de vivienda lo paga el inquilino", "El impuesto de vivienda lo paga el dueño.", Opposed.ROLES),
        ("Dogs may enter without permission", "No dogs may enter without permission.", Opposed.CONDITION),
        ("Los perros pueden entrar sin permiso", "Dogs may not enter without permission.", Opposed.CONDITION),
        ("Guests may use the pool", "Guests may not use the pool.", Opposed.DENIAL),
        ("Está permitido pescar en el río", "Fishing in the river is forbidden.", Opposed.DENIAL),
    ],
)
def test_a_contrary_is_seen_in_both_languages(said, source, kind):
    assert kind in kinds(said, source)


@pytest.mark.parametrize(
    ("said", "source"),
    [
        ("The rate is not fixed", "The rate is variable."),
        ("La red no está conectada a internet", "The network is isolated from internet."),
        ("No more than 30 tablets may be taken", "Take at most 30 tablets."),
        ("No se aceptan pedidos de menos de 500 EUR", "Orders must be of 500 EUR or more."),
        ("Permission is needed for dogs", "No dogs without permission."),
        ("Fishing is not forbidden in the river", "Está permitido pescar en el río."),
        ("The lender does not have to extend the term", "The lender is not obliged to extend the term."),
        ("The chair is elected by the committee", "The committee elects the chair."),
        (
            "The president gets the accounts from the administrator",
            "El administrador entrega las cuentas al presidente.",
        ),
        ("Alcohol must be avoided", "No se debe beber alcohol."),
        ("Make a copy before the update", "Do not update before making a copy."),
        ("Nobody is obliged to work overtime", "Las horas extraordinarias son voluntarias."),
    ],
)
def test_the_same_in_other_words_is_no_contrary(said, source):
    assert kinds(said, source) == set()


def test_another_sentence_of_the_source_may_say_what_one_leaves_open():
    shops, people = "Los comercios deben separar el cartón.", "Los particulares no están obligados a separar nada."
    assert kinds("Los particulares no tienen que separar el cartón", shops) == {Opposed.STANCE}
    assert kinds("Los particulares no tienen que separar el cartón", shops, people) == set()


def test_what_lies_beyond_a_bound_may_be_told_without_the_number():
    said, below = "Orders of more than 300 EUR need two signatures", "Orders of up to 300 EUR need one signature."
    assert kinds(said, below) == {Opposed.BOUND}
    assert kinds(said, below, "Orders above need two.") == set()


@pytest.mark.parametrize(
    ("text", "signs"),
    [
        ("It is not allowed", [-1]),
        ("It is not forbidden", [1]),
        ("No hay nada", [-1]),
        ("No solo abre los lunes", [1]),
        ("Cash is taken, but never cheques", [1, -1]),
        ("The door stays shut unless the guard opens it", [1, -1]),
    ],
)
def test_clauses_affirm_or_deny(text, signs):
    assert [one.sign for one in clauses(text)] == signs


@pytest.mark.parametrize(
    ("text", "stances"),
    [
        ("You must not enter", ["must"]),
        ("You need not enter", ["choice"]),
        ("La entrada es voluntaria", ["choice"]),
        ("No es voluntario", ["must"]),
        ("Se puede entrar", ["may"]),
        ("The door is open", [""]),
    ],
)
def test_clauses_demand_allow_or_leave_open(text, stances):
    assert [one.stance for one in clauses(text)] == stances


def test_accents_tell_verbs_from_prepositions():
    assert {pair for one in clauses("La renta bajó") for pair in one.contraries} == {(0, -1)}
    assert not {pair for one in clauses("La renta bajo contrato") for pair in one.contraries}


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("Pets are not insured.", "Pets are insured."),
        ("Nobody may enter", "everybody may enter"),
        ("Las mascotas no están aseguradas.", "Las mascotas están aseguradas."),
        ("No solo abre los lunes", "No solo abre los lunes"),
    ],
)
def test_denials_can_be_taken_out(text, left):
    assert without_denials(text) == left


@given(st.lists(WORDS, max_size=60), st.lists(WORDS, max_size=60))
def test_any_words_can_be_compared_and_a_sentence_does_not_contradict_itself_by_bound_or_role(first, second):
    said, source = " ".join(first), " ".join(second)
    kinds(said, source)
    assert not kinds(said, said) & {Opposed.MOVED, Opposed.STANCE}


@given(st.text(max_size=200))
def test_terms_lie_in_their_text_in_order(text):
    found = terms(text)
    assert all(0 <= one.start < one.end <= len(text) for one in found)
    assert [one.start for one in found] == sorted(one.start for one in found)


@pytest.mark.parametrize("word", ["not", "and", "sin", "30", "más de", "debe", "el inquilino y", "(", ", "])
def test_no_sentence_keeps_the_comparison_busy(word):
    long = f"{word} " * 2_000
    kinds(long, *[long] * 6)
