"""The parts of the page that only reckon: words, Markdown, marks, streams and times. In the real browser."""

import base64
import json
import random
import re

import pytest
import pytest_asyncio

from services.gateway.app import WEB
from tests.e2e.conftest import Watch, opened

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def page(chromium, here):
    """One page for all: nothing here changes it."""
    watch = Watch(here.url)
    page = await opened(chromium, watch)
    await page.goto(here.url)
    yield page
    assert watch.complaints == []


async def test_both_languages_say_the_same_things(page):
    shapes = """async () => {
      const { TEXTS } = await import("/texts/texts.js");
      const shape = (value) => {
        if (typeof value === "string") return [...value.matchAll(/\\{\\w+\\}/g)].map(String).sort().join();
        if (Array.isArray(value)) return value.length;
        return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, shape(inner)]));
      };
      return [shape(TEXTS.en), shape(TEXTS.es)];
    }"""
    english, spanish = await page.evaluate(shapes)
    assert english == spanish


async def test_all_words_that_the_page_names_are_there(page):
    known = set(await page.evaluate("import('/texts/texts.js').then(({ TEXTS }) => Object.keys(TEXTS.en))"))
    scripts = "".join(path.read_text() for path in WEB.rglob("*.js"))
    named = set(re.findall(r'\b(?:text|counted|translated)\("(\w+)"', scripts))
    named |= set(re.findall(r'data-(?:text|label|placeholder)="(\w+)"', (WEB / "index.html").read_text()))
    assert len(named) > 100
    assert named - known == set()


SHOWN = """async (text) => {
  const { show } = await import("/ask/markdown.js");
  const box = document.createElement("div");
  const mark = (number) => number < 100 ? Object.assign(document.createElement("button"), {textContent: number}) : null;
  const began = performance.now();
  const leads = (address) => address.startsWith("https://cited.example/");
  show(box, text, { mark, leads });
  return [box.innerHTML, (performance.now() - began) / 1000];
}"""


async def shown(page, text):
    return (await page.evaluate(SHOWN, text))[0]


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("one\ntwo\n\nthree", "<p>one<br>two</p><p>three</p>"),
        ("**bold** and *it* and `a*b`", "<p><strong>bold</strong> and <em>it</em> and <code>a*b</code></p>"),
        ("~~no~~ __yes *and*__", "<p><s>no</s> <strong>yes <em>and</em></strong></p>"),
        ("2 * 3 * 4 and snake_case_name", "<p>2 * 3 * 4 and snake_case_name</p>"),
        ("It is so [1][2], not [999].", "<p>It is so <button>1</button><button>2</button>, not [999].</p>"),
        ("# Big\n### Small #", "<h3>Big</h3><h5>Small</h5>"),
        ("- a\n- b\n  - c\n- d", "<ul><li>a</li><li>b<ul><li>c</li></ul></li><li>d</li></ul>"),
        ("3. x\n4. y", '<ol start="3"><li>x</li><li>y</li></ol>'),
        ("> quoted\n> more", "<blockquote><p>quoted<br>more</p></blockquote>"),
        ("```sql\nSELECT '<b>'\n```\nz", "<pre tabindex=\"0\"><code>SELECT '&lt;b&gt;'</code></pre><p>z</p>"),
        ("```\nnever closed **x**", '<pre tabindex="0"><code>never closed **x**</code></pre>'),
        ("a\n\n---\n\nb", "<p>a</p><hr><p>b</p>"),
        ("<b>x</b> & &amp;", "<p>&lt;b&gt;x&lt;/b&gt; &amp; &amp;amp;</p>"),
        ("[x](javascript:alert(1)) [z](//e.org)", "<p>[x](javascript:alert(1)) [z](//e.org)</p>"),
        (r"\*not\* \[1\]", "<p>*not* [1]</p>"),
    ],
)
async def test_markdown_is_shown_as_people_expect(page, text, html):
    assert await shown(page, text) == html


async def test_links_to_what_is_cited_say_where_they_go(page):
    link = await shown(page, "[our **bank**](https://cited.example/x)")
    assert 'href="https://cited.example/x" target="_blank" rel="noopener noreferrer nofollow">' in link
    assert "<bdi>cited.example</bdi>" in link


@pytest.mark.parametrize(
    "text",
    [
        "[our bank](https://evil.example/?q=secret)",
        "[our bank](<https://evil.example/>)",
        "[our bank](HTTPS://EVIL.example)",
        "**[our bank](https://evil.example/x)**",
        "- [our bank](https://evil.example/x)",
        "| a |\n|---|\n| [our bank](https://evil.example/x) |",
        "> # [our bank](https://cited.example@evil.example/)",
        "[our bank](https://cited.example.evil.example/)",
        "![our bank](https://evil.example/p.png) evil.example",
    ],
)
async def test_links_elsewhere_and_pictures_are_words_only(page, text):
    html = await shown(page, text)
    assert "our bank" in html
    assert "evil.example" in html
    assert not re.search(r"<(?:a|img)\b|href|src=|secret", html)


async def test_tables_have_heads_and_alignment(page):
    table = await shown(page, "| Region | Total |\n|:--|--:|\n| EU | 8,300 |\n| a \\| b |\n\nafter")
    assert '<th class="at-start" scope="col">Region</th><th class="at-end" scope="col">Total</th>' in table
    assert '<td class="at-start">a | b</td><td class="at-end"></td>' in table
    assert table.endswith("<p>after</p>")


HOSTILE = {
    "stars": "*" * 60_000,
    "openers": "**a " * 15_000,
    "brackets": "[" * 60_000,
    "ticks": "`a" * 30_000,
    "quotes": "> " * 20_000 + "x",
    "bullets": "- " * 20_000,
    "underscores": "_a_b" * 15_000,
    "dividers": "|-" * 20_000 + "\n" + "|-" * 20_000,
    "blanks": " " * 60_000 + "-|x",
    "links": "[a](" * 15_000,
    "deep list": "\n".join("  " * depth + "- x" for depth in range(300)),
}


async def test_hostile_markdown_takes_no_longer_than_its_length_allows(page):
    for name, text in HOSTILE.items():
        _, seconds = await page.evaluate(SHOWN, text)
        assert seconds < 10, name


async def test_blocks_that_have_not_changed_keep_their_nodes(page):
    kept = """async () => {
      const { show } = await import("/ask/markdown.js");
      const box = document.createElement("div");
      const sources = { mark: () => null, leads: () => false };
      show(box, "first\\n\\nsec", sources);
      const first = box.firstChild;
      show(box, "first\\n\\nsecond\\n\\nthird", sources);
      return [first === box.firstChild, box.textContent];
    }"""
    assert await page.evaluate(kept) == [True, "firstsecondthird"]


MARKED = """async ([passage, answer, mark]) => {
  const { claimsOf, runsIn } = await import("/sources/marking.js");
  return runsIn(passage, claimsOf(answer, mark)).map(([start, end]) => passage.slice(start, end));
}"""


@pytest.mark.parametrize(
    ("passage", "answer", "marked"),
    [
        (
            "Clause 7.1. Price revision, capped at 4 % a year.\n\nClause 8.3. Late-delivery penalty of 2 % a month.",
            "Two recur:\n- Clause 8.3 (in 6): late-delivery penalty of 2 % a month [1].\n- Clause 9 ends it [2].",
            ["Clause 8.3. Late-delivery penalty of 2 % a month"],
        ),
        ("La penalización es del 2% mensual.", "The penalty is 2 % [1].", ["2%"]),
        ("Nothing in common.", "Quite another thing [1].", []),
        ("47 contracts were signed.", "We signed 47 contracts [1]. Others say 48 [2].", ["47 contracts"]),
    ],
    ids=["clause", "other-language", "nothing", "sentence"],
)
async def test_the_words_that_an_answer_rests_on_are_marked(page, passage, answer, marked):
    assert await page.evaluate(MARKED, [passage, answer, 1]) == marked


STREAM = (
    '\ufeff: keep-alive\n\ndata: {"a":"ñ €👩‍👩‍👧"}\r\n\r\ndata:one\rdata: two\r\revent: x\ndata: [DONE]\n\n'
).encode()


async def test_a_stream_is_read_the_same_wherever_it_is_cut(page):
    read = """async ([cuts, bytes]) => {
      const { events } = await import("/gateway/stream.js");
      const all = Uint8Array.from(atob(bytes), (c) => c.charCodeAt(0));
      const found = [];
      for (const cut of cuts) {
        const ends = [...cut, all.length];
        const body = new ReadableStream({ start(controller) {
          ends.forEach((end, n) => controller.enqueue(all.slice(n ? ends[n - 1] : 0, end)));
          controller.close();
        } });
        const data = [];
        for await (const one of events(body, 60_000)) data.push(one);
        found.push(JSON.stringify(data));
      }
      return [...new Set(found)];
    }"""
    places = range(1, len(STREAM))
    cuts = [[at] for at in places] + [list(places)]
    cuts += [sorted(random.Random(seed).sample(places, 5)) for seed in range(20)]
    (found,) = await page.evaluate(read, [cuts, base64.b64encode(STREAM).decode()])
    assert json.loads(found) == ['{"a":"ñ €👩‍👩‍👧"}', "one\ntwo", "[DONE]"]


async def test_the_timeline_puts_calls_where_they_were(page):
    recorded = """async () => {
      const { Recorder } = await import("/ask/recorder.js");
      let now = 1000;
      const entries = [];
      const recorder = new Recorder(entries, () => now);
      const at = (time, event, facts) => { now = 1000 + time; recorder.take({ event, iteration: 1, ...facts }); };
      const start = (time, call_id) => at(time, "tool_call_started", { call_id, tool: "sql_query", arguments: {} });
      const end = (time, call_id, took) => at(time, "tool_call_finished", { call_id, duration_ms: took, status: "ok" });
      at(300, "thought", { thought: "" });
      start(300, "a"); start(310, "b"); end(500, "a", 180);
      // Both notices of this one came at once, at its end.
      start(700, "c"); end(700, "c", 350);
      end(720, "b", 400);
      now = 1900; recorder.words(); now = 2000; recorder.close(false);
      return entries.map(({ kind, call_id, start, end, writes }) => [call_id ?? kind, start, end, writes ?? null]);
    }"""
    assert await page.evaluate(recorded) == [
        ["model", 0, 300, False],
        ["a", 300, 480, None],
        ["b", 310, 710, None],
        ["c", 350, 700, None],
        ["model", 720, 1000, True],
    ]


async def test_times_and_sizes_are_told_in_the_unit_that_gives_a_small_number(page):
    told = """async () => {
      const { duration, age, bytes } = await import("/texts/texts.js");
      return [
        [0, 3.44, 45, 430, 12_345, 83_000, 7_300_000].map(duration),
        [0.2, 130, 90_000].map(age),
        [20_971_520, 1536].map(bytes),
      ];
    }"""
    assert await page.evaluate(told) == [
        ["0s", "3.4ms", "45ms", "0.43s", "12s", "1m 23s", "2h 1m"],
        ["0 secs old", "2 mins old", "1 day old"],
        ["20 MB", "1.5 kB"],
    ]
