"""An answer is judged the same however its pieces are cut, and nothing of what was found leaves."""

import time
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from services.gateway.guards.blocked_terms import BlockedTerms
from services.gateway.guards.placeholders import Placeholders
from services.gateway.guards.recognition import NumberFinder
from services.gateway.guards.scanning import ContentBlocked, Report, Scanner
from services.runtime.tenants import GuardSide

FOUND = {
    "juan.perez@acme.es": "EMAIL",
    "ＪＵＡＮ＠acme.es": "EMAIL",
    "ana[at]acme[punto]es": "EMAIL",
    "600 123 456": "PHONE",
    "+34 600123456": "PHONE",
    "+1 (212) 555-0143": "PHONE",
    "ES91 2100 0418 4502 0005 1332": "IBAN",
    "GB29 NWBK 6016 1331 9268 19": "IBAN",
    "ES 91 2100 0418 4502 0005 1332": "IBAN",
    "4111 1111 1111 1111": "CARD",
    "12345678Z": "NATIONAL_ID",
    "12345678 Z": "NATIONAL_ID",
    "X-1234567-L": "NATIONAL_ID",
    "A58818501": "NATIONAL_ID",
    "123-45-6789": "NATIONAL_ID",
    "203.0.113.7": "IP",
    "2001:db8::1:2": "IP",
}
HARMLESS = (
    "El contrato 2025-0091 es de 1.234.567,89 € y vence el 31/12/2026.",
    "ISO 27001, RFC 9110, Ley 3/2018, versión 10.2.3.4 y 127.0.0.1.",
    "The year 2024 had 366 days; 42 % of 1,000 people agreed.",
    "601.23 456.78 4100 12 345.60 4111 1111.1 11 111 111",
    "漢字かな交じり文。\n\n- uno\n- dos",
    "",
)
WORDS = ("proyecto fénix", "naranja", "acme*plan", "*corp", "it")
PARTS = st.one_of(
    st.sampled_from([*FOUND, *HARMLESS, "1", "12 ", "a@", "ES", " ", "\n", "f e n i x", "@", ".", "fén", "ix", "nar"]),
    st.text("ab1 2@.-+EX漢ñ\u200b\n", max_size=12),
    st.text(max_size=6),
)


def scanner(report=None, json=False, **side):
    return Scanner(GuardSide(**side), report or Report(), placeholders=Placeholders(), finder=NumberFinder(), json=json)


def pieces_of(text, cuts):
    places = sorted({min(cut, len(text)) for cut in cuts} | {0, len(text)})
    return [text[a:b] for a, b in pairwise(places)]


def streamed(pieces, **side):
    """What left, and whether it was blocked."""
    one, out = scanner(**side), []
    try:
        for piece in pieces:
            out.append(one.feed(piece))
        out.append(one.end())
    except ContentBlocked:
        return "".join(out), True
    return "".join(out), False


@given(st.lists(PARTS, max_size=12).map("".join), st.lists(st.integers(0, 300), max_size=30))
@settings(max_examples=150, deadline=None)
@example("llame al 600 123 456 euros", [11])
@example("x" * 1500 + " 4111 1111 1111 1111", [1024, 1100])
def test_redaction_does_not_depend_on_how_the_text_is_cut(text, cuts):
    whole = streamed([text], pii="redact")
    assert streamed(pieces_of(text, cuts), pii="redact") == whole
    assert streamed(list(text), pii="redact") == whole


@given(
    st.lists(st.one_of(PARTS, st.sampled_from(["4111 1111 ", "x" * 700, "1 2 3 4 5 " * 60])), max_size=9).map("".join)
)
@settings(max_examples=15, deadline=None)
def test_long_runs_without_an_end_are_cut_the_same_way_too(text):
    assert streamed(list(text), pii="redact") == streamed([text], pii="redact")


DISGUISED = st.sampled_from([*WORDS, "Proyecto Fenix", "acme 12 plan", "megacorp", "n4r4nj4"])


@given(st.lists(PARTS | DISGUISED, max_size=8).map("".join), st.lists(st.integers(0, 200), max_size=20))
@settings(max_examples=150, deadline=None)
@example("acme y el plan", [5])
@example("superit it", [3])
def test_blocked_words_are_found_in_any_cut_and_never_leave(text, cuts):
    out, blocked = streamed([text], terms=WORDS)
    pieces = pieces_of(text, cuts)
    for cut in (pieces, list(text)):
        left, stopped = streamed(cut, terms=WORDS)
        assert stopped == blocked
        assert text.startswith(left)
        assert left == out if not blocked else len(left) <= BlockedTerms(WORDS).feed(text, last=True)


@given(st.lists(PARTS, max_size=10).map("".join))
@settings(max_examples=60, deadline=None)
def test_words_and_numbers_together_are_judged_the_same(text):
    one = streamed([text], terms=WORDS, pii="redact")
    many = streamed(list(text), terms=WORDS, pii="redact")
    assert one[1] == many[1]
    assert one[1] or one == many


@pytest.mark.parametrize(("said", "kind"), FOUND.items())
def test_each_kind_is_found_and_named(said, kind):
    report = Report()
    one = scanner(report, pii="redact")
    assert one.feed(f"Es {said}, dijo.") + one.end() == f"Es [{kind}_1], dijo."
    assert report.kinds("output", "redact") == [kind.lower()]


@pytest.mark.parametrize("text", HARMLESS)
def test_what_is_nobodys_passes(text):
    assert streamed([text], pii="block") == (text, False)


def test_the_same_thing_has_the_same_name_in_whatever_writing():
    one = scanner(pii="redact")
    text = "600 123 456 o 600-123-456 o 600 123 457."
    assert one.feed(text) + one.end() == "[PHONE_1] o [PHONE_1] o [PHONE_2]."


def test_plain_words_are_held_back_for_one_word_at_most():
    one, left = scanner(pii="block", terms=("naranja",)), ""
    text = "Esto es una frase normal sin nada dentro "
    for end, character in enumerate(text, 1):
        left += one.feed(character)
        assert text[:end].startswith(left)
        assert end - len(left) <= len(" normal ")


def test_only_what_could_become_a_blocked_word_is_held():
    one = scanner(terms=("naranja",))
    assert one.feed("una mesa") == "una mesa"
    assert one.feed(" nara") == " "
    assert one.feed("nda ") == "naranda "
    with pytest.raises(ContentBlocked) as caught:
        one.feed("n-a-r-a-n-j-a ")
    assert caught.value.found == "term"
    assert "naranja" not in str(caught.value.detail)


def test_a_flag_changes_nothing_and_is_counted():
    report = Report()
    one = scanner(report, pii="flag")
    text = "a juan.perez@acme.es y b"
    assert one.feed(text) + one.end() == text
    assert dict(report.found) == {("output", "email", "flag"): 1}
    assert report.scanned_chars["output"] == len(text)


def test_a_text_longer_than_allowed_is_stopped():
    one = scanner(max_chars=10)
    assert one.feed("0123456789") == "0123456789"
    with pytest.raises(ContentBlocked):
        one.feed("x")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ('{"n": 4111111111111111}', '{"n": "[CARD_1]"}'),
        ('{"n": "4111111111111111"}', '{"n": "[CARD_1]"}'),
        ('{"q": "a\\"b", "n": 4111111111111111}', '{"q": "a\\"b", "n": "[CARD_1]"}'),
    ],
)
def test_json_stays_json(text, shown):
    one = scanner(pii="redact", json=True)
    assert "".join(one.feed(character) for character in text) + one.end() == shown


HOSTILE = ("a", "1 ", "1", "a@", "f.", "A ", '"', "El año 2025 fue bueno. ", "4111 1111 ", "f-", "@ ", "ES91 ")


@pytest.mark.parametrize("unit", HOSTILE)
def test_time_grows_with_the_text_and_no_faster(unit):
    def seconds(size):
        since = time.process_time()
        streamed([unit * (size // len(unit))], pii="redact", terms=("fénix", "proyecto fénix"))
        return time.process_time() - since

    seconds(2_000)  # compiles
    assert seconds(32_000) < 10 + 64 * seconds(4_000)


@pytest.mark.slow
@pytest.mark.parametrize("unit", HOSTILE)
def test_a_text_of_any_kind_takes_less_than_a_minute(unit):
    since = time.process_time()
    streamed([unit * (300_000 // len(unit))], pii="redact", terms=("fénix", "proyecto fénix"))
    assert time.process_time() - since < 60
