import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.ingestion.parsed import Unreadable
from services.ingestion.parsers.parse import parse
from services.ingestion.parsers.parse_json import parse_json, parse_jsonl
from services.ingestion.parsers.parse_xml import parse_xml
from services.ingestion.parsers.parse_yaml import parse_yaml


def texts(parsed):
    return [block.text for block in parsed.blocks]


def test_a_small_json_is_one_block_of_paths():
    parsed = parse_json(
        '{"title": "Alta", "socio": {"nombre": "Ana", "cuotas": [1, 2.5]}, "activo": true, "baja": null}'
    )
    assert texts(parsed) == ["title: Alta\nsocio.nombre: Ana\nsocio.cuotas: 1, 2.5\nactivo: true"]
    assert parsed.title == "Alta"


def test_each_record_of_a_long_list_is_a_block_with_its_name():
    records = [{"name": f"Pieza {n}", "notes": "x" * 200} for n in range(20)]
    parsed = parse_json(json.dumps({"version": 1, "parts": records}))
    assert texts(parsed)[0] == "version: 1"
    assert parsed.blocks[3].section == ("parts", "Pieza 2")
    assert parsed.blocks[3].text.startswith("name: Pieza 2\nnotes: x")


def test_lines_of_json_are_a_record_each_and_broken_ones_are_said():
    parsed = parse_jsonl('{"id": "A-1", "text": "uno"}\n{broken\n{"id": "A-2", "text": "dos"}\n')
    assert texts(parsed) == ["id: A-1\ntext: uno", "{broken", "id: A-2\ntext: dos"]
    assert parsed.blocks[0].section == ("A-1",)
    assert parsed.warnings == ("1 lines, the first of them line 2, are not valid JSON.",)


def test_what_is_no_json_is_read_as_a_text_with_a_warning():
    parsed = parse_json("{this is no json\n\nat all")
    assert texts(parsed) == ["{this is no json", "at all"]
    assert "not valid JSON" in parsed.warnings[0]


def test_json_that_is_nested_too_deeply_is_refused():
    for depth in (500, 100_000):
        with pytest.raises(Unreadable, match="nested too deeply"):
            parse_json("[" * depth + "1" + "]" * depth)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.sampled_from("abñ \n"), max_size=30),
    lambda inner: (
        st.lists(inner, max_size=5) | st.dictionaries(st.text("kxyz", min_size=1, max_size=5), inner, max_size=5)
    ),
    max_leaves=40,
)


@given(values, st.integers(1, 400))
def test_no_value_of_a_json_is_lost(value, repeat):
    parsed = parse_json(json.dumps([value, {"long": "w" * 4 * repeat}]))
    seen = "\n".join([*texts(parsed), *("\n".join(block.section) for block in parsed.blocks)])

    def check(one):
        match one:
            case dict():
                for part in one.values():
                    check(part)
            case list():
                for part in one:
                    check(part)
            case str():
                assert all(line.strip() in seen for line in one.split("\n"))
            case None:
                pass
            case _:
                assert json.dumps(one) in seen

    check(value)


RSS = b"""<?xml version="1.0"?><rss version="2.0" xmlns:dc="http://purl.org/dc/elements/1.1/"><channel>
<title>Noticias</title><language>es-ES</language><description>Todo</description>
<item><title>Primera</title><link>https://example.org/1</link><pubDate>Mon, 09 Dec 2024</pubDate>
<dc:creator>Ana</dc:creator><description>&lt;p&gt;Un &lt;b&gt;texto&lt;/b&gt;.&lt;/p&gt;</description></item>
<item><title>Segunda</title><description>Otro texto</description></item></channel></rss>"""


def test_a_feed_is_a_section_an_article():
    parsed = parse_xml(RSS)
    assert (parsed.title, parsed.language) == ("Noticias", "es")
    assert texts(parsed) == [
        "Todo",
        "Primera",
        "Date: Mon, 09 Dec 2024\nAuthor: Ana\nLink: https://example.org/1",
        "Un texto.",
        "Segunda",
        "Otro texto",
    ]
    assert parsed.blocks[3].section == ("Primera",)


def test_elements_are_read_with_their_paths_and_attributes():
    parsed = parse_xml(b"<order id='7'><item code='M6'>Tornillo</item><note>Urge <b>mucho</b> ya</note></order>")
    assert texts(parsed) == ["@id: 7\nitem.@code: M6\nitem: Tornillo\nnote: Urge mucho ya"]


@pytest.mark.parametrize(
    "entity",
    [
        b'<!ENTITY a "' + b"b" * 50 + b'">',
        b'<!ENTITY x SYSTEM "file:///etc/passwd">',
        b'<!ENTITY % p SYSTEM "http://127.0.0.1:1/">',
    ],
)
def test_entities_are_neither_expanded_nor_fetched(entity):
    with pytest.raises(Unreadable, match="entities"):
        parse_xml(b"<!DOCTYPE d [" + entity + b"]><d>&x;&a;</d>")


def test_an_entity_bomb_in_utf_16_is_not_expanded_either():
    levels = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 12))
    bomb = f'<?xml version="1.0" encoding="UTF-16"?><!DOCTYPE d [<!ENTITY e0 "ha">{levels}]><d>&e11;</d>'
    try:
        parsed = parse_xml(bomb.encode("utf-16"))
    except Unreadable:
        return
    assert sum(len(block.text) for block in parsed.blocks) < 10_000


def test_broken_xml_is_repaired_or_read_as_text():
    assert "uno" in str(parse_xml(b"<a><b>uno</b><c>dos"))
    assert "no xml" in str(parse_xml(b"there is no xml"))


def test_yaml_keeps_its_comments_and_is_cut_at_its_keys():
    long = "\n".join(f"  line{n}: {'v' * 30}" for n in range(20))
    parsed = parse_yaml(f"# what this is\nname: x\nport: 80\nserver:\n{long}\n---\nother: 1\n")
    assert [block.section for block in parsed.blocks] == [(), ("server",), ()]
    assert parsed.blocks[0].text == "# what this is\nname: x\nport: 80"
    assert all(block.kind == "code" for block in parsed.blocks)


def test_yaml_aliases_that_multiply_are_only_text():
    bomb = "a: &a [x, x]\n" + "".join(f"{k}: &{k} [*{j}, *{j}]\n" for j, k in zip("abcdefgh", "bcdefghi", strict=True))
    assert sum(len(block.text) for block in parse(bomb.encode(), "a.yaml").blocks) <= len(bomb)
