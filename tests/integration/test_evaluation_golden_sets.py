"""The demo company's golden sets: every statement runs, every number and word is that of the demo's own world."""

import functools
from pathlib import Path

import pytest

from demo import database, documents, tenants, web_fixture
from demo.contracts import write as write_contract
from demo.world import generate
from services.evaluation.golden import lock, sets
from services.evaluation.golden.checking import leaks
from services.evaluation.golden.item import PAGE, TABLE, Stratum
from services.evaluation.golden.split import check_apart
from services.evaluation.tools import expectation
from services.evaluation.tools.postgres import connected

FOLDERS = {name: Path("demo/evals") / name for name in ("tools", "answers")}
TOOLS = {"vector_search", "sql_query", "web_search", "contracts_signed", "payments_by_status"}


def both_halves(name):
    # Checked whole, printed never: what fails here names an item and not what a system made of it.
    return [one for half in sets.HALVES for one in sets.read_half(FOLDERS[name], half).items]


ITEMS = {name: both_halves(name) for name in FOLDERS}


def test_no_document_of_one_set_s_test_half_is_in_the_other_s_development_half():
    assert leaks(list(FOLDERS.values())) == []


@pytest.fixture
async def executes(postgres_server):
    loaded = await database.load_database(postgres_server.dsn(), tenants.describe("demo"), "p w")
    async with connected(loaded.dsn) as connection:
        yield connection


@functools.cache
def known_sources():
    found = {one.document_id for one in documents.of_tenant("demo")}
    found |= {f"{PAGE}{page.slug}" for page in web_fixture.read_pages()}
    return found | {f"{TABLE}{name}" for name in database.tables_of("demo").rows}


def all_calls(item):
    return [*item.calls, *(call for calls in item.other_calls for call in calls)]


def text_of(source):
    """What a source says; nothing for a table."""
    if source.startswith(TABLE):
        return ""
    if source.startswith(PAGE):
        return next(page.text for page in web_fixture.read_pages() if page.slug == source.removeprefix(PAGE))
    world = generate()
    if source in world.conditions:
        return write_contract(world, world.contract(source))
    [path] = Path("demo/texts/policies").glob(f"*/{source}.md")
    return path.read_text(encoding="utf-8")


def said(value):
    """A number as people write it in both languages, and as it is."""
    if not isinstance(value, float):
        return str(value)
    english = f"{value:,.2f}"
    return f"{english} {english.translate(str.maketrans(',.', '.,'))} {value:.0f}"


@pytest.mark.parametrize("name", FOLDERS)
def test_the_halves_are_apart_locked_and_of_both_languages(name):
    check_apart(ITEMS[name])
    lock.verify(FOLDERS[name])
    by_language = {
        language: {one.family for one in ITEMS[name] if one.language == language} for language in ("es", "en")
    }
    assert by_language["es"] == by_language["en"]


def test_there_are_as_many_items_as_the_sets_promise():
    assert sum(bool(one.calls) for one in ITEMS["tools"]) >= 200
    assert len(ITEMS["answers"]) >= 60
    for name in FOLDERS:
        halves = [one.split for one in ITEMS[name]]
        # Documents that both sets ask about have gone to development in both.
        assert min(halves.count("dev"), halves.count("test")) >= 0.3 * len(halves)
    strata = {(one.split, one.stratum) for one in ITEMS["answers"]}
    wanted = (Stratum.SINGLE_HOP, Stratum.MULTI_HOP, Stratum.FALSE_PREMISE, Stratum.UNANSWERABLE)
    assert strata >= {(half, stratum) for half in sets.HALVES for stratum in wanted}


@pytest.mark.parametrize("name", FOLDERS)
def test_sources_exist_and_tools_are_those_of_the_demo_tenant(name):
    known = known_sources()
    for item in ITEMS[name]:
        assert {*item.sources, *item.made_from} <= known, item.id
        assert {way.tool for call in all_calls(item) for way in call.ways} <= TOOLS, item.id


def test_an_item_has_a_reference_unless_nothing_answers_it():
    for item in ITEMS["answers"]:
        refused = item.stratum is Stratum.UNANSWERABLE
        assert (item.reference is None, not item.calls, not item.contains) == (refused, refused, refused), item.id


@pytest.mark.parametrize("name", FOLDERS)
async def test_every_statement_runs(executes, name):
    statements = {
        found
        for item in ITEMS[name]
        for call in all_calls(item)
        for way in call.ways
        for wanted in way.arguments.values()
        if (found := (expectation.sql_of(wanted) or ("",))[0])
    }
    assert statements
    for statement in sorted(statements):
        assert (await executes.rows(statement, [])).column_count


async def test_what_an_answer_must_say_is_what_the_sources_say(executes):
    for item in ITEMS["answers"]:
        rows = [
            said(value)
            for call in item.calls
            for way in call.ways
            for wanted in way.arguments.values()
            if (statement := expectation.sql_of(wanted))
            for row in (await executes.rows(statement[0], [])).rows
            for value in row
        ]
        truth = " ".join([*map(text_of, item.sources), *rows]).casefold()
        for forms in item.contains:
            assert any(form.casefold() in truth for form in forms), (item.id, forms)
            assert any(form.casefold() in item.reference.casefold() for form in forms), (item.id, forms)
