"""What a query names exactly."""

import pytest

from services.retrieval.codes import held, named
from services.retrieval.store import StoredChunk


def chunk(text="text", document_id="d", **fields):
    return StoredChunk(document_id, 0, text, "c", **fields)


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("¿Qué penalización tiene el contrato CT-2025-0091?", {"ct-2025-0091"}),
        ("ERR4032 or err-4032", {"err4032", "err-4032"}),
        ("policy SEC-014, version FIN-011/b", {"sec-014", "fin-011/b"}),
        ("what does err 4032 mean", {"err-4032"}),
        ("part KX-450-B", {"kx-450-b"}),
        ("contracts above 100k€ in 2025, clause 8.3, from 2025-01-01, 100.000 €", set()),
        ("más de 500 contratos, over 1000 euros, hasta 2024", set()),
        ("COVID in Q3 of the A4 road", set()),
        ("multi-factor e5 GDPR", set()),
    ],
)
def test_identifiers_are_told_from_numbers(query, found):
    assert named(query).codes == found


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("¿Qué dice la cláusula 8.3?", {"8.3"}),
        ("clausula 8.3 del contrato CT-2025-0091", {"8.3"}),
        ("clause 8.3 and article 12", {"8.3", "12"}),
        ("§ 4.2.1", {"4.2.1"}),
        ("art. 7", {"7"}),
        ("an increase of 8.3 %", set()),
        ("8.3 million euros", set()),
        ("section 8.3%", set()),
        ("in 2025", set()),
    ],
)
def test_clause_numbers_need_a_word_that_says_so(query, found):
    assert named(query).clauses == found


def test_only_the_whole_identifier_counts():
    wanted = named("ERR-403")
    for text, count in [
        ("see ERR-403.", 1),
        ("see ERR-4032", 0),
        ("see XERR-403", 0),
        ("(err-403)", 1),
        ("ERR-403-B", 0),
        ("ERR 403 and ERR403", 1),
    ]:
        assert held(wanted, chunk(text)) == (count, 0), text


def test_the_documents_own_names_count_too():
    wanted = named("CT-2025-0091")
    assert held(wanted, chunk(document_id="CT-2025-0091")) == (1, 0)
    assert held(wanted, chunk(metadata={"contract_id": "CT-2025-0091"})) == (1, 0)


def test_a_clause_comes_before_a_passage_that_mentions_it():
    wanted = named("cláusula 8.3")
    assert held(wanted, chunk("El retraso…", section="8. Penalizaciones > 8.3 Retraso")) == (0, 2)
    assert held(wanted, chunk("8.3 Retraso en la entrega.")) == (0, 2)
    assert held(wanted, chunk("Cláusula 8.3. Retraso")) == (0, 2)
    assert held(wanted, chunk("según lo dicho en la cláusula 8.3 anterior")) == (0, 1)
    for other in ("cláusula 8.31", "cláusula 8.3.1", "el 8.3 %", "cláusula 18.3", "8.30 Otra"):
        assert held(wanted, chunk(other)) == (0, 0), other
