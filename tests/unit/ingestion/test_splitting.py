import time
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.ingestion.cutting import splitting

SIGNS = "ab .!?\nÁ1。语ก็é👩\u200d\u0301\r\t"


@given(st.text(SIGNS, max_size=300))
def test_cuts_lose_no_character(text):
    for cut in (splitting.sentences, splitting.lines, splitting.paragraphs, splitting.words):
        assert "".join(cut(text)) == text
        assert all(cut(text))
    assert "".join(splitting.bounded(text * 20)) == text * 20
    if len(text) > 1:
        halves = splitting.halves(text)
        assert "".join(halves) == text
        assert all(halves)


@given(st.text(SIGNS, min_size=1, max_size=300).map(lambda text: text * 40))
def test_no_sentence_or_line_is_longer_than_what_is_counted(text):
    assert max(map(len, splitting.sentences(text))) <= splitting.LONGEST_COUNTED
    assert max(map(len, splitting.lines(text))) <= splitting.LONGEST_COUNTED


def test_abbreviations_and_numbers_end_no_sentence():
    text = "Según el art. 5 y el Sr. García. La cláusula 7. Precio dice más. ¿Cuánto? 2 %."
    assert [part.strip() for part in splitting.sentences(text)] == [
        "Según el art. 5 y el Sr. García.",
        "La cláusula 7. Precio dice más.",
        "¿Cuánto?",
        "2 %.",
    ]


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("这是第一句。第二句！“第三句？”第四句。", 4),
        ("これは文です。次の文です。", 2),
        ("Это первое. Второе начинается.", 2),
        ("هذه جملة. وهذه أخرى؟ نعم.", 3),
        ("Version 2.1 is out.", 1),
        ("He said no. but went on.", 1),
        ("One.\nTwo", 2),
    ],
)
def test_sentences_end_in_many_scripts(text, count):
    assert len(splitting.sentences(text)) == count


def test_paragraphs_end_at_empty_lines():
    assert splitting.paragraphs("a\nb\n\n \nc\n\n") == ["a\nb\n\n \n", "c\n\n"]


@pytest.mark.parametrize("text", ["ภาษาไทยก็ดีที่นี่", "e\u0301" * 20, "👩\u200d👩\u200d👧" * 8])
def test_no_accent_or_joined_sign_is_torn_from_its_letter(text):
    pieces = [text]
    while any(len(piece) > 8 for piece in pieces):
        pieces = [half for piece in pieces for half in (splitting.halves(piece) if len(piece) > 8 else [piece])]
    assert "".join(pieces) == text
    for piece in pieces:
        assert not unicodedata.category(piece[0]).startswith("M")
        assert "\u200d" not in (piece[0], piece[-1])


@pytest.mark.parametrize(
    "text", [" " * 200_000, "a. " * 100_000, "." * 200_000, "\n" * 200_000, '."' * 100_000, "a" * 500_000]
)
def test_no_text_takes_long(text):
    started = time.perf_counter()
    for cut in (splitting.sentences, splitting.lines, splitting.paragraphs, splitting.words, splitting.halves):
        cut(text)
    assert time.perf_counter() - started < 15
