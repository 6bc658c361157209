"""Clauses that recur over documents, within and across languages."""

import pytest

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


def passage(number, text, section="Condiciones especiales", document=None):
    return Passage(number, document or f"d{number}", f"T{number}", section, text)


def mixed():
    found = [passage(n, SPANISH[n % 2]) for n in range(1, 5)]
    found += [passage(n, ENGLISH[0], "Special conditions") for n in range(5, 8)]
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


LAYOUTS = [
    "- Clause 6.2: {0}\n- Clause 9.4: {1}",
    "* Clause 6.2 - {0}\n* Clause 9.4 - {1}",
    "6.2 {0}\n9.4 {1}",
    "6.2. {0}\n\n9.4. {1}",
    "6.2 – {0}\n9.4 – {1}",
    "**Clause 6.2** {0}\n**Clause 9.4** {1}",
    "- **6.2** {0}\n- **9.4** {1}",
    "**6.2. {0}**\n**9.4. {1}**",
    "(6.2) {0}\n(9.4) {1}",
    "1. Clause 6.2: {0}\n2. Clause 9.4: {1}",
    "### 6.2 {0}\n### 9.4 {1}",
    "| Clause | Text |\n| --- | --- |\n| 6.2 | {0} |\n| 9.4 | {1} |",
    "| 6.2 | {0} |\n| 9.4 | {1} |",
    "| Clause 6.2 | {0} |\n| Clause 9.4 | {1} |",
]
TEXTS = {
    "en": ("pets stay with a deposit of 300 euros a room.", "the lift is out of use between 22 and 7 hours."),
    "es": ("los animales exigen un depósito de 300 euros.", "el ascensor se apaga entre las 22 y las 7 horas."),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("spoken", TEXTS)
def test_numbered_items_are_told_apart_however_they_are_laid_out(layout, spoken):
    layout = layout.replace("Clause", "Cláusula") if spoken == "es" else layout
    for texts in (TEXTS[spoken], [text.capitalize() for text in TEXTS[spoken]]):
        if layout.startswith("6.2 {") and texts[0][0].islower():
            continue  # `2.5 points` is no clause
        found = [one for one in clauses([passage(1, layout.format(*texts))]) if one.number]
        assert [one.number for one in found] == ["6.2", "9.4"]
        assert [text.rstrip(".").lower() in one.text.lower() for one, text in zip(found, texts, strict=True)] == [
            True,
            True,
        ]
        assert not any("|" in one.text or "*" in one.text for one in found)


@pytest.mark.parametrize(
    "text",
    [
        "El alquiler sube cada año:\n2.5 puntos como máximo sobre el índice de referencia",
        "The meeting was on 12.05.2025. The rent was 1.2 million euros in all of that year",
        "See clause 4.2 of the annex, and what clause 5.1 says of it in other words",
    ],
)
def test_numbers_that_are_no_clauses_split_nothing(text):
    assert [one.number for one in clauses([passage(1, text)])] == [""]


def test_items_without_numbers_recur_by_themselves():
    keys = "- Keys: two sets, 40 euros for each one lost."
    texts = [
        f"Conditions:\n{keys}\n- Garden: mown every {n} weeks in summer.\n- Roof: cleaned by firm number 9{n}."
        for n in (2, 3, 5)
    ]
    found = [passage(n, text, "Particulars") for n, text in enumerate(texts, start=1)]
    (group,), _ = recurring_clauses("What recurs?", found)
    assert group.sentence("en") == "Keys: two sets, 40 euros for each one lost."
    rows = [
        passage(n, text.replace("- ", "| ").replace(": ", " | ").replace(".", " |"))
        for n, text in enumerate(texts, start=1)
    ]
    (group,), _ = recurring_clauses("What recurs?", rows)
    assert group.sentence("en") == "Keys: two sets, 40 euros for each one lost"


def rental(n, special="", spoken="en"):
    """What every rental agreement of a made-up landlord holds, and a section of its own."""
    ordinary = {
        "en": "2.1 Rent. The rent is paid on day 5 of each month under the general conditions of payment.",
        "es": "2.1 Renta. La renta se paga el día 5 de cada mes según las condiciones generales de pago.",
    }
    found = [passage(n, ordinary[spoken], f"Lease {n} > 2. Rent", f"d{n}")]
    if special:
        section = "Special conditions" if spoken == "en" else "Condiciones especiales"
        found.append(passage(100 + n, special, f"Lease {n} > {section}", f"d{n}"))
    return found


SPECIAL = {
    "en": "- Clause 6.2: pets are allowed with a deposit of 300 euros.",
    "es": "- Cláusula 6.2: se admiten animales con un depósito de 300 euros.",
}


@pytest.mark.parametrize(
    "question",
    [
        "Which special conditions recur?",
        "Which special conditions recur in the leases with a rent above 900 euros?",
        "What are the most common special conditions?",
        "¿Qué condiciones especiales se repiten?",
        "¿Cuáles son las condiciones especiales más habituales de los contratos con renta mensual?",
        "¿Se repiten condiciones especiales en los contratos?",
    ],
)
def test_what_is_in_every_document_is_no_special_condition(question):
    found = [one for n in range(1, 9) for one in rental(n, SPECIAL["es" if n % 2 else "en"], "es" if n % 2 else "en")]
    groups, total = recurring_clauses(question, found)
    assert [(group.number, len(group.documents)) for group in groups] == [("6.2", 8)]
    assert total == 8


def test_special_conditions_that_do_not_recur_are_not_made_up_for():
    found = [one for n in range(1, 9) for one in rental(n, f"- Clause 6.{n}: room {n}{n} has {n} beds of its own.")]
    assert recurring_clauses("Which special conditions recur?", found) == ([], 8)


def test_without_a_qualifier_everything_that_recurs_counts():
    found = [one for n in range(1, 9) for one in rental(n, SPECIAL["en"])]
    groups, _ = recurring_clauses("Which conditions recur?", found)
    assert {group.number for group in groups} == {"2.1", "6.2"}


def test_what_is_labelled_so_counts_before_what_only_mentions_it():
    texts = [
        "1.4 The special conditions of the annex prevail over everything that is said here or elsewhere.",
        "6.2 Pets (special condition). They are allowed with a deposit of 300 euros.",
    ]
    found = [passage(10 * n + k, texts[k], "Lease", f"d{n}") for n in range(1, 5) for k in (0, 1)]
    groups, _ = recurring_clauses("which special conditions recur?", found)
    assert [group.number for group in groups] == ["6.2"]


@pytest.mark.parametrize(
    ("question", "number"),
    [
        ("¿Qué excepciones se repiten?", "5.5"),
        ("Which exceptions recur in our leases?", "5.5"),
        ("Which conditions on pets recur?", "6.2"),
        ("¿Qué cláusulas de renta se repiten?", "2.1"),
    ],
)
def test_any_word_may_qualify_what_recurs(question, number):
    found = []
    for n in range(1, 7):
        found += rental(n, "6.2 Pets. Animals stay with a deposit of 300 euros.")
        found.append(passage(200 + n, "5.5 Students pay 20 % less.", "Lease > 5. Exceptions", f"d{n}"))
    groups, _ = recurring_clauses(question, found)
    assert [group.number for group in groups] == [number]


def test_what_nothing_is_called_does_not_recur():
    found = [one for n in range(1, 9) for one in rental(n, SPECIAL["en"])]
    assert recurring_clauses("Which guarantees recur in our leases?", found) == ([], 8)


def test_a_heading_that_the_text_repeats_is_no_clause():
    found = [passage(n, "7. Noise after ten\n7.1 Quiet. It is quiet.", "Lease > 7. Noise after ten") for n in (1, 2)]
    assert "7" not in [one.number for one in clauses(found)]


def test_a_heading_over_several_things_is_not_enough():
    text = "5.1 Keys are handed over at the porter's desk.\n5.2 Fines of 25 euros are due for lost keys."
    found = [passage(n, text, "Lease > 5. Keys and fines") for n in range(1, 5)]
    assert [group.number for group in recurring_clauses("Which fines recur?", found)[0]] == ["5.2"]
    found = [passage(n, text, "Lease > 5. Fines") for n in range(1, 5)]
    assert [group.number for group in recurring_clauses("Which fines recur?", found)[0]] == ["5.1", "5.2"]
