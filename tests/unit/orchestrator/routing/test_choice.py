"""Which tools are chosen together, from scores alone."""

from hypothesis import given, settings
from hypothesis import strategies as st

from services.orchestrator.routing.choice import candidates, committed
from services.orchestrator.routing.examples import NONE, OURS
from services.orchestrator.routing.head import SEVERAL

SCORES = st.fixed_dictionaries(dict.fromkeys((*OURS, NONE, SEVERAL), st.floats(-0.5, 1.5)))


def scores(several=0.0, none=0.0, **others):
    return {**dict.fromkeys(OURS, 0.0), NONE: none, SEVERAL: several, **others}


def test_one_clear_score_is_one_tool():
    found = committed().choose(scores(sql_query=1.0), [])
    assert found.labels == {"sql_query"}
    assert found.confidence > 0.85


def test_two_clear_scores_are_two_tools():
    found = committed().choose(scores(several=1.0, sql_query=0.9, web_search=0.9), [])
    assert found.labels == {"sql_query", "web_search"}
    assert found.confidence > 0.85


def test_no_tool_is_a_set_too():
    found = committed().choose(scores(none=1.0), [])
    assert (found.labels, found.confidence > 0.85) == (frozenset(), True)


def test_between_one_and_two_there_is_a_doubt():
    steps = [step / 20 for step in range(21)]
    found = [committed().choose(scores(several=one, sql_query=0.9, web_search=one), []) for one in steps]
    sizes = [len(one.labels) for one in found]
    assert sizes == sorted(sizes)
    assert (sizes[0], sizes[-1]) == (1, 2)
    assert min(one.confidence for one in found) < 0.65


def test_parts_that_say_two_tools_make_two_likelier():
    whole = scores(several=0.4, sql_query=0.6, vector_search=0.4)
    alone = committed().choose(whole, [])
    parted = committed().choose(whole, [scores(sql_query=1.0), scores(vector_search=1.0)])
    assert parted.labels == {"sql_query", "vector_search"}
    assert alone.labels != parted.labels or parted.confidence > alone.confidence


def test_tools_of_others_are_among_the_candidates():
    assert frozenset(["sky"]) in candidates(scores(sky=0.9), [])


@settings(deadline=None, max_examples=50)
@given(SCORES, st.lists(SCORES, max_size=3))
def test_a_confidence_is_a_probability(whole, parts):
    found = committed().choose(whole, parts)
    assert found.labels in candidates(whole, parts)
    assert 1 / 8 <= found.confidence <= 1
