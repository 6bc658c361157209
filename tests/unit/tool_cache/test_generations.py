"""What an entry depends on, and what an invalidation touches."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.runtime.errors import InvalidField
from services.tool_cache.generations import MOST_SOURCES, changes, dependencies, require_sources

TABLE = "table:main/public.contracts"
names = st.text("abc.*/:", min_size=1, max_size=5)
sources = st.builds("{}:{}".format, st.sampled_from(["table", "collection", "source"]), names) | st.just("*")


def forgets(tool, changed, of, made_from):
    return bool(set(changes(tool, changed)) & set(dependencies(of, made_from)))


def test_a_result_depends_on_its_tool_its_sources_and_their_database():
    assert set(dependencies("sql_query", [TABLE])) == {"*", "tool:sql_query", TABLE, "source:main"}


@given(sources, st.lists(sources, max_size=3))
def test_whatever_a_result_was_made_from_forgets_it(source, others):
    assert forgets("", [source], "t", [*others, source])


@given(st.lists(sources, max_size=3), sources)
def test_what_was_made_from_everything_is_forgotten_by_anything(others, changed):
    assert forgets("", [changed], "t", [*others, "*"])
    assert forgets("", ["*"], "t", others)


@given(names.filter(lambda name: not name.endswith("*")), names.filter(lambda name: not name.endswith("*")))
def test_two_collections_do_not_touch_each_other(one, other):
    assert forgets("", [f"collection:{one}"], "t", [f"collection:{other}"]) == (one == other)


def test_a_tool_touches_only_itself():
    assert forgets("a", [], "a", [TABLE])
    assert not forgets("a", [], "b", [TABLE])
    assert not forgets("a", [], "b", ["tool:x"])


@pytest.mark.parametrize(
    "source", ["", "table", ":x", "table:", "Table:x", "table:a\nb", "table:a\x00", "t:" + "x" * 257]
)
def test_an_improper_source_is_refused_by_field(source):
    with pytest.raises(InvalidField, match=r"entry\.sources") as caught:
        require_sources([TABLE, source], "entry.sources")
    assert caught.value.metadata == {"field": "entry.sources"}


def test_sources_are_counted_without_repetitions_and_bounded():
    assert require_sources([TABLE, "*", TABLE], "sources") == (TABLE, "*")
    assert len(require_sources((f"table:main/{n}" for n in range(MOST_SOURCES)), "sources")) == MOST_SOURCES
    with pytest.raises(InvalidField, match="at most 64"):
        require_sources((f"table:main/{n}" for n in range(MOST_SOURCES + 1)), "sources")


def test_names_of_tables_may_be_those_that_need_quotes():
    assert require_sources(['table:main/public.Año "2025"'], "sources")
