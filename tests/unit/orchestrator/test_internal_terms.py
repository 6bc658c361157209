import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.orchestrator.internal_terms import MAX_TERMS, internal_terms
from services.orchestrator.results import Passage, Passages, Rows


def passages(*texts):
    return Passages(tuple(Passage("doc", "1", "Contract", "c.pdf", 1, "", "en", text) for text in texts))


def rows(*values):
    return Rows("SELECT", "[]", ("a",), tuple((value,) for value in values))


INTERNAL = [
    passages("Contract CT-2025-0091 with ana.garcia@acme.example, account ES9121000418450200051332."),
    rows("INV/2024/118", 8312456.07, "12345678Z", 47, None, True),
]


@pytest.mark.parametrize(
    ("query", "term"),
    [
        ("news about CT-2025-0091", "CT-2025-0091"),
        ("news about ct-2025-0091?", "CT-2025-0091"),
        ("C T - 2 0 2 5 - 0 0 9 1 supplier", "CT-2025-0091"),
        ("ct20250091", "CT-2025-0091"),
        ("ＣＴ‑2025‑0091", "CT-2025-0091"),
        ("who is ana.garcia@acme.example", "ana.garcia@acme.example"),
        ("iban ES91 2100 0418 4502 0005 1332", "ES9121000418450200051332"),
        ("factura INV/2024/118", "INV/2024/118"),
        ("8.312.456,07 euros", "8312456"),
        ("8,312,456 EUR deal", "8312456"),
        ("dni 12345678-Z", "12345678Z"),
    ],
)
def test_what_only_the_company_knows_is_found_in_whatever_form_it_is_written(query, term):
    assert internal_terms(INTERNAL, [], query)[0] == term


def test_a_code_of_an_earlier_answer_is_internal_too():
    assert internal_terms([], ["It is contract CT-2025-0091."], "CT-2025-0091 supplier") == ("CT-2025-0091",)


def test_a_code_that_nothing_inside_names_is_none():
    assert internal_terms([], [], "CT-2025-0091 supplier") == ()


@pytest.mark.parametrize(
    "text",
    [
        "ISO 27001:2022 and ISO-27001, IEC 62443, UNE-EN 12345",
        "CVE-2024-3094, RFC 9309, BOE-A-2015-10565, ISBN 978-84-376-0494-7",
        "Ley 39/2015, Real Decreto 1720/2007, Reglamento (UE) 2016/679, Directive 2014/24",
        "2025, 2024/2025, 2025-11-01, 01/11/2025, 2025-11-01T10:00:00Z, Q3-2025, 3T2025, FY2025, 2025s",
        "Python 3.11.7, COVID-19, H100-80GB, Llama-3.1-70B, B2B, 5G, 100k€, 1.500.000 €, 100000",
        "Acme S.A., García, Madrid, penalty, +34",
    ],
)
def test_what_is_public_is_no_term_even_where_our_documents_name_it(text):
    assert internal_terms([passages(text)], [], text) == ()


def test_the_terms_of_the_query_come_first_and_all_are_bounded():
    found = [rows(*(f"CT-2025-{number:04}" for number in range(200)))]
    terms = internal_terms(found, [], "CT-2025-0150 and CT-2025-0007")
    assert set(terms[:2]) == {"CT-2025-0150", "CT-2025-0007"}
    assert len(terms) == MAX_TERMS


def test_a_large_result_takes_little_time():
    found = [rows(*(f"CT-2025-{number:06} is a contract" for number in range(100_000)))]
    started = time.perf_counter()
    internal_terms(found, [], "CT-2025-000001")
    assert time.perf_counter() - started < 15


@given(st.text(), st.text())
def test_no_text_breaks_it(text, query):
    terms = internal_terms([passages(text)], [query], query)
    assert all(term for term in terms)


@pytest.mark.parametrize("word", ["a", "a.", "a1b2c3d4e5", "a@", "a@b.", "é-"])
def test_a_word_without_end_costs_bounded_time_and_gives_terms_that_the_web_tool_takes(word):
    since = time.process_time()
    terms = internal_terms([passages(word * (60_000 // len(word)))], (), "query")
    assert time.process_time() - since < 10
    assert all(len(term) <= 200 for term in terms)


def test_the_beginning_of_a_very_long_code_is_known():
    code = "a1b2c3d4e5" * 60
    assert internal_terms([passages(code)], (), f"what is {code[:300]}") == (code[:200],)
