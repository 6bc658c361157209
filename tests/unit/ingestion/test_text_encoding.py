import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.ingestion.parsed import Unreadable
from services.ingestion.parsers.text_encoding import clean, decode, decode_html, read

SPANISH = "Año: 100 € – «cláusula» única"


@pytest.mark.parametrize(
    "encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "cp1252", "iso8859-15"]
)
def test_the_usual_encodings_are_read(encoding):
    text = SPANISH if encoding != "iso8859-15" else "Año: «cláusula» única"
    assert decode(text.encode(encoding)) == text


@pytest.mark.parametrize(
    ("encoding", "text"),
    [
        ("cp932", "名前,年齢,住所\n佐藤太郎,30,東京"),
        ("cp1251", "Привет мир, это договор о поставке оборудования"),
        ("euc_kr", "안녕하세요 계약서를 보내 드립니다"),
        ("cp1252", "Größe, Übung, Straße: 5 µm ± 3 °C"),
        ("cp1252", "Señor, 5 €"),
    ],
)
def test_older_encodings_are_guessed_and_the_guess_is_said(encoding, text):
    found = read(text.encode(encoding))
    assert found.text == text
    assert encoding in found.warnings[0]


def test_utf_8_needs_no_warning():
    assert read(SPANISH.encode()).warnings == ()


def test_noise_has_no_encoding():
    with pytest.raises(Unreadable, match="encoding of the text cannot be told"):
        decode(bytes(range(256)) * 20)


def test_a_page_is_read_in_the_encoding_that_it_declares():
    page = "<html><head><meta charset='iso-8859-2'></head>źródło</html>"
    assert "źródło" in decode_html(page.encode("iso-8859-2"))
    assert "año" in decode_html("<meta charset='nonsense'>año".encode())


def test_a_decomposed_accent_becomes_one_character():
    assert clean("contratacio\u0301n") == "contratación"


def test_halves_of_a_character_are_joined_and_lone_ones_dropped():
    assert clean("\ud835\udc00 area") == "\U0001d400 area"
    assert clean("bad\ud800end") == "badend"
    assert clean("a\0b") == "ab"


def test_marks_within_words_that_nobody_sees_are_dropped():
    assert clean("con\u00adtra\u200bto\ufeff") == "contrato"


@given(st.text(st.characters(codec=None)))
def test_cleaned_text_can_be_stored_anywhere(text):
    cleaned = clean(text)
    assert "\0" not in cleaned
    assert "\r" not in cleaned
    assert cleaned.encode().decode() == cleaned
    assert clean(cleaned) == cleaned


@given(st.binary(max_size=500))
def test_any_bytes_are_text_or_refused(content):
    try:
        text = decode(content)
    except Unreadable:
        return
    assert clean(text) == text
