"""Terms, codes and endings of the sparse weights."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.embedding import sparse


def terms(text, language="es"):
    return set(sparse.weigh_query(text, language).indices)


def document_terms(text, language="es"):
    return set(sparse.weigh_document(text, language).indices)


@pytest.mark.parametrize(
    ("language", "one", "other"),
    [
        ("es", "penalización", "penalizaciones"),
        ("es", "penalizacion", "PENALIZACIÓN"),
        ("es", "resolucion", "resoluciones"),
        ("es", "contrato", "contratos"),
        ("es", "tecnologia", "tecnologías"),
        ("en", "contract", "contracts"),
        ("pt", "penalização", "penalizações"),
        ("pt", "solucao", "soluções"),
        ("fr", "pénalité", "penalites"),
        ("it", "contratto", "contratti"),
        ("de", "Verträge", "vertrage"),
        ("", "contratación", "CONTRATACION"),
    ],
)
def test_forms_of_a_word_are_one_term(language, one, other):
    assert terms(one, language) == terms(other, language) != set()


def test_composed_and_decomposed_letters_are_one_term():
    assert terms("contratacio\u0301n") == terms("contratación")
    assert terms("\ufb01cha") == terms("ficha")
    assert terms("\uff21\uff22\uff11") == terms("AB1")
    assert terms("contra\u00adtación\u200b") == terms("contratación")


def test_without_a_language_nothing_is_stemmed_or_left_out():
    assert terms("contratos", "") != terms("contrato", "")
    assert len(terms("de la casa", "")) == 3


def test_stop_words_carry_no_weight():
    assert terms("de la", "es") == terms("the of", "en") == set()


@pytest.mark.parametrize(
    "code", ["CT-2025-0001", "ERR-4032", "8.3", "v2.10", "A/12", "2025-01-31", "8.3.1", "KX-450-B"]
)
def test_a_code_is_a_term_of_its_own_beside_its_parts(code):
    found = terms(code)
    parts = set().union(*(terms(part) for part in code.replace("/", "-").replace(".", "-").split("-")))
    assert parts < found
    assert len(found) == len(parts) + 1
    assert found == terms(f"({code.lower()}).")
    assert found <= terms(f"Según la cláusula {code}, se aplica.")


def test_a_code_in_other_order_shares_only_the_parts():
    assert terms("8.3") & terms("3.8") == terms("8 3")
    assert len(terms("ERR-4032") & terms("ERR-4023")) == 1


@pytest.mark.parametrize("hyphen", "\u2010\u2011\u2012\u2013\u2212\uff0d")
def test_hyphens_of_all_kinds_join_a_code(hyphen):
    assert document_terms(f"KX{hyphen}450{hyphen}B") == document_terms("KX-450-B")


@pytest.mark.parametrize("written", ["err 4032", "ERR 4032", "err4032", "ERR-4032", "err_4032", "err/4032"])
def test_a_code_is_found_however_the_search_writes_it(written):
    documents = {
        code: document_terms(f"El error {code} aparece al enviar.") for code in ("ERR-4032", "ERR-4023", "ERR-403")
    }
    shared = {code: len(terms(written) & found) for code, found in documents.items()}
    assert max(shared, key=shared.get) == "ERR-4032"
    assert sorted(shared.values())[-1] > sorted(shared.values())[-2]


def test_an_unknown_code_shares_no_whole_code():
    whole = terms("ERR-4032") - terms("err") - terms("4032")
    assert not whole & terms("ERR-4999")
    assert len(terms("ERR-4999") & terms("ERR-4032")) == 1


def test_a_word_before_a_year_is_a_code_in_a_search_only():
    assert document_terms("firmado en 2025") == document_terms("firmado 2025")
    assert len(document_terms("ISO 9001") & terms("iso-9001")) == 3


@pytest.mark.parametrize(
    "written",
    ["cláusula 8.3", "clausula 8.3", "Cláusula n.º 8.3", "clause 8.3", "CLAUSE 8.3", "§ 8.3", "§8.3", "section 8.3"],
)
def test_a_clause_number_is_one_term_in_any_language(written):
    clause = terms("cláusula 8.3") - terms("8.3") - terms("cláusula")
    assert len(clause) == 1
    assert clause | terms("8.3") <= terms(written)
    assert not clause & terms(written.replace("8.3", "8.4"))


@pytest.mark.parametrize("written", ["art. 12", "artículo 12", "Article 12", "art 12", "Artikel 12", "artigo 12"])
def test_an_article_number_stands_out_among_other_numbers(written):
    article = terms("art. 12") - terms("art") - terms("12")
    assert len(article) == 1
    assert article <= document_terms(f"Según el {written}, cabe recurso.")
    assert not article & document_terms("El artículo 3 rige 12 meses.")


@pytest.mark.parametrize(
    ("language", "text", "part", "other"),
    [
        ("zh", "合同约定的违约金为百分之二", "违约金", "保险单"),
        ("ja", "契約違反の罰金は二パーセントです", "罰金", "保険"),
        ("ko", "계약위반에대한벌금은2퍼센트입니다", "벌금", "보험"),
        ("th", "ค่าปรับสำหรับการส่งมอบล่าช้าคือสองเปอร์เซ็นต์", "ส่งมอบ", "ประกัน"),
        ("ar", "غرامة التأخير في التسليم", "التأخير", "التأمين"),
    ],
)
def test_a_word_is_found_in_a_script_without_spaces(language, text, part, other):
    found = document_terms(text, language)
    assert terms(part, language) <= found
    assert not terms(other, language) <= found


def test_joined_words_without_digits_are_no_code():
    assert terms("bien-estar") == terms("bien estar")


def test_a_repeated_word_weighs_more_in_a_document_and_the_same_in_a_query():
    document = sparse.weigh_document("penalización penalización demora", "es")
    assert max(document.values) > min(document.values) > 0
    assert set(sparse.weigh_query("penalización penalización demora", "es").values) == {1.0}


def test_a_language_without_a_stemmer_is_indexed_as_it_is():
    assert terms("umowa", "pl") == terms("umowa", "")


@pytest.mark.parametrize("language", ["spanish", "zz", "ES", "e"])
def test_an_unknown_language_is_refused(language):
    with pytest.raises(sparse.UnknownLanguage, match="ISO 639-1"):
        sparse.weigh_query("contrato", language)


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "text",
    [
        "1" * 200_000,
        "a-1" * 50_000,
        "a." * 100_000 + "1",
        "á" * 200_000,
        "_-" * 100_000,
        "同" * 200_000,
        "art " * 50_000,
        "§" * 200_000,
        "AB " * 70_000 + "12",
        "clause. " * 30_000,
    ],
)
def test_long_runs_cost_linear_time(text):
    sparse.normalise(text, "pt")


@settings(max_examples=60, deadline=None)
@given(text=st.text(max_size=200), language=st.sampled_from(["", "es", "en", "pt", "pl"]))
def test_any_text_has_each_term_once_with_a_positive_weight(text, language):
    for weights in (sparse.weigh_query(text, language), sparse.weigh_document(text, language)):
        assert len(set(weights.indices)) == len(weights.indices) == len(weights.values)
        assert all(value > 0 for value in weights.values)
