"""The demo's files open with the usual readers, and say what the tables say."""

import io
import re
from collections import Counter, defaultdict
from functools import cache

import docx
import pdfplumber
import pytest
from bs4 import BeautifulSoup

from demo import contracts, documents
from demo.formats import WRITERS, blocks
from demo.world import generate, read_wording

WORLD = generate()
DEMO = documents.of_tenant("demo")
CONTRACTS = [document for document in DEMO if document.collection == "contracts"]


def _docx_text(content):
    document = docx.Document(io.BytesIO(content))
    cells = [cell.text for table in document.tables for row in table.rows for cell in row.cells]
    return "\n".join([paragraph.text for paragraph in document.paragraphs] + cells)


def _pdf_text(content):
    with pdfplumber.open(io.BytesIO(content)) as pdf:
        return "\n".join(page.extract_text() for page in pdf.pages)


def text_of(document):
    """What a reader sees, white space evened out."""
    return _text_of(document.filename, document.content)


@cache
def _text_of(filename, content):
    match filename.rpartition(".")[2]:
        case "pdf":
            text = _pdf_text(content)
        case "docx":
            text = _docx_text(content)
        case "html":
            text = BeautifulSoup(content, "lxml").main.get_text("\n")
        case _:
            text = content.decode()
    return re.sub(r"[\s*|]+", " ", text)


@pytest.mark.parametrize("document", CONTRACTS, ids=lambda document: document.filename)
def test_a_contract_document_states_what_the_tables_hold(document):
    contract = WORLD.contract(document.metadata["contract_id"])
    provider, language, text = WORLD.provider(contract), contract.language, text_of(document)
    for fact in (
        contract.id,
        contract.title,
        provider.name,
        contracts.money(contract.amount, language),
        contracts.day(contract.signed_on, language),
        contracts.country_name(provider.country, language),
    ):
        assert fact in text
    instalments = sum(payment.contract_id == contract.id for payment in WORLD.payments)
    assert f"{instalments} {'pagos' if language == 'es' else 'instalments'}" in text
    assert document.metadata["region"] == provider.region_code
    assert document.metadata["year"] == str(contract.signed_on.year)
    assert document.language == language


@pytest.mark.parametrize("document", CONTRACTS, ids=lambda document: document.filename)
def test_a_contract_document_has_its_ten_clauses_and_exactly_its_special_conditions(document):
    wording, text = read_wording(), text_of(document)
    language = document.language
    for clause in wording[language]["clauses"]:
        assert clause["heading"] in text
    kinds = WORLD.conditions[document.metadata["contract_id"]]
    for kind, condition in wording["conditions"].items():
        listed = condition[language]["short"] in text
        spelt_out = any(wording_of.strip() in text for wording_of in condition[language]["texts"])
        assert (listed, spelt_out) == (kind in kinds, kind in kinds), kind
    assert text.count(f"({wording[language]['special']['mark']}).") == len(kinds)
    assert "{" not in text


def test_recurring_conditions_are_worded_in_several_ways():
    seen = defaultdict(set)
    for document in CONTRACTS:
        for kind in ("penalty_2", "cpi_capped"):
            texts = read_wording()["conditions"][kind][document.language]["texts"]
            seen[kind, document.language] |= {index for index, text in enumerate(texts) if text in text_of(document)}
    assert all(len(indexes) >= 2 for indexes in seen.values())
    assert len(seen) == 4


def test_both_languages_come_in_all_formats():
    for collection in ("contracts", "policies"):
        kinds = {(d.language, d.filename.rpartition(".")[2]) for d in DEMO if d.collection == collection}
        assert kinds == {(language, kind) for language in ("es", "en") for kind in WRITERS}


def test_the_demo_tenant_has_26_contracts_and_12_policies():
    assert Counter(document.collection for document in DEMO) == {"contracts": 26, "policies": 12}
    assert len({document.document_id for document in DEMO}) == 38
    assert all(document.title and document.content for document in DEMO)


def test_files_have_the_same_bytes_each_time():
    again = documents.of_tenant.__wrapped__("demo")
    assert [document.content for document in again] == [document.content for document in DEMO]


def test_word_files_have_real_headings_and_a_table():
    document = next(document for document in CONTRACTS if document.filename.endswith(".docx"))
    opened = docx.Document(io.BytesIO(document.content))
    styles = Counter(paragraph.style.name for paragraph in opened.paragraphs)
    assert styles["Title"] == 1
    assert styles["Heading 1"] == 11
    assert len(opened.tables) == 1
    assert opened.core_properties.title == document.title


def test_policies_are_in_the_language_that_they_claim():
    for document in DEMO:
        if document.collection == "policies":
            assert ("Responsable:" in text_of(document)) == (document.language == "es")
            assert ("Owner:" in text_of(document)) == (document.language == "en")


def test_small_tenants_share_no_document_with_the_demo_company():
    for tenant in ("other", "tiny"):
        for document in documents.of_tenant(tenant):
            assert document.collection == "documents"
            assert "Alisal" not in text_of(document)
    with pytest.raises(KeyError, match="known are demo, other, tiny"):
        documents.of_tenant("nobody")


def test_clauses_are_of_the_length_of_a_passage():
    markdown = contracts.write(WORLD, WORLD.contract(CONTRACTS[0].document_id))
    pieces = [len(piece.split()) for piece in markdown.split("\n## ")]
    assert all(8 <= length <= 200 for length in pieces)


def test_blocks_keep_headings_lists_tables_and_bold():
    found = list(blocks("# A\n\n**b** c\nd\n\n- e\n- f\n\n| g | h |\n| --- | --- |\n| i | j |\n"))
    assert [block.kind for block in found] == ["h1", "paragraph", "list", "table"]
    assert [block.texts for block in found] == [["A"], ["**b** c d"], ["e", "f"], []]
    assert found[3].rows == [["g", "h"], ["i", "j"]]


def test_everything_can_be_written_out_to_look_at(tmp_path, capsys):
    assert documents.main([str(tmp_path)]) == 0
    assert "43 documents" in capsys.readouterr().out
    written = sorted(path for path in tmp_path.rglob("*") if path.is_file() and path.name != "manifest.json")
    assert len(written) == 43
    assert documents.main([]) == 64


def test_money_and_dates_are_written_as_readers_expect():
    amount = WORLD.contract("CT-2025-0052").amount
    assert contracts.money(amount, "es") == "322.500,00 €"
    assert contracts.money(amount, "en") == "€322,500.00"
