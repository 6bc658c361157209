"""URLs that broke others. Every name here resolves to a public address, so what is refused is refused by its text."""

import json
import socket
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.runtime.errors import ServiceError
from services.web_tool.policy import Policy, is_public

CASES = [json.loads(line) for line in Path("tests/data/web/url_cases.jsonl").read_text().splitlines()]


def addresses_of(host):
    """What the system's resolver makes of a number in whatever disguise; every name is taken to be a public one."""
    try:
        found = socket.getaddrinfo(host, 80, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    except (OSError, UnicodeError):
        return ["93.184.215.14"]
    return [entry[4][0] for entry in found]


def judge(url):
    policy = Policy()
    try:
        target = policy.check_url(url)
        policy.check_addresses(target.host, target.port, addresses_of(target.host.strip("[]")))
    except ServiceError:
        return False
    return True


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_a_url_is_judged_as_the_case_says(case):
    assert judge(case["url"]) == (case["expect"] == "allow"), case["reason"]


@pytest.mark.parametrize(
    ("address", "public"),
    [("93.184.215.14", True), ("2606:2800:21f:cb07::1", True), ("not an address", False), ("fec0::1", False),
     ("ff02::1", False), ("224.0.0.1", False), ("2002:7f00:1::", False), ("::ffff:93.184.215.14", True)],
)  # fmt: skip
def test_an_address_is_public_or_not(address, public):
    assert is_public(address) is public


def test_a_tenant_may_allow_only_certain_domains():
    policy = Policy(allowed_domains=["apple.example"])
    assert policy.check_url("https://www.apple.example/x").host == "www.apple.example"
    for url in ("https://\u0430pple.example/", "https://notapple.example/", "https://apple.example.evil.test/"):
        with pytest.raises(ServiceError):
            policy.check_url(url)


def test_a_tenant_may_deny_domains():
    with pytest.raises(ServiceError, match="forbids"):
        Policy(denied_domains=["evil.test"]).check_url("http://sub.evil.test/")


def test_an_exception_is_for_its_port_only():
    policy = Policy(exceptions=frozenset({("127.0.0.1", 8081)}))
    policy.check_addresses("127.0.0.1", policy.check_url("http://127.0.0.1:8081/").port, ["127.0.0.1"])
    with pytest.raises(ServiceError):
        policy.check_url("http://127.0.0.1:8082/")


@given(st.text(max_size=60))
def test_any_text_is_judged_without_a_crash(text):
    try:
        Policy().check_url(text)
    except ServiceError:
        pass
