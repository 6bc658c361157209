import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.web_tool.check import check_lines
from services.web_tool.policy import Policy

DATA = Path("tests/data/web")
LINES = (DATA / "cases.jsonl").read_text().splitlines()
# What is refused here says so by itself: none of the names is looked up.
OUR_LINES = (DATA / "url_cases.jsonl").read_text().splitlines()
PUBLIC_URLS = (DATA / "public_urls.txt").read_text().splitlines()


def verdicts(*cases, **options):
    lines = [case if isinstance(case, str) else json.dumps(case) for case in cases]
    return [(one["id"], one["verdict"]) for one in check_lines(lines, **{"resolve": False, **options})]


def test_the_corpus_is_judged_as_it_says_where_that_needs_no_fetch():
    groups = ("address", "parser", "scheme", "port", "name")
    expected = {case["id"]: case["expect"] for case in map(json.loads, LINES) if case["category"] in groups}
    found = dict(verdicts(*LINES))
    assert {id: found[id] for id in expected} == expected


@pytest.mark.parametrize("expect", ["reject", "allow"])
def test_ways_of_writing_a_url_are_judged_by_what_they_mean(expect):
    expected = {case["id"]: case["url"] for case in map(json.loads, OUR_LINES) if case["expect"] == expect}
    found = dict(verdicts(*OUR_LINES))
    assert not [url for id, url in expected.items() if found[id] != expect]


def test_urls_of_ordinary_places_are_allowed():
    found = verdicts(*({"id": url, "url": url} for url in PUBLIC_URLS))
    assert len(found) > 300
    assert not [url for url, verdict in found if verdict != "allow"]


@pytest.mark.parametrize(
    "url", ["http://a.test/" + "a" * 9000, f"http://{'a' * 9000}.test/", "http://a.test/?" + "a" * 9000]
)
def test_a_url_of_more_than_eight_kilobytes_is_refused(url):
    assert verdicts({"id": "a", "url": url}) == [("a", "reject")]


@pytest.mark.parametrize(
    ("more", "verdict"),
    [
        ({}, "allow"),
        ({"addresses": ["93.184.215.14"]}, "allow"),
        ({"addresses": ["93.184.215.14", "fd00::5"]}, "reject"),
        ({"dns": ["::ffff:169.254.169.254"]}, "reject"),
        ({"addresses": []}, "reject"),
        ({"redirects": ["/next", "https://b.test/"]}, "allow"),
        ({"redirects": ["https://b.test/", "http://b.test/"]}, "reject"),
        ({"redirects": ["//10.0.0.1/"]}, "reject"),
        ({"redirects": ["file:///etc/passwd"]}, "reject"),
        ({"redirects": ["///10.0.0.1/"]}, "reject"),
        ({"redirects": ["http:/10.0.0.1/"]}, "reject"),
        ({"redirects": ["/a", "/b", "/a"]}, "reject"),
        ({"redirects": ["/1", "/2", "/3", "/4", "/5"]}, "allow"),
        ({"redirects": ["/1", "/2", "/3", "/4", "/5", "/6"]}, "reject"),
    ],
)
def test_what_a_line_says_of_the_world_is_judged_too(more, verdict):
    assert verdicts({"id": "a", "url": "http://a.test/", **more}) == [("a", verdict)]


def test_what_could_not_be_told_without_a_lookup_is_said():
    (row,) = check_lines(['{"id": "a", "url": "http://a.test/"}'], resolve=False)
    assert "without looking up" in row["reason"]
    (row,) = check_lines(['{"id": "a", "url": "http://93.184.215.14/"}'], resolve=False)
    assert row["reason"] == ""


def test_names_are_looked_up_when_that_is_asked_for():
    cases = ({"id": 1, "url": "http://no-such-host.invalid/"}, {"id": 2, "url": "http://93.184.215.14/"})
    assert verdicts(*cases, resolve=True) == [("1", "reject"), ("2", "allow")]


def test_a_policy_may_be_given():
    policy = Policy(denied_domains=["a.test"])
    assert verdicts({"id": "a", "url": "http://x.a.test/"}, policy=policy) == [("a", "reject")]


def test_lines_that_are_none_are_told_by_their_number():
    found = list(check_lines(["", "nonsense", "[1]", '{"id": "x"}'], resolve=False))
    assert [row["id"] for row in found] == ["line 2", "line 3", "x"]
    assert {row["verdict"] for row in found} == {"reject"}


@given(st.text(max_size=60))
def test_any_url_is_judged_without_a_crash(text):
    (row,) = check_lines([json.dumps({"id": "a", "url": text})], resolve=False)
    assert row["verdict"] in ("allow", "reject")
