import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.gateway.mcp.sessions import Sessions

SECRET = "s" * 32


class Clock:
    now = 1_800_000_000.0

    def __call__(self):
        return self.now


def test_a_session_is_known_to_every_gateway_with_the_same_secret():
    name = Sessions(SECRET).open("acme")
    assert Sessions(SECRET).holds(name, "acme")
    assert not Sessions("t" * 32).holds(name, "acme")


def test_a_session_belongs_to_its_tenant():
    sessions = Sessions(SECRET)
    name = sessions.open("acme")
    assert not sessions.holds(name, "acm")
    assert not sessions.holds(name, "acmee")


def test_no_two_sessions_have_the_same_name():
    sessions = Sessions(SECRET)
    names = {sessions.open("acme") for _ in range(1_000)}
    assert len(names) == 1_000
    assert all(len(one) == 56 and one.isascii() and one.isprintable() for one in names)


def test_a_session_lasts_as_long_as_it_shall():
    clock = Clock()
    sessions = Sessions(SECRET, ttl_seconds=60, clock=clock)
    name = sessions.open("acme")
    clock.now += 59
    assert sessions.holds(name, "acme")
    clock.now += 2
    assert not sessions.holds(name, "acme")


def test_an_ended_session_is_open_no_more():
    sessions = Sessions(SECRET)
    name, other = sessions.open("acme"), sessions.open("acme")
    sessions.end(name)
    assert not sessions.holds(name, "acme")
    assert sessions.holds(other, "acme")


@given(st.text(max_size=80))
def test_no_invented_name_is_a_session(name):
    assert not Sessions(SECRET).holds(name, "acme")


@given(st.integers(0, 55), st.sampled_from("ABCabc019-_"))
def test_no_altered_name_is_a_session(place, character):
    sessions = Sessions(SECRET)
    name = sessions.open("acme")
    altered = name[:place] + character + name[place + 1 :]
    assert sessions.holds(altered, "acme") == (altered == name)


@pytest.mark.parametrize("character", ["\n", " ", "=", "+", "/"])
def test_a_name_has_one_spelling(character):
    sessions = Sessions(SECRET)
    name = next(one for one in iter(lambda: sessions.open("acme"), None) if "-" in one and "_" in one)
    for other in (name + character, character + name, name.replace("-", "+"), name.replace("_", "/")):
        assert not sessions.holds(other, "acme")
