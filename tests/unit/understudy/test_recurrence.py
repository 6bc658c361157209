"""Clauses that recur over documents, within and across languages."""

from services.understudy.answer import compose
from services.understudy.evidence import Findings, Passage
from services.understudy.intent import Part
from services.understudy.recurrence import clauses, recurring_clauses
from services.understudy.schema_reader import Schema
from services.understudy.signs import Need

SPANISH = [
    "4.1 Seguro. El proveedor mantiene un seguro de responsabilidad de 3 millones.",
    "4.1 Póliza. Cada parte acredita que la póliza alcanza 3 millones antes de empezar.",
]
ENGLISH = ["4.1 Insurance. The supplier keeps liability insurance of 3 million."]


def passage(number, text, language="es", section="Condiciones especiales", document=None):
    return Passage(number, document or f"d{number}", f"T{number}", section, language, text)


def mixed():
    found = [passage(n, SPANISH[n % 2]) for n in range(1, 5)]
    found += [passage(n, ENGLISH[0], "en", "Special conditions") for n in range(5, 8)]
    found += [passage(n, f"9.{n} Varios. Asunto propio número {n} de este acuerdo concreto.") for n in range(8, 11)]
    return found


def test_variants_and_translations_of_one_clause_are_one_group():
    (group,), total = recurring_clauses("¿Qué condiciones especiales se repiten?", mixed())
    assert (group.number, len(group.documents), total) == ("4.1", 7, 10)


def test_the_quoted_sentence_and_the_first_marks_are_of_the_readers_language():
    (group,), _ = recurring_clauses("which special conditions recur?", mixed())
    assert group.sentence(
        "en"
    ) == "The supplier keeps liability insurance of 3 million." or "3 million" in group.sentence("en")
    assert group.marks("en")[:3] == [5, 6, 7]
    assert "3 millones" in group.sentence("es")
    assert set(group.marks("es")) <= {1, 2, 3, 4}


def test_other_figures_make_another_clause():
    found = [
        passage(n, f"4.1 Seguro. El proveedor mantiene un seguro de {3 if n % 2 else 5} millones.") for n in range(1, 7)
    ]
    groups, _ = recurring_clauses("¿qué se repite?", found)
    assert sorted(len(group.documents) for group in groups) == [3, 3]


def test_one_document_that_repeats_itself_is_no_recurrence():
    found = [passage(n, SPANISH[0], document="same") for n in range(1, 5)]
    groups, total = recurring_clauses("¿qué condiciones se repiten?", found)
    assert (groups, total) == ([], 1)


def test_what_the_question_names_leaves_the_rest_out():
    ordinary = [
        passage(n, "2.1 Objeto. El contrato regula el suministro de material.", section="2. Objeto")
        for n in range(20, 26)
    ]
    groups, _ = recurring_clauses("¿Qué condiciones especiales se repiten?", [*mixed(), *ordinary])
    assert [group.number for group in groups] == ["4.1"]


def test_clauses_are_found_in_lists_headings_and_running_text():
    text = (
        "Introducción general del acuerdo.\n- Cláusula 7.2: revisión según índice, hasta el 3 % "
        "anual.\n**8.1 Plazo de entrega.** Se entrega en 10 días hábiles. 8.2 Embalaje. El "
        "embalaje corre a cargo del vendedor."
    )
    assert [one.number for one in clauses([passage(1, text)])] == ["", "7.2", "8.1", "8.2"]


def test_a_passage_without_numbers_takes_that_of_its_section():
    (one,) = clauses([passage(1, "El retraso se penaliza con el 1 % semanal.", section="8.3 Penalizaciones")])
    assert one.number == "8.3"


def test_the_answer_says_in_how_many_documents_and_cites_some():
    parts = [Part("which special conditions recur", Need.DOCUMENTS, 0)]
    found = Findings(passages=tuple(mixed()), searched=frozenset({"vector_search"}))
    text = compose("which special conditions recur", parts, found, Schema({}), "en")
    assert text.startswith("The following clauses recur:\n- Clause 4.1 (in 7 of the 10 documents found): ")
    assert text.count("[") == 4


def test_nothing_recurring_is_said():
    parts = [Part("¿qué condiciones se repiten?", Need.DOCUMENTS, 0)]
    found = Findings(passages=tuple(mixed()[-3:]), searched=frozenset({"vector_search"}))
    text = compose("¿qué condiciones se repiten?", parts, found, Schema({}), "es")
    assert text == "No he encontrado condiciones que se repitan en los documentos encontrados (3)."
