import asyncio
import re
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.ingestion.cutting.chunking import Sizes, Tools
from services.ingestion.cutting.strategies import STRATEGIES, cut
from services.ingestion.parsed import Block, table

ALL = sorted(STRATEGIES)
WINDOW = 160


async def words(texts):
    return [len(text.split()) for text in texts]


async def signs(texts):
    """Like a model's tokenizer: words of up to six letters, other signs one by one, white space for nothing."""
    return [sum(1 + len(part) // 6 for part in re.findall(r"\w+|[^\w\s]", text)) for text in texts]


async def characters(texts):
    """As for a script without spaces."""
    return [sum(not character.isspace() for character in text) for text in texts]


async def letters(texts):
    """Vectors of unit length: how often each letter comes."""
    vectors = []
    for text in texts:
        assert text.strip()
        counts = [text.lower().count(letter) for letter in "abcdeñ"]
        length = sum(count * count for count in counts) ** 0.5 or 1
        vectors.append([count / length for count in counts])
    return vectors


def tools(count=signs, embed=letters, window=WINDOW, rounds=400):
    left = rounds

    async def limited(texts):
        nonlocal left
        left -= 1
        assert left > 0, "cutting does not end"
        return await count(texts)

    return Tools(limited, embed, window)


def ink(text):
    """What can be seen of it."""
    return re.sub("[\\s\u200b\u200d\u00ad\x1c-\x1f]", "", text)


def check(blocks, chunks, sizes, count=signs, window=WINDOW):
    """Every visible character is in some chunk, in order; sizes hold; positions count; each fits the window."""
    assert [chunk.position for chunk in chunks] == list(range(len(chunks)))
    counts = asyncio.run(count([chunk.text for chunk in chunks]))
    assert [chunk.token_count for chunk in chunks] == list(counts)
    assert all(0 < tokens <= sizes.max_tokens for tokens in counts)
    assert all(tokens <= window - 24 for tokens in asyncio.run(count([chunk.embedded for chunk in chunks])))
    assert {chunk.page for chunk in chunks} <= {block.page for block in blocks}
    source = "".join(ink(block.text) for block in blocks)
    covered = 0
    for chunk in chunks:
        without_head = "".join(chunk.text.splitlines(keepends=True)[2:]) if "---" in chunk.text else ""
        texts = [text for text in map(ink, (chunk.text, without_head)) if text]
        ends = [source.rfind(text, 0, covered + len(text)) + len(text)
                for text in texts if text in source[: covered + len(text)]]  # fmt: skip
        assert ends, f"not in the document at its place: {chunk.text!r}"
        covered = max(covered, *ends)
    assert covered == len(source)


def run(strategy, blocks, sizes, count=signs, title="T", window=WINDOW, embed=letters):
    """Cut twice: the same text gives the same chunks."""
    chunks = asyncio.run(cut(blocks, title, strategy, sizes, tools(count, embed, window)))
    assert chunks == asyncio.run(cut(blocks, title, strategy, sizes, tools(count, embed, window)))
    return chunks


word = st.text("abcdeñ", min_size=1, max_size=14)
sentence = st.lists(word, min_size=1, max_size=25).map(lambda words: " ".join(words).capitalize() + ".")
prose = st.lists(sentence, min_size=1, max_size=10).map(" ".join)
line = st.text("abc(){}=; \t", max_size=60)
code = st.lists(line, min_size=1, max_size=30).map("\n".join).filter(lambda text: ink(text) != "")
tables = st.lists(st.lists(word, min_size=3, max_size=3), min_size=1, max_size=30).map(table)
odd = st.text("a。日本語ก็่นéا؟ \n\u200b\u00ad👩‍👧.", min_size=1, max_size=300)
section = st.lists(st.sampled_from(["A", "B", "C"]), max_size=3).map(tuple)
pages = st.integers(0, 3)
block = st.one_of(
    st.builds(Block, prose, st.sampled_from(["paragraph", "list"]), section, pages),
    st.builds(Block, word, st.just("heading"), section, pages),
    st.builds(Block, code, st.just("code"), section, pages),
    st.builds(Block, tables, st.just("table"), section, pages),
    st.builds(Block, odd, st.just("paragraph"), section, pages),
)
blocks = st.lists(block, max_size=12)


@pytest.mark.parametrize(
    "strategy", [pytest.param(one, marks=pytest.mark.slow if one == "code" else ()) for one in ALL]
)
@settings(max_examples=25, deadline=None)
@given(blocks, st.sampled_from([signs, characters]), st.integers(0, 39), st.sampled_from([0, 60, 200]))
def test_no_strategy_loses_a_character_or_breaks_a_size(strategy, blocks, count, overlap, parent):
    sizes = Sizes(20, 40, overlap, parent)
    chunks = run(strategy, blocks, sizes, count)
    check(blocks, chunks, sizes, count)


HARD = {
    "lines and a large overlap": [Block("abc\n" * 50)],
    "a word without end": [Block("x " + "a" * 5_000)],
    "Chinese": [Block("这是一个没有空格的句子。第二句话也没有空格！" * 40)],
    "Thai": [Block("ภาษาไทยไม่มีช่องว่างระหว่างคำ" * 60)],
    "only headings": [Block("One", "heading", ("One",)), Block("Two", "heading", ("Two",))],
    "a table with long cells": [Block(table([["a", "b"], ["x " * 300, "y" * 900], ["1", "2 " * 400]]), "table")],
    "code with long lines": [Block("def f():\n    return [" + "1, " * 2_000 + "]\n" + "z" * 3_000, "code", ("f",))],
    "blank blocks": [Block("  "), Block("\n\n"), Block("\u200b"), Block("Text.")],
    "emoji families": [Block("👩‍👩‍👧‍👦" * 300)],
}


@pytest.mark.parametrize("strategy", ALL)
@pytest.mark.parametrize("count", [words, signs, characters])
@pytest.mark.parametrize("blocks", HARD.values(), ids=HARD.keys())
@pytest.mark.parametrize("sizes", [Sizes(20, 50, 49), Sizes(1, 16, 0), Sizes(50, 50, 25, 200)], ids=str)
def test_every_strategy_ends_on_hard_texts(strategy, blocks, count, sizes):
    chunks = run(strategy, blocks, sizes, count)
    check(blocks, chunks, sizes, count)
    assert len(chunks) <= sum(len(block.text) for block in blocks)


@pytest.mark.parametrize("strategy", ALL)
@pytest.mark.parametrize("blocks", [[], [Block("")], [Block("   "), Block("\n\n\n"), Block("\u200b")]])
def test_blank_documents_have_no_chunks(strategy, blocks):
    assert run(strategy, blocks, Sizes(20, 40, 8)) == []


@pytest.mark.parametrize("strategy", ALL)
def test_headings_without_text_are_still_found(strategy):
    chunks = run(strategy, HARD["only headings"], Sizes(20, 40, 8))
    assert "One" in chunks[0].text
    assert "Two" in chunks[-1].text


@pytest.mark.parametrize("strategy", ALL)
def test_the_end_of_a_long_paragraph_is_in_a_chunk_that_the_model_sees_whole(strategy):
    text = " ".join(f"Sentence {n} speaks of abc." for n in range(180)) + " The spare key is under locker QV-77."
    chunks = run(
        strategy, [Block(text, section=("A very long heading " * 20,))], Sizes(), title="Title " * 50, window=512
    )
    assert "locker QV-77" in chunks[-1].text
    assert max(asyncio.run(signs([chunk.embedded for chunk in chunks]))) <= 512 - 24


@pytest.mark.parametrize("strategy", ALL)
def test_a_context_that_does_not_fit_is_shortened_and_the_text_is_not(strategy):
    blocks = [Block("abc " * 300, section=("Ñ" * 190,))]
    chunks = run(strategy, blocks, Sizes(16, 16, 0), count=characters, title="é" * 190, window=64)
    check(blocks, chunks, Sizes(16, 16, 0), characters, window=64)


@pytest.mark.parametrize("strategy", ALL)
def test_a_small_window_makes_smaller_chunks(strategy):
    blocks = [Block("abc " * 2_000)]
    chunks = run(strategy, blocks, Sizes(200, 350, 40), window=200)
    check(blocks, chunks, Sizes(1, 200 - 96, 0), window=200)


@pytest.mark.parametrize("strategy", ALL)
def test_every_chunk_knows_section_and_page(strategy):
    blocks = [Block(f"{letter} word." * 30, section=("Top", letter), page=n) for n, letter in enumerate("abc", 1)]
    chunks = run(strategy, blocks, Sizes(30, 40, 0))
    assert {chunk.page for chunk in chunks} == {1, 2, 3}
    assert all(chunk.section[:1] == ("Top",) for chunk in chunks)
    assert chunks[0].section == ("Top", "a")


def test_fixed_chunks_are_of_one_size_with_the_overlap_asked_for():
    text = " ".join(f"w{n}" for n in range(1_000))
    chunks = run("fixed", [Block(text)], Sizes(20, 50, 10), words)
    assert {chunk.token_count for chunk in chunks[:-1]} <= {49, 50}
    assert chunks[-1].token_count >= 25
    for before, after in pairwise(chunks):
        assert before.text.split()[-10:] == after.text.split()[:10]


def test_sentences_are_never_torn_and_whole_ones_overlap():
    text = " ".join(f"Number {n} is a sentence of seven words." for n in range(100))
    chunks = run("sentences", [Block(text)], Sizes(20, 40, 10), words)
    assert all(chunk.text.startswith("Number ") and chunk.text.endswith("words.") for chunk in chunks)
    for before, after in pairwise(chunks):
        assert before.text.endswith(after.text[: after.text.index(".") + 1])


def test_recursive_chunks_keep_paragraphs_then_lines_then_sentences():
    short, long = "p " * 15, " ".join(f"Sentence {n} has five words." for n in range(20))
    rows = "\n".join(f"line {n} of some" for n in range(20))
    chunks = run("recursive", [Block(short), Block(short), Block(rows), Block(long)], Sizes(20, 40, 0), words)
    assert chunks[0].text == f"{short.strip()}\n\n{short.strip()}".replace("p\n\n", "p \n\n")
    assert all(chunk.text.startswith("line ") for chunk in chunks if "line" in chunk.text)
    assert all(chunk.text.startswith("Sentence ") for chunk in chunks if "Sentence" in chunk.text)


def test_semantic_chunks_break_where_the_subject_changes():
    about_a = " ".join("Aaa aa aaaa aa." for _ in range(7))
    about_b = " ".join("Bbb bb bbbb bb." for _ in range(9))
    about_c = " ".join("Ccc cc cccc cc." for _ in range(8))
    chunks = run("semantic", [Block(f"{about_a} {about_b} {about_c}")], Sizes(20, 60, 0), words)
    assert [chunk.text for chunk in chunks] == [about_a, about_b, about_c]


def test_semantic_chunks_embed_no_more_windows_than_are_affordable():
    embedded = []

    async def counting(texts):
        embedded.extend(texts)
        return await letters(texts)

    text = " ".join(f"Sentence {n} is short." for n in range(12_000))
    chunks = asyncio.run(cut([Block(text)], "", "semantic", Sizes(100, 200, 0), Tools(words, counting)))
    assert len(embedded) < 2_000
    assert sum(len(one.split()) for one in embedded) < 3.1 * len(text.split())
    assert sum(chunk.token_count for chunk in chunks) == len(text.split())


def test_code_is_cut_between_definitions_and_named_after_them():
    definitions = [
        Block(f"def f{n}(x):\n" + "\n".join(f"    y{m} = x" for m in range(10)), "code", ("m", f"f{n}"))
        for n in range(4)
    ]
    chunks = run("code", definitions, Sizes(20, 40, 0), words)
    assert [chunk.text for chunk in chunks] == [one.text for one in definitions]
    assert [chunk.section for chunk in chunks] == [one.section for one in definitions]


def test_long_definitions_are_cut_at_empty_lines_and_small_ones_share_a_chunk():
    body = "\n\n".join(f"    a{n} = 1\n    b{n} = 2\n    c{n} = 3" for n in range(10))
    blocks = [Block("import a", "code"), Block("import b", "code"), Block("def f():\n" + body, "code", ("f",))]
    chunks = run("code", blocks, Sizes(5, 40, 0), words)
    assert chunks[0].text == "import a\n\nimport b"
    assert all(chunk.text.lstrip().startswith("a") for chunk in chunks[2:])
    assert all(chunk.text.startswith("    ") for chunk in chunks[2:])


@pytest.mark.parametrize("strategy", ["sentences", "recursive", "code"])
def test_small_sections_join_with_their_headings_up_to_the_least_size(strategy):
    blocks = [
        part for name in "abcdef" for part in (Block(name, "heading", (name,)), Block("w " * 10, section=(name,)))
    ]
    chunks = run(strategy, blocks, Sizes(20, 40, 0), words)
    assert [chunk.text.split()[0] for chunk in chunks] == ["a", "d"]
    assert all(chunk.token_count == 33 for chunk in chunks)


def test_a_heading_goes_with_the_long_paragraph_below_it():
    blocks = [
        Block("p " * 30),
        Block("Name", "heading", ("Name",)),
        Block("A sentence of five words. " * 20, section=("Name",)),
    ]
    for strategy in ("sentences", "recursive", "structure"):
        chunks = run(strategy, blocks, Sizes(20, 40, 0), words)
        assert [chunk.text.startswith("Name\nA sentence") for chunk in chunks].count(True) == 1
