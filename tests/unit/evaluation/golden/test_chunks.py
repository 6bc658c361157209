"""Chunks, how they are drawn, linked and looked up."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.evaluation.golden.building.chunk import Chunk, from_folder, from_gateway
from services.evaluation.golden.building.corpus import Corpus, overlap, words
from services.evaluation.golden.building.sampling import for_review, seed_chunks
from services.evaluation.golden.item import Item, Stratum

chunks = st.builds(
    Chunk,
    document=st.sampled_from("abcdef"),
    text=st.text("abcdefg 123", min_size=1, max_size=40),
    section=st.sampled_from(["", "One", "Two > Three"]),
    kind=st.sampled_from(["contracts", "policies"]),
    year=st.sampled_from([0, 2024, 2025]),
)


def test_a_folder_is_cut_at_its_headings(tmp_path):
    (tmp_path / "policies" / "es").mkdir(parents=True)
    text = (
        "# Viajes 2025\n\nPara todos.\n\n## Hotel\n\n**110 EUR** por noche.\n\n### Desayuno\n\nIncluido.\n\n## Coche\n"
    )
    (tmp_path / "policies" / "es" / "viajes.md").write_text(text, encoding="utf-8")
    (tmp_path / "notes.txt").write_text("Only a note.", encoding="utf-8")
    (tmp_path / "image.png").write_bytes(b"\x89PNG")
    found = from_folder(tmp_path, "en")
    assert [(one.document, one.section, one.text) for one in found] == [
        ("notes", "", "Only a note."),
        ("viajes", "Viajes 2025", "Para todos."),
        ("viajes", "Viajes 2025 > Hotel", "**110 EUR** por noche."),
        ("viajes", "Viajes 2025 > Hotel > Desayuno", "Incluido."),
    ]
    assert {(one.language, one.kind, one.year, one.title) for one in found[1:]} == {
        ("es", "policies", 2025, "Viajes 2025")
    }
    assert (found[0].language, found[0].kind, found[0].title) == ("en", tmp_path.name, "notes")


def test_a_passage_of_the_gateway_is_the_part_that_was_matched():
    document = {"language": "es", "metadata": {"year": "2024"}, "created_at": "2026-01-01T00:00:00Z"}
    passage = {
        "document_id": "d",
        "text": "large",
        "matched_text": "small",
        "title": "T",
        "section": "S",
        "collection": "c",
    }
    [found] = from_gateway(document, [passage])
    assert found == Chunk("d", "small", "T", "S", "es", "c", 2024)
    [undated] = from_gateway({"created_at": "2026-01-01T00:00:00Z"}, [{"document_id": "d", "text": "large"}])
    assert (undated.text, undated.year, undated.language) == ("large", 2026, "en")


@pytest.mark.parametrize(
    ("quote", "held"),
    [("110 eur por noche", True), ("El precio: | 110 EUR", True), ("111 EUR", False), ("", False), ("**", False)],
)
def test_a_quote_is_held_but_for_marks_case_and_spaces(quote, held):
    assert Chunk("d", "El precio: **110 EUR**\n por noche.").holds(quote) is held


@settings(max_examples=30)
@given(st.lists(chunks, max_size=20), st.integers(0, 25), st.integers(0, 5))
def test_seed_chunks_are_drawn_without_repeats_and_whatever_the_order(some, count, seed):
    drawn = seed_chunks(some, count, seed, 5)
    assert len({one.text for one in drawn}) == len(drawn) == min(count, len({c.text for c in some if len(c.text) >= 5}))
    assert all(one in some and len(one.text) >= 5 for one in drawn)


@given(st.integers(0, 5))
def test_every_stratum_and_every_document_has_its_turn(seed):
    some = [
        Chunk(f"{kind}{document}", f"{kind} {document} {number}", kind=kind)
        for kind, size in (("many", 40), ("few", 4))
        for document in range(size // 2)
        for number in range(2)
    ]
    drawn = seed_chunks(some, 8, seed, 1)
    assert Counter(one.kind for one in drawn) == {"many": 4, "few": 4}
    assert len({one.document for one in drawn if one.kind == "many"}) == 4
    assert seed_chunks(list(reversed(some)), 8, seed, 1) == drawn


@settings(max_examples=30)
@given(st.lists(chunks, max_size=12), st.integers(0, 6))
def test_linked_chunks_are_of_two_documents_and_in_one_pair_each(some, count):
    corpus = Corpus(list({one.id: one for one in some}.values()))
    halves = {name: "dev" if name < "d" else "test" for name in "abcdef"}
    pairs = corpus.linked(corpus.chunks, count, halves)
    assert len(pairs) <= count
    both = [one.id for pair in pairs for one in pair]
    assert len(set(both)) == len(both)
    assert all(first.document != second.document for first, second in pairs)
    assert all(halves[first.document] == halves[second.document] for first, second in pairs)


def test_what_shares_rare_words_is_linked_and_found():
    filler = [Chunk(f"f{n}", f"The company pays invoices number {n} on time.") for n in range(30)]
    one = Chunk("plan", "Systems return in the order of form OPS-F3, kept in Zaragoza.")
    other = Chunk("desk", "The night shift types form OPS-F3 of Zaragoza in.")
    spanish = Chunk("es", "El formulario OPS-F3 de Zaragoza.", language="es")
    corpus = Corpus([*filler, one, other, spanish])
    assert corpus.linked([one], 5, {}) == [(one, other)]
    assert corpus.nearest("what is OPS-F3?", 3)[0] in (one, other, spanish)
    assert corpus.nearest("¿?", 3) == []


def test_codes_are_words_and_short_words_are_none():
    assert words("El CT-2025-0001, de 5.000 EUR") == {"ct-2025-0001", "5.000", "eur"}
    assert overlap(set(), set()) == 0


def test_items_for_review_are_a_share_with_every_stratum_and_language():
    items = [
        Item(f"{stratum}-{language}-{n}", "?", language, stratum)
        for stratum in (Stratum.SINGLE_HOP, Stratum.UNANSWERABLE)
        for language in ("es", "en")
        for n in range(25 if stratum is Stratum.SINGLE_HOP else 5)
    ]
    drawn = for_review(items, 0.15, 1)
    assert len(drawn) == 9
    assert len({(one.stratum, one.language) for one in drawn}) == 4
    assert for_review(items, 0.15, 1) == drawn
    assert for_review(items, 0, 1) == for_review([], 0.5, 1) == []
    assert len(for_review(items[:2], 0.01, 1)) == 1
