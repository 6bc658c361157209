"""Terms, codes and endings of the sparse weights."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.embedding import sparse


def terms(text, language="es"):
    return set(sparse.weigh_query(text, language).indices)


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


def test_without_a_language_nothing_is_stemmed_or_left_out():
    assert terms("contratos", "") != terms("contrato", "")
    assert len(terms("de la casa", "")) == 3


def test_stop_words_carry_no_weight():
    assert terms("de la", "es") == terms("the of", "en") == set()


@pytest.mark.parametrize("code", ["CT-2025-0001", "ERR-4032", "8.3", "v2.10", "A/12", "2025-01-31", "8.3.1"])
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
@pytest.mark.parametrize("text", ["1" * 200_000, "a-1" * 50_000, "a." * 100_000 + "1", "á" * 200_000, "_-" * 100_000])
def test_long_runs_cost_linear_time(text):
    sparse.normalise(text, "pt")


@settings(max_examples=60, deadline=None)
@given(text=st.text(max_size=200), language=st.sampled_from(["", "es", "en", "pt", "pl"]))
def test_any_text_has_each_term_once_with_a_positive_weight(text, language):
    for weights in (sparse.weigh_query(text, language), sparse.weigh_document(text, language)):
        assert len(set(weights.indices)) == len(weights.indices) == len(weights.values)
        assert all(value > 0 for value in weights.values)
