import json

from hypothesis import given
from hypothesis import strategies as st

from services.gateway.ranking import ordered

scores = st.lists(st.floats(0, 1), max_size=12)


@given(scores, st.none() | st.integers(1, 14))
def test_a_ranking_is_in_order_and_cut_and_keeps_its_other_fields(found, top_n):
    results = [{"index": index, "relevance_score": score} for index, score in enumerate(found)]
    answer = json.loads(ordered(json.dumps({"id": "r", "results": results, "odd": [1]}).encode(), top_n))
    assert (answer["id"], answer["odd"]) == ("r", [1])
    assert [one["relevance_score"] for one in answer["results"]] == sorted(found, reverse=True)[:top_n]
    assert all(found[one["index"]] == one["relevance_score"] for one in answer["results"])


def test_what_is_in_order_stays_as_it_came():
    body = b'{ "results" : [{"index":1,"relevance_score":0.9}, {"index":0,"relevance_score":1e-1}] }'
    assert ordered(body, 2) is body


@given(st.binary(max_size=40))
def test_what_is_no_ranking_stays_as_it_came(body):
    assert ordered(body, 1) is body
    assert ordered(b'{"results": [{"index": 1}]}', 1) == b'{"results": [{"index": 1}]}'
