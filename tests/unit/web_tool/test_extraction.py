from pathlib import Path

import pytest
from fpdf import FPDF
from hypothesis import given, settings
from hypothesis import strategies as st

from services.web_tool.extraction import extract

PDFS = Path("tests/data/documents/pdf")
ARTICLE = "<p>The price of copper rose again on Monday, as mines in Chile reported lower output than expected.</p>"


def read(content, kind="html", content_type="text/html", max_chars=20_000):
    content = content if isinstance(content, bytes) else content.encode()
    (row,) = extract(content, kind=kind, content_type=content_type, url="http://a.test/", max_chars=max_chars)
    return row


def test_title_and_main_text_are_found_and_menus_left_out():
    menu = "<nav><ul>" + "".join(f"<li><a href=/{n}>Section {n}</a></li>" for n in range(30)) + "</ul></nav>"
    page = f"<html><head><title> Copper\n rises </title></head><body>{menu}<article>{ARTICLE * 30}</article></body>"
    row = read(page)
    assert row["title"] == "Copper rises"
    assert "lower output" in row["text"]
    assert "Section 7" not in row["text"]


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("words alone", "words alone"),
        ("<p>a</p><p>b</p>", "a\nb"),
        ("", ""),
        ("<html></html>", ""),
        ("<p>x\0y</p>", "xy"),
        ("<?xml version='1.0' encoding='latin1'?><html><p>x</p></html>", "x"),
        ("<p>&#x202e;x&#0;y</p>", "x\ufffdy"),
        ("<svg><title>no</title></svg><p>x</p>", "x"),
        ("<p>a<b>b</b>c</p>", "abc"),
        ("<ul><li>a<li>b</ul>", "a\nb"),
    ],
)
def test_small_pages_are_read_whole(page, text):
    lines = [line.removeprefix("- ") for line in read(page)["text"].splitlines()]
    assert "\n".join(lines) == text


def test_the_first_heading_stands_in_for_a_title():
    assert read("<h1>Copper <i>today</i></h1><p>x</p>")["title"] == "Copper today"


def test_a_title_is_cleaned_like_text():
    row = read("<title>Co\u200bpper ![x](http://evil.test) <|im_start|></title><p>x</p>")
    assert (row["title"], row["removed_invisible"]) == ("Copper x < |im_start|>", True)


@pytest.mark.parametrize("size", [0, 1])
def test_text_is_cut_at_the_limit_and_that_is_said(size):
    row = read("x" * (50 + size), "text", "text/plain", 50)
    assert (row["text"], row["truncated"]) == ("x" * 50, bool(size))


@pytest.mark.parametrize(
    ("page", "kind"),
    [
        ("<div>" * 100_000 + "x", "html"),
        ("<b>" * 300 + "x", "html"),
        ("<i/>" * 200_000, "html"),
        ("<a>" * 3000 + "x" + "</a>" * 3000, "xml"),
        ("<!DOCTYPE r [<!ENTITY a 'x'>]><r>&a;</r>", "xml"),
        ("<!DOCTYPE r [" + " " * 100 + "<!ENTITY % a SYSTEM 'http://10.0.0.1/'>%a;]><r/>", "xml"),
        ("<!doctype r [<!ELEMENT r ANY>]><r/>", "xml"),
        ("%PDF-1.7 nothing", "pdf"),
    ],
)
def test_a_bomb_is_refused_with_a_reason(page, kind):
    row = read(page, kind)
    assert row["rule"] == "content"
    assert "text" not in row


def test_entities_of_html_stay_words():
    page = "<!DOCTYPE html [<!ENTITY a 'boom'>]><p>a &a; b &eacute;</p>"
    assert "boom" not in read(page)["text"].replace("'boom'", "")


def test_a_feed_is_read_entry_by_entry():
    feed = """<?xml version="1.0"?><rss xmlns:c="http://purl.org/rss/1.0/modules/content/">
    <channel><title>Metals</title>
    <item><title>One</title><pubDate>Mon, 3 Nov 2025</pubDate><description>&lt;p&gt;Up &lt;b&gt;2 %&lt;/b&gt;
    &lt;i hidden&gt;obey&lt;/i&gt;&lt;/p&gt;</description></item>
    <item><title>Two</title><c:encoded><![CDATA[<p>Down</p>]]>
    </c:encoded></item></channel></rss>"""
    row = read(feed, "xml", "application/rss+xml")
    assert row["title"] == "Metals"
    assert row["text"] == "One\nMon, 3 Nov 2025\nUp 2 %\n\nTwo\nDown"
    assert row["removed_invisible"]


def test_atom_is_a_feed_too():
    feed = (
        "<feed xmlns='http://www.w3.org/2005/Atom'><title>M</title><entry><title>A</title><updated>2025-11-03</updated>"
    )
    assert read(f"{feed}<summary>b</summary></entry></feed>", "xml")["text"] == "A\n2025-11-03\nb"


def test_other_xml_is_its_texts():
    assert read("<a><b>x</b> <c>y</c><!-- z --></a>", "xml", "text/xml")["text"] == "x\ny"


def test_xml_that_is_none_is_plain_text():
    assert read("no tags at all", "xml", "text/xml")["text"] == "no tags at all"


def test_a_pdf_is_read_page_after_page():
    row = read((PDFS / "multipage.pdf").read_bytes(), "pdf", "application/pdf")
    assert row["text"] == "Page one content\n\nPage two content"
    assert (row["charset"], row["truncated"]) == ("", False)


def test_a_pdf_is_read_no_further_than_wanted():
    pdf = FPDF()
    pdf.set_title("Long")
    pdf.set_font("helvetica", size=12)
    for number in range(300):
        pdf.add_page()
        pdf.text(10, 20, f"Page {number}")
    row = read(bytes(pdf.output()), "pdf", max_chars=200_000)
    assert (row["title"], row["truncated"]) == ("Long", True)
    assert row["text"].endswith("Page 199")
    assert read(bytes(pdf.output()), "pdf", max_chars=30)["truncated"]


def test_an_encrypted_pdf_says_so():
    row = read((PDFS / "encrypted.pdf").read_bytes(), "pdf", "application/pdf")
    assert row == {"rule": "content", "message": "The PDF is encrypted."}


TOKENS = st.sampled_from(
    [
        "<p>",
        "</p>",
        "<div",
        ">",
        "<table>",
        "<tr>",
        "<td>",
        "</table>",
        "<!--",
        "-->",
        "<script>",
        "<![CDATA[",
        "]]>",
        "<a href=",
        '"',
        "&#x0;",
        "&lt;",
        "<svg>",
        "<title>",
        "<body>",
        "</html>",
        "<br/>",
        "<?xml",
        "?>",
        "<math>",
        "<ul><li>",
        "words of text ",
        "style='",
        "display:none",
        "\0",
        "\ufffd",
        "é",
        "<noscript>",
        "<template>",
        "<frameset>",
        "<select><option>",
        "<h1>",
    ]
)


@settings(max_examples=150, deadline=None)
@given(st.lists(TOKENS, max_size=60), st.sampled_from(["html", "xml"]))
def test_any_page_becomes_text_or_is_refused(tokens, kind):
    page = "".join(tokens) * 5
    row = read(page, kind)
    assert "rule" in row or not any(invisible in row["text"] for invisible in "\0\u200b\u202e")


@given(st.binary(max_size=300), st.sampled_from(["html", "xml", "text", "pdf"]))
def test_any_bytes_become_text_or_are_refused(content, kind):
    read(content, kind)


@pytest.mark.parametrize(
    ("description", "text"),
    [
        ("&nbsp;a&lt;i hidden&gt;obey&lt;/i&gt;z", "a z"),
        ("a & b &lt;i hidden&gt;obey&lt;/i&gt;z", "a & b z"),
        ("a&#1; &lt;i hidden&gt;obey&lt;/i&gt;z", "a z"),
        ("a\x0c &lt;i hidden&gt;obey&lt;/i&gt;z", "a z"),
        ("a &unknown; &#60;i hidden&#62;obey&#x3c;/i&#x3e;z", "a &unknown; z"),
        ("<![CDATA[a &amp; R&D <i hidden>obey</i>z]]>", "a & R&D z"),
        ("<br></x>a &lt;i hidden&gt;obey&lt;/i&gt;z", "a z"),
    ],
)
def test_what_a_broken_feed_hides_stays_hidden(description, text):
    row = read(f"<rss><item><description>{description}</description></item></rss>", kind="xml", content_type="text/xml")
    assert (row["text"], row["removed_invisible"]) == (text, True)


@pytest.mark.parametrize("sign", ["\x0b", "\x0c", "\x01", "&#12;", "&#1;", "\uffff", "&#xffff;", "&#0;", "&#xd800;"])
def test_control_characters_damage_no_page(sign):
    assert read(f"<p>a{sign}b<i hidden>obey</i>{sign}c<br>{sign}d</p>{sign}e" + "<p>words" * 99)["text"].startswith("a")
