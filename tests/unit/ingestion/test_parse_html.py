import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.ingestion.parsed import Unreadable
from services.ingestion.parsers.parse_html import parse_html

PAGE = """<!DOCTYPE html><html lang="es-ES"><head><title> Condiciones
 generales </title><style>p {}</style></head><body>
<nav><a href="/">Menu</a></nav>
<div hidden>secret</div><div style="display: none">secret</div><p aria-hidden="true">secret</p>
<!-- secret --><script>secret()</script>
<h1>Contrato <em>marco</em></h1>
<div>Texto suelto<p>Un <b>párrafo</b><br>en dos líneas.</p>y más texto</div>
<h2>8. Entrega</h2>
<p>8.3 Retraso. Un 2 % al mes.</p>
<ul><li>uno</li><li>dos<ul><li>tres</li></ul></li></ul>
<ol><li>primero</li><li><p>segundo</p></li></ol>
<table><tr><th>Pieza</th><th>Precio</th></tr><tr><td>Tornillo</td><td>2,50 €</td></tr></table>
<pre>a
  b</pre>
<h2>9. Fin</h2><a><p>bloque en enlace</p></a>
</body></html>"""


def test_a_page_becomes_what_a_reader_sees():
    parsed = parse_html(PAGE)
    assert (parsed.title, parsed.language) == ("Condiciones generales", "es")
    assert "secret" not in str(parsed.blocks)
    assert [one.text for one in parsed.hidden] == ["secret", "secret"]
    assert "Menu" not in str(parsed)
    assert [(block.kind, block.text) for block in parsed.blocks] == [
        ("heading", "Contrato marco"),
        ("paragraph", "Texto suelto"),
        ("paragraph", "Un párrafo\nen dos líneas."),
        ("paragraph", "y más texto"),
        ("heading", "8. Entrega"),
        ("paragraph", "8.3 Retraso. Un 2 % al mes."),
        ("list", "- uno"),
        ("list", "- dos"),
        ("list", "- tres"),
        ("list", "1. primero"),
        ("list", "2. segundo"),
        ("table", "| Pieza | Precio |\n| --- | --- |\n| Tornillo | 2,50 € |"),
        ("code", "a\n  b"),
        ("heading", "9. Fin"),
        ("paragraph", "bloque en enlace"),
    ]
    assert parsed.blocks[5].section == ("Contrato marco", "8. Entrega", "8.3 Retraso")
    assert parsed.blocks[-1].section == ("Contrato marco", "9. Fin")


def test_a_table_with_a_caption_or_a_layout_loses_nothing():
    rows = "<tr><td>a</td><td>b</td></tr><tr><td>c</td><td>d</td></tr>"
    text = str(parse_html(f"<table><caption>Prices</caption>{rows}</table>"))
    assert all(word in text for word in ("Prices", "a", "b", "c", "d"))
    blocks = parse_html("<table><tr><td><h2>Head</h2><p>One.</p></td><td><p>Two.</p></td></tr></table>").blocks
    assert [block.text for block in blocks] == ["Head", "One.", "Two."]


def test_a_page_that_is_nested_too_deeply_is_refused():
    assert parse_html("<div>" * 200 + "inside").blocks[0].text == "inside"
    with pytest.raises(Unreadable, match="nested too deeply"):
        parse_html("<div>" * 2_000 + "inside")


@pytest.mark.parametrize(
    "html", ["", "<html></html>", "<p></p>", "<table><tr></tr></table>", "<li>alone", "</div></p>"]
)
def test_odd_pages_are_read(html):
    assert all(block.text.strip() for block in parse_html(html).blocks)


inline = st.sampled_from(["<b>", "</b>", "<br>", "<a>", "</a>", "<span>", "</span>"])
tags = st.sampled_from(
    ["<p>", "</p>", "<div>", "</div>", "<li>", "<ul>", "</ul>", "<table>", "<tr>", "<td>", "</table>", "<h2>", "</h2>"]
)


@given(st.lists(st.one_of(st.from_regex(r"w[a-e]{3,6}", fullmatch=True), inline, tags), max_size=40))
def test_no_visible_word_is_lost(parts):
    seen = " ".join(block.text for block in parse_html("<body>" + " ".join(parts)).blocks)
    for part in parts:
        if not part.startswith("<"):
            assert part in seen


def test_the_matter_of_a_page_is_read_and_what_is_around_it_is_not():
    words = "<p>" + "Texto del contrato. " * 20 + "</p>"
    page = f"<body><div>Skip to content</div><main><h1>Contrato</h1>{words}</main><div>Cookies</div></body>"
    assert [block.kind for block in parse_html(page).blocks] == ["heading", "paragraph"]
    small = f"<body><main>Menu</main>{words}</body>"
    assert "Texto del contrato." in str(parse_html(small).blocks)


def test_links_to_other_languages_are_left_out():
    page = "<ul><li><a hreflang='fr' href='/fr'>Français</a></li></ul><p>Texto</p>"
    assert [block.text for block in parse_html(page).blocks] == ["Texto"]


@pytest.mark.parametrize(
    "text", ["<?xml version='1.0'?><html><p>uno</p></html>", "uno", "https://example.org/uno", "uno.html"]
)
def test_texts_that_hardly_look_like_a_page_are_read_without_a_warning(text):
    assert "uno" in parse_html(text).blocks[0].text
