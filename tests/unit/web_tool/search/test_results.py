"""One clean list of what a provider found."""

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.web_tool.policy import Policy
from services.web_tool.search.provider import Result
from services.web_tool.search.results import canonical, plain_text, tidy

TODAY = date(2026, 3, 31)


def urls(*found, policy=None, count=20):
    return [one.url for one in tidy([Result(url, "t", "s", "") for url in found], policy or Policy(), count, TODAY)]


@pytest.mark.parametrize(
    "other",
    [
        "https://example.com/a/b?x=1&y=2",
        "http://example.com/a/b?x=1&y=2",
        "https://www.example.com/a/b?x=1&y=2",
        "https://EXAMPLE.com./a/b/?x=1&y=2",
        "https://example.com:443/a/b?x=1&y=2",
        "https://example.com/a/b?y=2&x=1",
        "https://example.com/a/b?x=1&y=2#part",
        "https://example.com/a/b?x=1&y=2#:~:text=part",
        "https://example.com/a/b?x=1&y=2&utm_source=s&utm_medium=m",
        "https://example.com/a/b?gclid=1&x=1&fbclid=2&y=2&msclkid=3",
        "https://example.com/a/b/amp?x=1&y=2",
        "https://amp.example.com/a/b?x=1&y=2&amp=1",
    ],
)
def test_addresses_of_one_page_are_one_result(other):
    assert urls("https://example.com/a/b?x=1&y=2", other) == ["https://example.com/a/b?x=1&y=2"]


@pytest.mark.parametrize(
    "other",
    [
        "https://example.com/a",
        "https://example.com/A/b?x=1&y=2",
        "https://example.com/a/b?x=1&y=3",
        "https://example.com/a/b?x=1",
        "https://sub.example.com/a/b?x=1&y=2",
        "https://example.com/a/b?x=1&y=2&page=2",
    ],
)
def test_other_pages_are_other_results(other):
    assert len(urls("https://example.com/a/b?x=1&y=2", other)) == 2


def test_the_first_address_of_a_page_gets_what_only_the_second_has():
    twice = [Result("https://a.example/", "A", "", ""), Result("https://www.a.example", "other", "text", "3 days ago")]
    assert tidy(twice, Policy(), 5, TODAY) == [Result("https://a.example/", "A", "text", "2026-03-28")]


@pytest.mark.parametrize(
    "url",
    [
        "", "nonsense", "javascript:alert(1)", "file:///etc/passwd", "http://10.0.0.1:22/", "http://localhost/",
        "https://user:pass@example.com/", "https://example.com\\@evil.example/", "https://forbidden.example/x",
        "data:text/html,x", "//example.com/", "http://redis/", "http://[::1]/", "http://example.com/\ud800", "http://xn--/",
        'http://example.com/"onload=', "http://127.0.0.1.nip.io/", "http://169.254.169.254/latest/meta-data/",
    ],
)  # fmt: skip
def test_a_page_that_may_not_be_named_is_left_out(url):
    policy = Policy(denied_domains=("forbidden.example",))
    assert urls(url, "https://allowed.example/", policy=policy) == ["https://allowed.example/"]


@pytest.mark.parametrize("query", ["a&" * 900, "a=1;" * 500, "&".join(f"x{n}=%ff" for n in range(300)), "%" * 900])
def test_a_url_of_many_parameters_does_not_cost_the_other_results(query):
    found = urls(f"https://odd.example/?{query}", "https://example.com/")
    assert found[-1] == "https://example.com/"


def test_no_more_results_than_asked_for():
    assert len(urls(*(f"https://example.com/{n}" for n in range(9)), count=4)) == 4


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("<strong>copper</strong> price", "copper price"),
        ("R&amp;D &#39;24 &lt;b&gt;bold&lt;/b&gt;", "R&D '24 bold"),
        ("a < b and c > d", "a < b and c > d"),
        ("two\n\t lines", "two lines"),
        ("vis\u200bible\U000e0041", "visible"),
        ("<!-- ignore all --> text", "text"),
        ("<em>precio</em>, <em>hoy</em>.", "precio, hoy."),
        ("¿qué <b>es</b>?", "¿qué es?"),
        ("x" * 50, "x" * 29 + "…"),
    ],
)
def test_titles_and_snippets_are_plain_text_on_one_line(text, plain):
    assert plain_text(text, 30) == plain


def test_a_picture_in_a_snippet_is_not_fetched_by_whoever_shows_it():
    assert "![" not in plain_text("see ![x](https://evil.example/?q=data)", 100)


@given(st.text(max_size=300))
def test_any_text_becomes_one_bounded_line(text):
    plain = plain_text(text, 40)
    assert len(plain) <= 40
    assert "\n" not in plain


@given(st.text(max_size=60))
def test_any_query_of_a_url_has_a_canonical_form(text):
    assert canonical(f"https://example.com/?{text.replace('#', '')}").startswith("example.com")
