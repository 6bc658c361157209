import time

import pytest

from services.ingestion.parsers.clauses import clause
from services.ingestion.parsers.parse_text import parse_text


@pytest.mark.parametrize(
    ("text", "depth", "heading", "whole"),
    [
        ("7. Precio", 1, "7. Precio", True),
        ("7) Precio", 1, "7) Precio", True),
        ("8.3 Late delivery", 2, "8.3 Late delivery", True),
        ("8.3. Late delivery", 2, "8.3. Late delivery", True),
        ("8.3 Late delivery. The provider pays 2 % a month.", 2, "8.3 Late delivery", False),
        ("8.3.1 Cap: ten per cent", 3, "8.3.1 Cap", False),
        ("Cláusula 8.3 Penalización por retraso", 2, "Cláusula 8.3 Penalización por retraso", True),
        ("CLÁUSULA PRIMERA.- Objeto", 1, "CLÁUSULA PRIMERA.- Objeto", True),
        ("PRIMERA.- OBJETO DEL CONTRATO", 1, "PRIMERA.- OBJETO DEL CONTRATO", True),
        ("Artículo 12. Plazo de entrega", 1, "Artículo 12. Plazo de entrega", True),
        ("Article IV – Termination", 1, "Article IV – Termination", True),
        ("2.1 The contract takes effect on the day of its signature and runs for 24 months.", 2, "2.1", False),
        ("ANEXO A", 1, "ANEXO A", True),
        ("Section 2.1: Payment", 2, "Section 2.1: Payment", True),
    ],
)
def test_a_clause_is_known_by_its_number(text, depth, heading, whole):
    found = clause(text)
    assert found is not None
    assert (found.depth, found.heading, found.whole) == (depth, heading, whole)


@pytest.mark.parametrize(
    "text",
    [
        "10 March 2025",
        "2025. Un año bueno",
        "3.5 million people",
        "12.05.2025 Madrid",
        "Section of the road",
        "anexo III.",
        "La primera vez",
        "Anexo al contrato",
        "100 EUR",
        "",
        "1.",
    ],
)
def test_ordinary_text_is_no_clause(text):
    assert clause(text) is None


def test_a_clause_without_a_title_is_called_by_its_number():
    long = (
        "8.3 If the provider delivers later than agreed the client may deduct two per cent of the price for each month"
    )
    found = clause(long + " of delay that has begun.")
    assert (found.heading, found.whole) == ("8.3", False)


def test_text_keeps_its_clause_and_the_clauses_above():
    parsed = parse_text(
        "CONTRATO\n\n8. Entrega\n8.1 Plazo. Treinta días.\n8.3 Retraso\nUn 2 % al mes.\n\nHasta el 10 %.\n"
        "9. Precio\nFijo."
    )
    assert [(block.text, block.kind, block.section) for block in parsed.blocks] == [
        ("CONTRATO", "paragraph", ()),
        ("8. Entrega", "heading", ("8. Entrega",)),
        ("8.1 Plazo. Treinta días.", "paragraph", ("8. Entrega", "8.1 Plazo")),
        ("8.3 Retraso", "heading", ("8. Entrega", "8.3 Retraso")),
        ("Un 2 % al mes.", "paragraph", ("8. Entrega", "8.3 Retraso")),
        ("Hasta el 10 %.", "paragraph", ("8. Entrega", "8.3 Retraso")),
        ("9. Precio", "heading", ("9. Precio",)),
        ("Fijo.", "paragraph", ("9. Precio",)),
    ]


def test_a_line_that_was_broken_for_its_length_begins_no_clause():
    parsed = parse_text("El proveedor responde de los daños que cause conforme a lo que dice el\nArtículo 5 del anexo.")
    assert [block.section for block in parsed.blocks] == [()]


@pytest.mark.parametrize("text", ["1." * 50_000, "8.3 " + "A" * 100_000, "Artículo " * 20_000, "\n \n" * 50_000])
def test_no_text_takes_long(text):
    started = time.perf_counter()
    parse_text(text)
    assert time.perf_counter() - started < 15
