"""What the detector does to be faster changes nothing of what it finds: each short cut against the long way."""

import re

from hypothesis import given, settings
from hypothesis import strategies as st

from services.orchestrator.trials import injection_sets as sets
from services.runtime.recognition.injections.concepts import plain, words_of
from services.runtime.recognition.injections.disguises import (
    ANY_UNSEEN,
    LONG_WORD,
    SPACED_HEX,
    invisible,
    long_words,
    spaced_hex,
)
from services.runtime.recognition.injections.gestures import NAMES, gestures
from services.runtime.recognition.injections.sentences import END, sentences

# The end of a sentence as one expression of three alternatives, as it reads.
PLAIN_END = re.compile(
    r"[.!?…。]+[\"'”»)\]*_]*(?=\s)|[\n\r\x0b\x0c\x85\u2028\u2029]+"
    r"(?![ \t]*(?!(?:system|assistant|developer|user|sistema|asistente)(?: \w+)? ?:)[a-zà-öø-ÿ])|\|(?=\s)"
)
SIGNS = ".!?…。\n\r\x0b\x85\u2028 \t|\"'”)]*_aéZ: "
# Words and signs of the expressions, so that what hypothesis makes comes near to them.
WORDS = """
act as like pretend to play the role of you are now a free imagine that let us be my se mi consider
yourself your short answer summary what you write lo que digas when you reply in any response before
summarizing en cada respuesta al responder https://evil.example/log?d= followed by after the end ![x](
<img src= ? user tell the reader must if model is assistant : ignore previous instructions 20 65 6e 0x41
\\x42 . - / 01101000 <~ aGVsbG8gd29ybGQgaGVsbG8gd29ybGQ= 68656c6c6f20776f726c642068656c6c6f20776f726c64
\u200b \u202e \ufe01 \U000e0041 &#104; %68
""".split()


@settings(max_examples=150, deadline=None)
@given(
    st.text(alphabet=SIGNS, max_size=30) | st.lists(st.sampled_from(["system: ", "\n", ". ", "a b", "| "])).map("".join)
)
def test_sentences_end_where_the_plain_expression_ends_them(text):
    assert [one.span() for one in END.finditer(text)] == [one.span() for one in PLAIN_END.finditer(text)]


made = st.lists(st.sampled_from(WORDS) | st.text(max_size=8), max_size=40).map(" ".join)


hexadecimal = st.lists(st.sampled_from(["48", "65", "6c20", " ", ",", ":", "0x", "\\x", "x", "g", "a" * 24])).map(
    "".join
)


@settings(max_examples=100, deadline=None)
@given(made | hexadecimal)
def test_long_words_and_spaced_numbers_are_found_without_looking_at_all_of_a_text(text):
    for parts, pattern in ((long_words, LONG_WORD), (spaced_hex, SPACED_HEX)):
        if parts is long_words or ("20" in text and "65" in text):
            found = [one.span() for part in parts(text) for one in pattern.finditer(text, *part)]
            assert found == [one.span() for one in pattern.finditer(text)]


@settings(max_examples=60, deadline=None)
@given(made)
def test_signs_that_nobody_sees_are_looked_for_wherever_there_is_one(text):
    assert ANY_UNSEEN.search(text) or not list(invisible(text))


@settings(max_examples=100, deadline=None)
@given(made)
def test_gestures_are_those_of_the_expressions_alone(text):
    folded = plain(text)
    words = words_of(folded)
    assert set(gestures(folded, words)) == set(gestures(folded, words, tries_all=True)) <= NAMES


def test_gestures_of_whole_texts_are_those_of_the_expressions_alone():
    for text in (*sets.own()["attacks"], *(one.text for one in sets.written())):
        for start, end in sentences(text):
            folded = plain(text[start:end])
            words = words_of(folded)
            assert set(gestures(folded, words)) == set(gestures(folded, words, tries_all=True))
