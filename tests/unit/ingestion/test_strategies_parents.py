import asyncio
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.ingestion.cutting.chunking import Sizes, Tools
from services.ingestion.cutting.strategies import STRATEGIES, cut
from services.ingestion.parsed import Block


async def words(texts):
    return [len(text.split()) for text in texts]


async def vectors(texts):
    return [[1.0, 0.0] if len(text) % 2 else [0.0, 1.0] for text in texts]


def run(blocks, sizes, strategy="structure"):
    return asyncio.run(cut(blocks, "T", strategy, sizes, Tools(words, vectors)))


def numbered(*lengths, start=0):
    """Texts of words that count on: `w0 w1 …`."""
    texts = []
    for length in lengths:
        texts.append(" ".join(f"w{n}" for n in range(start, start + length)))
        start += length
    return texts


def numbers(text):
    return [int(number) for number in re.findall(r"\d+", text)]


def test_without_parents_a_chunk_is_read_as_it_is():
    chunks = run([Block(text) for text in numbered(30, 30, 30)], Sizes(20, 40, 0))
    assert {chunk.parent_text for chunk in chunks} == {""}


def test_chunks_of_one_section_share_the_section():
    first, second, third, fourth = numbered(30, 30, 30, 30)
    blocks = [Block(first, section=("A",)), Block(second, section=("A",)), Block(third, section=("B",))]
    chunks = run([*blocks, Block(fourth, section=("B",))], Sizes(20, 40, 0, 80))
    assert [chunk.parent_text for chunk in chunks] == [f"{first}\n\n{second}"] * 2 + [f"{third}\n\n{fourth}"] * 2


def test_small_sections_share_a_parent_and_none_is_torn():
    texts = numbered(30, 30, 30, 30, 30)
    chunks = run(
        [Block(text, section=(name,)) for text, name in zip(texts, "ABCDE", strict=True)], Sizes(20, 40, 0, 100)
    )
    assert [len(numbers(chunk.parent_text)) for chunk in chunks] == [90, 90, 90, 60, 60]


def test_a_parent_that_would_be_the_chunk_itself_is_left_out():
    chunks = run([Block(numbered(30)[0])], Sizes(20, 40, 0, 100))
    assert [chunk.parent_text for chunk in chunks] == [""]


def test_a_long_section_is_divided_evenly_by_its_own_sections_first():
    texts = numbered(*[30] * 8)
    blocks = [Block(text, section=("A", "12345678"[at // 2])) for at, text in enumerate(texts)]
    chunks = run(blocks, Sizes(20, 40, 0, 130))
    assert [numbers(chunk.parent_text)[0] for chunk in chunks] == [0] * 4 + [120] * 4
    chunks = run([Block(text, section=("A",)) for text in texts], Sizes(20, 40, 0, 200))
    assert [len(numbers(chunk.parent_text)) for chunk in chunks] == [120] * 8


def test_overlap_comes_once_in_a_parent():
    sentences = " ".join(f"W{n} w w w w." for n in range(40))
    chunks = run([Block(sentences)], Sizes(20, 40, 12, 100))
    for chunk in chunks:
        assert chunk.text in chunk.parent_text
        assert chunk.parent_text in sentences
    assert len({chunk.parent_text for chunk in chunks}) < len(chunks)


def test_a_part_of_a_table_is_read_below_its_head():
    rows = ["| Item | Price |", "| --- | --- |", *(f"| bolt{n} | {n} |" for n in range(60))]
    chunks = run([Block("\n".join(rows), "table")], Sizes(20, 40, 0, 150))
    for chunk in chunks:
        assert chunk.parent_text.startswith("| Item | Price |\n| --- | --- |\n| bolt")
        assert chunk.parent_text.count("Item") == 1
        assert set(chunk.text.splitlines()) <= set(chunk.parent_text.splitlines())


section = st.lists(st.sampled_from("ABC"), max_size=3).map(tuple)
lengths = st.lists(
    st.tuples(st.integers(1, 90), section, st.sampled_from(["paragraph", "list", "heading"])), max_size=25
)


@pytest.mark.parametrize("strategy", sorted(STRATEGIES))
@settings(max_examples=60, deadline=None)
@given(lengths, st.integers(0, 39), st.integers(41, 400))
def test_parents_are_exact_contiguous_and_bounded(strategy, described, overlap, parent):
    texts = numbered(*(length for length, _, _ in described))
    blocks = [Block(text, kind, section) for text, (_, section, kind) in zip(texts, described, strict=True)]
    chunks = run(blocks, Sizes(20, 40, overlap, parent), strategy)
    firsts = []
    for chunk in chunks:
        read = chunk.parent_text or chunk.text
        assert chunk.text in read
        found = numbers(read)
        assert found == list(range(found[0], found[-1] + 1))
        assert len(found) <= parent
        firsts.append(found[0])
    assert firsts == sorted(firsts)
