"""Windows on texts, with a small tokenizer made here."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.processors import TemplateProcessing

from services.embedding.encoder import Kind
from services.embedding.window import Windower

PREFIXES = {Kind.QUERY: "query: ", Kind.DOCUMENT: ""}
CLS, SEP, UNKNOWN = 0, 1, 2


def windower(max_tokens=8):
    words = ["[CLS]", "[SEP]", "[UNK]", "query", ":", "hola", "mundo", "."]
    tokenizer = Tokenizer(WordLevel({word: n for n, word in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", CLS), ("[SEP]", SEP)]
    )
    return Windower(tokenizer, PREFIXES, max_tokens)


def test_the_prefix_is_seen_by_the_model_and_is_not_the_texts_own():
    (window,) = windower().windows(["hola mundo"], Kind.QUERY)
    assert window.ids == [CLS, 3, 4, 5, 6, SEP]
    assert [window.ids[at] for at in window.own] == [5, 6]
    assert window.text == "query: hola mundo"
    assert not window.truncated


def test_a_text_without_prefix_starts_at_its_first_word():
    (window,) = windower().windows(["hola mundo"], Kind.DOCUMENT)
    assert window.ids == [CLS, 5, 6, SEP]
    assert window.own == [1, 2]


def test_a_long_text_is_cut_and_keeps_its_closing_token():
    (window,) = windower(8).windows(["hola mundo . hola mundo ."], Kind.QUERY)
    assert window.ids == [CLS, 3, 4, 5, 6, 7, 5, SEP]
    assert window.truncated
    assert window.text == "query: hola mundo . hola"


def test_a_text_that_just_fits_is_not_truncated():
    (window,) = windower(8).windows(["hola " * 6], Kind.DOCUMENT)
    assert len(window.ids) == 8
    assert not window.truncated


def test_the_tail_beyond_the_character_limit_counts_as_truncated():
    (window,) = windower(8).windows(["hola" + " " * 600 + "mundo"], Kind.DOCUMENT)
    assert window.ids == [CLS, 5, SEP]
    assert window.truncated


def test_counting_leaves_prefix_and_special_tokens_out():
    assert windower().count(["hola mundo", "", "hola " * 50]) == [2, 0, 50]


@pytest.mark.parametrize("text", ["\0", "\ud800", "bad\ud800end", "   "])
def test_a_text_that_tokenizers_choke_on_still_has_a_window(text):
    (window,) = windower().windows([text], Kind.QUERY)
    assert window.own
    assert len(windower().count([text])) == 1


@settings(max_examples=60, deadline=None)
@given(text=st.text(max_size=300), kind=st.sampled_from(list(Kind)))
def test_every_window_fits_and_holds_its_own_tokens(text, kind):
    (window,) = windower(16).windows([text], kind)
    assert 1 <= len(window.ids) <= 16
    assert len(window.type_ids) == len(window.ids)
    assert window.own == sorted(set(window.own))
    assert 0 <= window.own[0] <= window.own[-1] < len(window.ids)
    assert (window.ids[0], window.ids[-1]) == (CLS, SEP)
