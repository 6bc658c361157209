import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.web_tool.robots import parse


@pytest.mark.parametrize(
    ("text", "path", "allowed"),
    [
        ("", "/x", True),
        ("User-agent: *\nDisallow: /private", "/private/a", False),
        ("User-agent: *\nDisallow: /private", "/public", True),
        ("User-agent: *\nDisallow: /\n\nUser-agent: sabueso\nAllow: /", "/x", True),
        ("User-agent: *\nAllow: /\nUser-agent: Sabueso\nDisallow: /x", "/x", False),
        ("User-agent: googlebot\nUser-agent: SABUESO\nDisallow: /x", "/x", False),
        ("User-agent: googlebot\nDisallow: /", "/x", True),
        ("User-agent: sabuesobot\nDisallow: /", "/x", True),
        ("User-agent: *\nDisallow: /\nAllow: /ok", "/ok", True),
        ("User-agent: *\nDisallow: /*.pdf$", "/a/b.pdf", False),
        ("User-agent: *\nDisallow: /*.pdf$", "/a/b.pdf?x", True),
        ("User-agent: *\nDisallow: /a%3Cb", "/a%3cb", False),
        ("User-agent: *\nDisallow: /*?session=", "/a?session=1", False),
        ("User-agent: *\nDisallow:", "/x", True),
        ("<html><body>Not found</body></html>", "/x", True),
        ("user-agent:* # all\r\ndisallow:/x # this", "/x", False),
    ],
)
def test_the_rules_of_a_host_are_obeyed(text, path, allowed):
    assert parse(text).can_fetch(f"https://a.test{path}", "sabueso") is allowed


@pytest.mark.parametrize("end", ["\n", "\x0b", "\u2028"])
def test_agents_and_rules_without_number_cost_neither_time_nor_memory(end):
    text = end.join(f"User-agent: a{n}" for n in range(14_000)) + end + end.join(["Disallow: /*a*b"] * 14_000)
    started = time.monotonic()
    assert parse(text + "\nUser-agent: *\nDisallow: /x").can_fetch("https://a.test/y", "sabueso")
    assert time.monotonic() - started < 15


def test_a_pattern_of_wildcards_is_matched_in_linear_time():
    rules = parse("User-agent: *\nDisallow: /" + "*a" * 5000 + "*b")
    started = time.monotonic()
    assert rules.can_fetch("https://a.test/" + "a" * 2000, "sabueso")
    assert time.monotonic() - started < 15


@given(st.text(max_size=200))
def test_any_text_is_read_without_a_crash(text):
    parse(f"User-agent: *\n{text}").can_fetch("https://a.test/x", "sabueso")
