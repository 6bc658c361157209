import asyncio
import re
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.ingestion.cutting import strategies
from services.ingestion.cutting.chunking import Chunking, Sizes, Tools
from services.ingestion.parsed import Block
from services.ingestion.parsers.parse_text import parse_text

SIZES = Sizes(min_tokens=20, max_tokens=40, overlap_tokens=8)


async def words(texts):
    return [len(text.split()) for text in texts]


async def pieces(texts):
    """Like a model's tokenizer: a long word is several tokens, and so is a mark."""
    return [sum(1 + len(part) // 6 for part in re.findall(r"\w+|[^\w\s]", text)) for text in texts]


async def no_vectors(texts):
    raise AssertionError("only the semantic strategy embeds")


async def cut(blocks, title, sizes, count):
    return await strategies.cut(blocks, title, "structure", sizes, Tools(count, no_vectors))


def block(text, *section, kind="paragraph", page=0):
    return Block(text, kind, section, page)


def many(word, count):
    return " ".join(f"{word}{number}" for number in range(count))


async def test_a_small_document_is_one_chunk():
    chunks = await cut([block("One."), block("Two.")], "Title", SIZES, words)
    assert [(c.text, c.context, c.position, c.token_count) for c in chunks] == [("One.\n\nTwo.", "Title", 0, 2)]
    assert chunks[0].embedded == "Title\nOne.\n\nTwo."


async def test_a_clause_stays_whole_where_it_fits():
    blocks = [block(f"8.{n} " + many("w", 24), "8. Entrega", f"8.{n}") for n in range(5)]
    chunks = await cut(blocks, "", SIZES, words)
    assert [chunk.text for chunk in chunks] == [one.text for one in blocks]


async def test_small_sections_join_below_one_heading_only():
    blocks = [
        block("7. Precio", "7. Precio", kind="heading"),
        block(many("a", 10), "7. Precio", "7.1"),
        block(many("b", 10), "7. Precio", "7.2"),
        block(many("c", 10), "8. Entrega", "8.1"),
    ]
    sizes = Sizes(min_tokens=15, max_tokens=40, overlap_tokens=0)
    chunks = await cut(blocks, "", sizes, words)
    assert [chunk.section for chunk in chunks] == [("7. Precio",), ("8. Entrega", "8.1")]
    assert chunks[0].text == f"7. Precio\n{many('a', 10)}\n\n{many('b', 10)}"


async def test_a_section_with_a_heading_of_its_own_is_cited_by_its_name():
    blocks = [
        block("10. Law", "Contract", "10. Law", kind="heading"),
        block(many("a", 15), "Contract", "10. Law"),
        block("Special conditions", "Contract", "Special conditions", kind="heading"),
        block(many("b", 15), "Contract", "Special conditions"),
    ]
    chunks = await cut(blocks, "", Sizes(min_tokens=30, max_tokens=60, overlap_tokens=0), words)
    assert [chunk.section[-1] for chunk in chunks] == ["Contract"]
    chunks = await cut(blocks, "", Sizes(min_tokens=16, max_tokens=60, overlap_tokens=0), words)
    assert [chunk.section[-1] for chunk in chunks] == ["10. Law", "Special conditions"]


async def test_a_heading_is_never_left_without_its_text():
    blocks = [block(many("a", 30), "A"), block("B", "B", kind="heading"), block(many("b", 30), "B", "C")]
    chunks = await cut(blocks, "", SIZES, words)
    assert [chunk.text.split()[0] for chunk in chunks] == ["a0", "B"]
    assert chunks[1].section == ("B", "C")


async def test_context_names_what_the_text_does_not():
    blocks = [
        block("8.3 Retraso", "8. Entrega", "8.3 Retraso", kind="heading"),
        block("Un 2 %.", "8. Entrega", "8.3 Retraso"),
    ]
    (chunk,) = await cut(blocks, "Contrato", SIZES, words)
    assert chunk.context == "Contrato > 8. Entrega"


async def test_a_long_context_is_shortened():
    (chunk,) = await cut([block("Text.", many("section", 200), "b", "c")], many("title", 200), SIZES, words)
    assert len(chunk.context) <= 210


async def test_a_long_paragraph_is_cut_between_sentences_with_overlap():
    sentences = [f"S{n} " + many("w", 6) + "." for n in range(20)]
    chunks = await cut([block(" ".join(sentences))], "", SIZES, words)
    for before, after in pairwise(chunks):
        assert after.text.startswith("S")
        assert before.text.endswith(after.text.split(". ")[0] + ".")
    assert len(chunks) > 3


async def test_a_long_table_repeats_its_head():
    rows = ["| Item | Price |", "| --- | --- |", *(f"| bolt{n} | {n} |" for n in range(40))]
    chunks = await cut([block("\n".join(rows), kind="table")], "", SIZES, words)
    assert len(chunks) > 3
    assert all(chunk.text.startswith("| Item | Price |\n| --- | --- |\n| bolt") for chunk in chunks)


async def test_a_chunk_knows_the_page_on_which_it_begins():
    blocks = [block(many("a", 30), page=1), block(many("b", 30), page=2), block(many("c", 5), page=3)]
    assert [chunk.page for chunk in await cut(blocks, "", SIZES, words)] == [1, 2]


async def test_words_without_spaces_are_cut_too():
    chunks = await cut([block("x" * 20_000)], "", SIZES, pieces)
    assert "".join(chunk.text for chunk in chunks) == "x" * 20_000
    assert max(chunk.token_count for chunk in chunks) <= 40


def test_an_overlap_as_large_as_a_chunk_is_an_error():
    with pytest.raises(ValueError, match="overlap_tokens must be smaller than max_tokens"):
        Sizes(10, 40, 40)
    with pytest.raises(ValueError, match="min_tokens must be above 0 and not above max_tokens"):
        Sizes(50, 40, 0)
    with pytest.raises(ValueError, match="parent_tokens must be above max_tokens"):
        Sizes(10, 40, 0, parent_tokens=40)


@pytest.mark.parametrize(
    ("settings", "sizes"),
    [
        (Chunking(), Sizes(200, 350, 40)),
        (Chunking(max_tokens=100), Sizes(100, 100, 25)),
        (Chunking(max_tokens=500), Sizes(200, 500, 40)),
        (Chunking(min_tokens=400), Sizes(400, 400, 40)),
        (Chunking(overlap_tokens=0), Sizes(200, 350, 0)),
        (Chunking(overlap_tokens=349), Sizes(200, 350, 349)),
        (Chunking(parent_tokens=400), Sizes(200, 200, 40, 400)),
        (Chunking(parent_tokens=2000), Sizes(200, 350, 40, 2000)),
        (Chunking(parent_tokens=100), Sizes(50, 50, 12, 100)),
        (Chunking(max_tokens=120, min_tokens=20, overlap_tokens=7, parent_tokens=900), Sizes(20, 120, 7, 900)),
    ],
)
def test_what_a_collection_leaves_open_gives_way_to_what_it_says(settings, sizes):
    assert settings.sizes(Sizes(200, 350, 40)) == sizes


@pytest.mark.parametrize(
    "settings",
    [
        Chunking(max_tokens=50, overlap_tokens=50),
        Chunking(overlap_tokens=350),
        Chunking(max_tokens=50, min_tokens=60),
        Chunking(max_tokens=200, parent_tokens=150),
        Chunking(overlap_tokens=-1),
    ],
)
def test_settings_that_contradict_each_other_are_an_error_that_names_them(settings):
    with pytest.raises(ValueError, match="_tokens must be"):
        settings.sizes(Sizes(200, 350, 40))


def test_a_small_window_makes_small_chunks():
    sizes = Sizes(200, 350, 40).within(256)
    assert (sizes.min_tokens, sizes.max_tokens, sizes.overlap_tokens) == (160, 160, 40)
    assert Sizes(200, 350, 40).within(512) == Sizes(200, 350, 40)


word = st.text("abcdeñ", min_size=1, max_size=12)
sentence = st.lists(word, min_size=1, max_size=30).map(lambda words: " ".join(words).capitalize() + ".")
paragraph = st.lists(sentence, min_size=1, max_size=8).map(" ".join)
section = st.lists(st.sampled_from(["A", "B", "C"]), max_size=3).map(tuple)
kinds = st.sampled_from(["paragraph", "heading", "list", "table"])
blocks = st.lists(st.builds(Block, paragraph, kinds, section, st.integers(0, 3)), max_size=12)


@settings(max_examples=60, deadline=None)
@given(blocks, st.sampled_from([words, pieces]), st.integers(0, 39))
def test_nothing_is_lost_sizes_hold_and_order_is_kept(blocks, count, overlap):
    numbered = []
    total = 0
    for one in blocks:
        marked = []
        for token in one.text.split():
            marked.append(f"{token}{total}")
            total += 1
        numbered.append(Block(" ".join(marked), one.kind, one.section, one.page))
    sizes = Sizes(20, 40, overlap)
    chunks = asyncio.run(cut(numbered, "T", sizes, count))
    assert [chunk.position for chunk in chunks] == list(range(len(chunks)))
    assert all(0 < chunk.token_count <= 40 for chunk in chunks)
    order = [int(number) for chunk in chunks for number in re.findall(r"\d+", chunk.text)]
    assert set(order) == set(range(total))
    first_seen = list(dict.fromkeys(order))
    assert first_seen == sorted(first_seen)
    pages = {one.page for one in blocks}
    assert all(chunk.page in pages for chunk in chunks)


async def test_a_contract_is_cut_by_clauses():
    contract = "\n\n".join(
        f"{n}. Condición {n}\n\n{n}.1 Primera. {many('uno', 20)}\n\n{n}.2 Segunda. {many('dos', 25)}" for n in (1, 2)
    )
    chunks = await cut(parse_text(contract).blocks, "", SIZES, words)
    assert [chunk.section[-1] for chunk in chunks] == ["1.1 Primera", "1.2 Segunda", "2.1 Primera", "2.2 Segunda"]
