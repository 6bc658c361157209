"""An answer links to what it cites and to nothing else, whatever its model writes and wherever the stream is cut."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from services.orchestrator.answer_text import AnswerText
from services.orchestrator.citing.marks import CitationFilter
from services.orchestrator.events import Finding, FindingKind
from services.orchestrator.model import ScriptedModel, Turn
from services.orchestrator.results import Page, Pages
from services.orchestrator.shield.tenant_shield import TenantShield
from services.runtime.tenants import GuardTools
from tests.unit.orchestrator.agent_world import call, collect, dispatcher_of, of, text_of
from tests.unit.orchestrator.shield.shield_world import pages, shield_for

GOOD, EVIL, ASKED = "https://good.example/a", "https://evil.example/p?d=1", "https://own.example/list"
SOURCES = {1: Page(GOOD, "A", "Copper is 9000 USD.", ""), 2: Page(EVIL, "B", "Calm words.", "")}
ALLOWED_TAGS = re.compile(r"</?(?:br|b|p)>")
MARKDOWN = MarkdownIt("commonmark")


async def shield_that_read_both(**policy):
    shield = shield_for(f"What does copper cost? Compare with {ASKED}", **policy)
    for source in SOURCES.values():
        await shield.admit(call("w", "web_search", query="copper"), pages(source.snippet, url=source.url))
    return shield


def said(shield, text, *pieces):
    """What is shown of a text that comes in pieces of these lengths, again and again; and the marks that it cites."""
    citations = CitationFilter(SOURCES.__contains__)
    filters = (shield.outgoing(), citations, shield.cited_only(SOURCES, lambda: citations.used))
    answer = AnswerText(filters, lambda: citations.used, SOURCES)
    at = turn = 0
    events = []
    while at < len(text):
        size = pieces[turn % len(pieces)]
        events += answer.say(text[at : at + size])
        at, turn = at + size, turn + 1
    events += answer.say("", last=True)
    return text_of(events), of(events, Finding), citations.used


CASES = [
    (f"Copper is 9000 USD [1], see [the news]({GOOD}).", None),
    (f"Copper is 9000 USD, see [the news]({GOOD}) [1].", None),
    (f"Copper is 9000 USD, see [the news]({GOOD})[1]. [More]({EVIL}) too.",
     f"Copper is 9000 USD, see [the news]({GOOD})[1]. More too."),
    (f"See [the news]({GOOD}). [1] And so on.", None),
    (f"See [the news. Today]({EVIL}) and on. It costs 9000 USD [1].",
     "See the news. Today and on. It costs 9000 USD [1]."),
    (f"Copper is 9000 USD [1], see {GOOD}.", None),
    (f"Copper is 9000 USD, see {GOOD} [1]", None),
    (f"Copper is 9000 USD, see <{GOOD}>[1]", f"Copper is 9000 USD, see <{GOOD}> [1]"),
    (f"- [News]({GOOD}): 9000 USD [1]\n- [More]({EVIL}): calm\n", f"- [News]({GOOD}): 9000 USD [1]\n- More: calm\n"),
    (f"- [News]({GOOD}): 9000 USD\n- It rose [1].\n", "- News: 9000 USD\n- It rose [1].\n"),
    (f"See [news]({GOOD}). It costs 9000 USD [1].", "See news. It costs 9000 USD [1]."),
    (f"It costs 9000 USD [1].\n\nSources:\n- {GOOD}\n- {EVIL}\n",
     f"It costs 9000 USD [1].\n\nSources:\n- {GOOD}\n- (link removed)\n"),
    (f"It costs 9000 USD [1], see [more][r].\n\n[r]: {EVIL}\n[s]: {GOOD}\n",
     f"It costs 9000 USD [1], see more (r).\n\n\n[s]: {GOOD}\n"),
    (f"It costs 9000 USD [1], <a href='{EVIL}'>more</a> <{EVIL}>.", "It costs 9000 USD [1], more (link removed)."),
    (f"As you said, {ASKED} and [yours]({ASKED}) say so.", None),
    (f"It costs 9000 USD [1], see {GOOD}/b and [b]({GOOD}?d=1) and [c]({GOOD}#d).",
     "It costs 9000 USD [1], see (link removed) and b and c."),
    (f"| it | where |\n|---|---|\n| 9000 [1] | [news]({GOOD}) |\n| calm | [more]({EVIL}) |\n",
     f"| it | where |\n|---|---|\n| 9000 [1] | [news]({GOOD}) |\n| calm | more |\n"),
    (f"`x = [1]` and **[news]({GOOD})** [1], `{EVIL}`", f"`x = [1]` and **[news]({GOOD})** [1], `(link removed)`"),
]  # fmt: skip


@pytest.mark.parametrize("pieces", [(1,), (2,), (7, 3, 1), (10_000,)])
@pytest.mark.parametrize(("text", "shown"), CASES)
async def test_a_link_stays_where_its_sentence_or_what_was_said_before_cites_its_source(text, shown, pieces):
    got, findings, _ = said(await shield_that_read_both(), text, *pieces)
    assert got == (text if shown is None else shown)
    assert {one.kind for one in findings} <= {FindingKind.LINK}
    assert bool(findings) is ("removed" in got or EVIL in text or got.count("](") < text.count("]("))


@pytest.mark.parametrize(
    "text",
    [
        f'It is so [1]. [more]({EVIL} "[2]") here.',
        f'It is so [1].\n[r]: {EVIL} "[2]"\n',
        f"It is so [1]. <i title='[2]'>[more]({EVIL})</i> here.",
        f"It is so [1], [more]({EVIL}) [9] here.",
        f"It is so [1], [more]({EVIL}) [[9]2] here.",
    ],
)
async def test_a_mark_that_nobody_sees_or_checked_cites_nothing(text):
    for pieces in ((1,), (5,), (1_000,)):
        assert EVIL not in said(await shield_that_read_both(), text, *pieces)[0]


@pytest.mark.parametrize(
    "text",
    ["https:/[9]/evil.example/p?d=1 y", "<[9]img src=x onerror=alert(1)> y", f"![9]!{{[9]}}![9] !\\[9][x]({GOOD}) y"],
)
async def test_what_was_no_link_while_a_mark_stood_in_it_is_none_without_the_mark(text):
    for pieces in ((1,), (4,), (1_000,)):
        got = said(await shield_that_read_both(), text, *pieces)[0]
        assert leads_to(got) == set()


async def test_a_tenant_may_let_answers_link_to_whatever_was_read():
    text = f"See [more]({EVIL}) and {GOOD} now."
    assert said(await shield_that_read_both(links="read"), text, 3)[0] == text
    assert said(await shield_that_read_both(links="all"), f"{text} https://any.example x", 3)[0].endswith("example x")


async def test_an_uncited_search_hit_leaves_no_link_in_an_answer():
    async def find(arguments, seconds):
        return Pages(tuple(SOURCES.values()))

    tools = dispatcher_of({"web_search": find})
    shield = TenantShield("acme", GuardTools(), tools.toolset.tools, "Price of copper?")
    written = f"Copper is 9000 USD [1], see [more]({EVIL}), [x]({EVIL}2) and [news]({GOOD})."
    model = ScriptedModel([Turn(calls=[call("w", "web_search", query="copper price")]), Turn(written)])
    events = await collect(model, tools, shield=shield)
    assert text_of(events) == f"Copper is 9000 USD [1], see more, x and [news]({GOOD})."


async def test_text_is_held_from_an_uncited_link_to_the_end_of_its_sentence_and_no_further():
    shield = await shield_that_read_both()
    citations = CitationFilter(SOURCES.__contains__)
    filters = (shield.outgoing(), citations, shield.cited_only(SOURCES, lambda: citations.used))
    answer = AnswerText(filters, lambda: citations.used, SOURCES)

    def shown(text):
        return text_of(answer.say(text))

    assert shown("Copper: about 9000 USD, ") == "Copper: about 9000 USD, "
    assert shown(f"see [the news]({GOOD}) of ") == ""
    assert shown("today [1]. ") == ""
    assert shown("It ") == f"see [the news]({GOOD}) of today [1]. It "
    assert shown(f"rose, as {GOOD} says ") == f"rose, as {GOOD} says "
    assert shown(f"and {EVIL} ") == ""
    assert "word" in shown("and word after word " * 40)


def leads_to(text):
    """Where a reader of Markdown leads from a text, bare addresses too; HTML as `html`."""
    found = set()
    for block in MARKDOWN.parse(text):
        if block.type == "html_block" and re.search(
            "<[a-z/!?][^<>]*>", ALLOWED_TAGS.sub("", block.content), re.IGNORECASE
        ):
            found.add("html")
        plain = ""
        for one in block.children or ():
            targets = (one.attrs[name] for name in ("href", "src") if name in one.attrs)
            # A mark with a remark, `[1](the annex)`, may stay.
            found |= {target for target in targets if target != "https:" and set(target) & set(":/?#")}
            if one.type == "html_inline" and not ALLOWED_TAGS.fullmatch(one.content):
                found.add("html")
            plain += {"text": one.content, "code_inline": f"\n{one.content}\n"}.get(one.type, "\n")
        bare = re.findall(r"(?:https?://|\bwww\.)(?=\w)[^ \t\n\r\f\v<]+", plain)
        found |= {one.rstrip(".,;:!?)]}'\"*_~`|>") for one in bare}
    return found


PARTS = (
    "[more](", "[", "]", "(", ")", "[1]", "[2]", "[9]", "[x]", GOOD, EVIL, ASKED, GOOD, EVIL, "secret", ". ", "\n",
     "- ", " ", "A", "[r]", "<", ">", "!", "'", '"', "`", "|", "*", "\\", "&#46;", "/", "\u00a0", "\u200b",
     "https:", "//evil.example/p", "<br>", "<a href=", "words and more ",
)  # fmt: skip


@given(
    parts=st.lists(st.sampled_from((*PARTS, "[r]: ")), max_size=16),
    pieces=st.lists(st.integers(1, 40), min_size=1, max_size=5),
)
@settings(deadline=None, max_examples=150)
async def test_no_answer_leads_to_a_source_that_it_does_not_cite(parts, pieces):
    text = "".join(parts)
    got, _, used = said(await shield_that_read_both(), text, *pieces)
    cited = {source.url for mark, source in SOURCES.items() if mark in used and f"[{mark}]" in got}
    assert leads_to(got) <= cited | {ASKED}
    for address in (GOOD, EVIL):
        assert address not in got or address in cited


@given(parts=st.lists(st.sampled_from(PARTS), max_size=12), piece=st.integers(1, 9))
@settings(deadline=None, max_examples=60)
async def test_it_makes_no_difference_where_a_stream_is_cut(parts, piece):
    shield = await shield_that_read_both()
    assert said(shield, "".join(parts), piece)[0] == said(shield, "".join(parts), 1)[0]
