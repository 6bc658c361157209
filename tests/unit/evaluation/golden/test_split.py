"""Development and test: nothing that is behind a question of one half is behind one of the other."""

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.evaluation.golden.item import Item, Stratum
from services.evaluation.golden.split import Leak, check_apart, grouped, parted, sides, ties

documents = st.sampled_from(["a", "b", "c", "d", "e", "table:contracts", "page:copper"])


@st.composite
def sets(draw):
    count = draw(st.integers(0, 25))
    return [
        Item(
            f"q{number}",
            f"Question {number}?",
            "en",
            draw(st.sampled_from([Stratum.SINGLE_HOP, Stratum.MULTI_HOP, Stratum.UNANSWERABLE])),
            sources=tuple(draw(st.lists(documents, max_size=2))),
            made_from=tuple(draw(st.lists(documents, max_size=1))),
            family=draw(st.sampled_from(["", "", "f1", "f2"])),
        )
        for number in range(count)
    ]


@settings(max_examples=25)
@given(sets(), st.floats(0, 1))
def test_no_document_and_no_family_is_on_both_sides(items, share):
    check_apart(parted(items, "set", share))


@settings(max_examples=25)
@given(sets())
def test_every_item_is_kept_as_it_was_but_for_its_half(items):
    assert [replace(one, split="dev") for one in parted(items, "set")] == items


@settings(max_examples=25)
@given(sets(), st.randoms())
def test_the_halves_do_not_depend_on_the_order_of_the_items(items, random):
    before = {one.id: one.split for one in parted(items, "set")}
    shuffled = list(items)
    random.shuffle(shuffled)
    assert {one.id: one.split for one in parted(shuffled, "set")} == before


@settings(max_examples=25)
@given(sets())
def test_groups_hold_every_item_once(items):
    assert Counter(one.id for group in grouped(items) for one in group) == Counter(one.id for one in items)


@pytest.mark.parametrize("share", [0.3, 0.5, 0.8])
def test_each_stratum_has_its_share_where_nothing_ties_items(share):
    kinds = [Stratum.SINGLE_HOP, Stratum.UNANSWERABLE]
    items = [Item(f"{kind}-{n}", "?", "en", kind, made_from=(f"{kind}{n}",)) for kind in kinds for n in range(50)]
    halves = Counter((one.stratum, one.split) for one in parted(items, "set", share))
    for kind in kinds:
        assert abs(halves[kind, "dev"] - 50 * share) <= 1


@settings(max_examples=40)
@given(st.dictionaries(st.text(min_size=1, max_size=4), st.integers(1, 9), max_size=20), st.floats(0, 1))
def test_documents_are_parted_by_weight_and_whatever_their_order(sizes, share):
    found = sides(sizes, "set", share)
    assert set(found) == set(sizes)
    assert sides(dict(reversed(sizes.items())), "set", share) == found
    dev = sum(size for document, size in sizes.items() if found[document] == "dev")
    assert abs(dev - share * sum(sizes.values())) <= max(sizes.values(), default=0)


def test_a_table_ties_nothing_and_a_page_does():
    item = Item("q", "?", "en", Stratum.SINGLE_HOP, sources=("table:contracts", "page:copper"), family="copper")
    assert ties(item) == ["document page:copper", "family copper"]


def test_a_share_is_a_share():
    with pytest.raises(ValueError, match="within"):
        parted([], "set", 1.5)


def test_a_document_behind_both_halves_is_named():
    one = Item("q1", "?", "en", Stratum.SINGLE_HOP, sources=("a",))
    other = replace(one, id="q2", split="test")
    with pytest.raises(Leak, match="document a is behind `q1` \\(dev\\) and `q2` \\(test\\)"):
        check_apart([one, other])
