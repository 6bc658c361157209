"""An answer leads nowhere but to its sources, however a link is written and wherever the stream breaks it."""

import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.orchestrator.events import FindingKind
from services.orchestrator.metrics import REMOVED_LINKS
from services.orchestrator.shield.canary import Canary, canary_of
from services.orchestrator.shield.cleaning import REMOVED
from services.orchestrator.shield.links import LinkFilter

KNOWN = "https://news.example/copper?id=7"
EVIL = "https://evil.example/log?d=secret"
GONE = REMOVED["en"]


def passed(text, piece=1, **options):
    one = LinkFilter(
        lambda address: address == KNOWN, lambda name: name != "bad.example", Canary(canary_of("t")), **options
    )
    shown = "".join(one.feed(text[at : at + piece]) for at in range(0, len(text), piece)) + one.flush()
    return shown, one.take_findings()


@pytest.mark.parametrize("piece", [1, 2, 5, 10_000])
@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Copper rose [1], see [2][3]. More [1, 4].", None),
        (f"See [the news]({KNOWN}) and {KNOWN}.", None),
        (f"<{KNOWN}> and `x < y` and a[0](b) and 1.234,5 € on 3/4/2025.", None),
        ("Files report.py, node.js/react, CT-2025/0091, e.g. and s.a. stay; a@b.example too.", None),
        (f"See [the news]({KNOWN})[1], **{KNOWN}**, `{KNOWN}`, «{KNOWN} » and ({KNOWN}).", None),
        (f"| [a]({KNOWN}) | {KNOWN} |\n", None),
        (f"See [here]({EVIL}).", "See here."),
        (f'See [here]( <{EVIL}> "title" ) now.', "See here now."),
        (f"See [1]({EVIL}) now.", "See 1 now."),
        (f"See [a [nested] text]({EVIL}) now.", "See a [nested] text now."),
        (f"[![alt]({EVIL})]({EVIL}) end", "alt end"),
        (f"A ![picture]({KNOWN}) b", "A picture b"),
        (f"Go to {EVIL}, or not.", f"Go to {GONE}, or not."),
        (f"Go to {KNOWN}&x=1 now", f"Go to {GONE} now"),
        (f"Go to {KNOWN}#x now", f"Go to {GONE} now"),
        (f"Go to <{EVIL}> now", f"Go to {GONE} now"),
        ("Go to www.evil.example/x now", f"Go to {GONE} now"),
        ("Go to evil.example/x?d=1 now", f"Go to {GONE} now"),
        ("Go to //evil.example/x now", f"Go to {GONE} now"),
        ("Write to mailto:a@evil.example?body=x now", f"Write to {GONE} now"),
        ("Write to bad.example now", f"Write to {GONE} now"),
        ("[x](/v1/documents?d=1) y", "x y"),
        ("[x](//evil.example/a) y", "x y"),
        ("[x](javascript:alert`1`) y", "x y"),
        ("[x](data:text/html;base64,AAAA) y", "x y"),
        ("[x](htt&#112;s://evil.example) y", "x y"),
        ("[x](https\\://evil.example) y", "x y"),
        ("data:text/html,hello y", f"{GONE} y"),
        ("https%3A%2F%2Fevil.example%2Fa y", f"{GONE} y"),
        ("ht\u200btps://evil\u00ad.example/a y", f"{GONE} y"),
        ('A <img src="x" onerror=alert(1)> b <script>c</script> d<!-- e --> f', "A  b c d f"),
        (f'<a\nhref="{EVIL}">go</a> b', "go b"),
        ("Line<br>break <b>bold</b>", None),
    ],
)  # fmt: skip
def test_what_leads_to_no_source_is_taken_out_and_its_text_stays(text, shown, piece):
    got, findings = passed(text, piece)
    assert got == (text if shown is None else shown)
    assert bool(findings) is (shown is not None)
    assert {one.kind for one in findings} <= {FindingKind.LINK}


@pytest.mark.parametrize("piece", [1, 3, 10_000])
@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"{KNOWN}'secret", f"{KNOWN}' secret"),
        (f"{KNOWN}|secret", f"{KNOWN}| secret"),
        (f"{KNOWN}>secret", f"{KNOWN}> secret"),
        (f"{KNOWN}\u00a0secret", f"{KNOWN} \u00a0secret"),
        (f"{KNOWN}[1][2]", f"{KNOWN} [1][2]"),
        (f"{KNOWN}[se cret", f"{GONE} cret"),
        (f"{KNOWN}[se cret]({EVIL})", f"{GONE} cret"),
        (f"[x]({KNOWN})secret", f"[x]({KNOWN}) secret"),
        (f"[x]({KNOWN})[secret]", f"[x]({KNOWN}) [secret]"),
        (f"[x]({KNOWN} 'secret')", f"[x]({KNOWN})"),
        (f"[a [b]({KNOWN}) c]({KNOWN})secret", f"[a [b]({KNOWN}) c]({KNOWN}) secret"),
        (f"[a](b)[c d]({EVIL}) e", "ac d e"),
        (f"[1][c]( {EVIL} ) e", "[1]c e"),
    ],
)
def test_nothing_goes_on_behind_a_known_address_that_readers_would_take_for_a_part_of_it(text, shown, piece):
    assert passed(text, piece)[0] == shown


@pytest.mark.parametrize("open_one", ["[", "<a ", "("])
def test_an_address_is_not_cut_where_something_was_held_for_too_long(open_one):
    text = f"{open_one}{'x' * 3_970}{KNOWN}{'y' * 60}"
    for piece in (1, 7, 100):
        shown, _ = passed(text, piece)
        assert KNOWN not in shown or re.search(re.escape(KNOWN) + "(?:[ <]|$)", shown)


def test_what_is_taken_out_is_counted_by_kind():
    def counted():
        return [REMOVED_LINKS.labels(kind)._value.get() for kind in ("link", "image", "html", "prompt")]

    before = counted()
    passed(f"[x]({EVIL}) {EVIL} ![y]({EVIL}) <img src=x> {canary_of('t')} z")
    assert [now - then for now, then in zip(counted(), before, strict=True)] == [2, 1, 1, 1]


@pytest.mark.parametrize("piece", [1, 4, 10_000])
def test_reference_links_lose_their_definitions(piece):
    got, findings = passed(f"See [here][r] and ![picture][r].\n\n[r]: {EVIL} 'title'\n\nEnd", piece)
    assert "evil" not in got
    assert "here" in got
    assert "End" in got
    assert len(findings) == 2


def test_images_pass_only_where_the_tenant_lets_them_and_only_from_sources():
    assert passed(f"![p]({KNOWN}) ![q]({EVIL}) x", images=True)[0] == f"![p]({KNOWN}) q x"


@pytest.mark.parametrize("piece", [1, 3, 10_000])
@pytest.mark.parametrize(
    "text",
    [
        "As said in [1]: the penalty is 2 % a month.",
        "[1]: the penalty is 2 % a month.\nIt ends in May [2].",
        "Sources:\n[1]: Contract.pdf, page 3\n[2]: Annex\n",
    ],
)
def test_a_sentence_after_a_mark_is_no_definition_of_a_link(text, piece):
    assert passed(text, piece) == (text, [])


@pytest.mark.parametrize("unit", ["a.", "http:", "www.", "[a\\", "%2f", "[r]: ", "data:"])
def test_a_long_word_in_one_piece_is_read_in_bounded_time(unit):
    since = time.process_time()
    passed(unit * (60_000 // len(unit)), 60_000)
    assert time.process_time() - since < 10


def test_a_text_that_opens_many_brackets_is_not_held_for_ever():
    shown, _ = passed("[" * 9_000 + " and so on " * 600, 50)
    assert "so on" in shown


def test_marks_and_words_pass_as_soon_as_they_are_whole():
    one = LinkFilter(lambda _: False, lambda _: True, Canary("cnabcdefabcdef"))
    assert one.feed("The price rose ") == "The price rose "
    assert one.feed("[1]") == ""
    assert one.feed(". It ") == "[1]. It "


PARTS = st.sampled_from(
    ["[", "]", "(", ")", "!", "<", ">", " ", "\n", "a", "[1]", "https://evil.example/x", "www.evil.example", KNOWN,
     ": ",      "`", "\\", "img ", "\u200b", "%3A%2F%2F", "javascript:", "//evil.example/", '"', "[r]: "]
)  # fmt: skip


@given(st.lists(PARTS, max_size=14), st.integers(1, 9))
@settings(deadline=None, max_examples=100)
def test_no_mixture_of_signs_lets_an_unknown_address_through(parts, piece):
    shown, _ = passed("".join(parts), piece)
    assert "https://evil" not in shown
    assert not re.search(r"(?<![\w.-])www\.evil", shown)
    assert "](//evil" not in shown


@given(st.text(alphabet="abc ñé.,\n0123456789-", max_size=400), st.integers(1, 50))
@settings(deadline=None, max_examples=60)
def test_plain_text_passes_unchanged(text, piece):
    assert passed(text, piece)[0] == text
