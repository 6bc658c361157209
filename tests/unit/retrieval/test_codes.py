import pytest

from services.retrieval.codes import codes, held
from services.retrieval.store import StoredChunk


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("¿Qué penalización tiene el contrato CT-2025-0091?", {"ct-2025-0091"}),
        ("ERR4032 or err-4032", {"err4032", "err-4032"}),
        ("policy SEC-014, version FIN-011/b", {"sec-014", "fin-011/b"}),
        ("contracts above 100k€ in 2025, clause 8.3, from 2025-01-01, 100.000 €", set()),
        ("COVID in Q3 of the A4 road", set()),
        ("multi-factor e5 GDPR", set()),
    ],
)
def test_identifiers_are_told_from_numbers(query, found):
    assert codes(query) == found


def test_only_the_whole_identifier_counts():
    wanted = codes("ERR-403")
    for text, count in [
        ("see ERR-403.", 1),
        ("see ERR-4032", 0),
        ("see XERR-403", 0),
        ("(err-403)", 1),
        ("ERR-403-B", 0),
    ]:
        assert held(wanted, StoredChunk("d", 0, text, "c")) == count, text


def test_the_documents_own_names_count_too():
    wanted = codes("CT-2025-0091")
    assert held(wanted, StoredChunk("CT-2025-0091", 0, "text", "c")) == 1
    assert held(wanted, StoredChunk("d", 0, "text", "c", metadata={"contract_id": "CT-2025-0091"})) == 1
