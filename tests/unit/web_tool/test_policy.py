"""URLs that broke others. Every name here resolves to a public address, so what is refused is refused by its text."""

import json
import socket
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.runtime.errors import ServiceError
from services.web_tool.addresses import is_public
from services.web_tool.policy import Policy

GROUPS = ("address", "parser", "scheme", "port", "name")
ALL = [json.loads(line) for line in Path("tests/data/web/cases.jsonl").read_text().splitlines()]
CASES = [case for case in ALL if case["category"] in GROUPS]


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
    [
        ("93.184.215.14", True),
        ("2606:2800:21f:cb07::1", True),
        ("not an address", False),
        ("fec0::1", False),
        ("ff02::1", False),
        ("2606:4700::1%eth0", False),
        ("224.0.0.1", False),
        ("2002:7f00:1::", False),
        ("::ffff:93.184.215.14", True),
    ],
)
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


@pytest.mark.parametrize(
    "url",
    [
        "http://2130706433/",
        "http://0x7f.1/",
        "http://127.1/",
        "http://1.2.3.08/",
        "http://example.com.0x7f/",
        "http://@a.test/",
        "http://:@a.test/",
        "http://a.test:0/",
        "http://a..test/",
        "http://a.test../",
        "http://-/",
        "http:a.test",
        "http:/a.test",
        "http://a.test\t/",
        "http://a.test/\n",
        "http://a.test/<x>",
        "ftp://a.test/",
        "data:text/html,x",
        "HTTP+UNIX://a.test/",
        "http://[::1%25lo]/",
        "http://[2606:4700::1%eth0]/",
        "http://[v1.a]/",
        "http://a.test:443x/",
        "http://x.svc/",
        "http://xn--/",
        "http://xn--99999999.test/",
        "http://\u212a.localhost/",
        "http://" + "a" * 64 + ".test/",
        "http://a.test/\u202e".replace("/", "\\"),
    ],
)
def test_a_url_that_could_mean_something_else_is_refused(url):
    with pytest.raises(ServiceError):
        Policy().check_url(url)


@pytest.mark.parametrize(
    ("url", "host", "canonical"),
    [
        ("HTTP://EXAMPLE.com.:80/a#b", "example.com", "http://example.com/a"),
        ("https://fa\u00df.de/?q=\u00f1", "xn--fa-hia.de", "https://xn--fa-hia.de/?q=%C3%B1"),
        ("http://\u0430pple.example/", "xn--pple-43d.example", "http://xn--pple-43d.example/"),
        ("http://[2606:4700::1]/", "2606:4700::1", "http://[2606:4700::1]/"),
        ("https://a_b.test:443", "a_b.test", "https://a_b.test"),
    ],
)
def test_a_url_is_fetched_in_its_canonical_form(url, host, canonical):
    target = Policy().check_url(url)
    assert (target.host, target.url.rstrip("/")) == (host, canonical.rstrip("/"))
    assert Policy().check_url(target.url) == target


def test_the_domains_of_a_tenant_may_be_written_in_their_own_script():
    policy = Policy(allowed_domains=["*.FA\u00df.de"])
    assert policy.check_url("http://www.xn--fa-hia.de/")


@pytest.mark.parametrize(
    "rest",
    [
        "?d=" + "QWxhZGRpbjpvcGVuIHNlc2FtZQ" * 8,
        "?d=" + "0a1b2c3d" * 20,
        "p/" + "MFRGGZDFMZTWQ2LK" * 9,
        "?q=" + "word+" * 250,
        "?d=" + "%51%57%78%68%5A%47%52%70%62%6A%70%76%63%47" * 10,
    ],
)
def test_a_url_that_could_carry_data_out_is_refused(rest):
    policy = Policy()
    with pytest.raises(ServiceError, match="carry data out"):
        policy.check_egress(policy.check_url(f"http://a.test/{rest}"))


@pytest.mark.parametrize("host", ["0123456789abcdef" * 3, "ab.cd." * 20 + "ef"])
def test_a_host_that_could_carry_data_out_is_refused(host):
    policy = Policy()
    with pytest.raises(ServiceError, match="carry data out"):
        policy.check_egress(policy.check_url(f"http://{host}.test/"))


@pytest.mark.parametrize(
    "url",
    [
        "https://en.wikipedia.org/wiki/" + "A_long_title_of_an_article_about_copper_" * 4,
        "https://news.test/2025/11/03/" + "how-the-price-of-copper-rose-after-the-summer-" * 4,
        "https://www.google.com/search?q=precio+del+cobre+hoy&hl=es&source=hp&ei=Zx7aZ5eWLuKni-gPj8y5oAo&oq=precio+del+cobre",
        "https://eur-lex.europa.eu/legal-content/ES/TXT/?uri=CELEX:32016R0679",
        "https://bucket.s3.amazonaws.com/a.pdf?X-Amz-Signature=" + "0a1b2c3d" * 8 + "&X-Amz-Date=20251103T100000Z",
    ],
)
def test_a_url_as_people_use_them_is_no_way_out(url):
    policy = Policy()
    policy.check_egress(policy.check_url(url))


@given(st.text(alphabet=st.characters(codec=None), max_size=60))
def test_any_text_is_judged_without_a_crash(text):
    for url in (text, f"http://{text}", f"http://a.test/{text}"):
        try:
            target = Policy().check_url(url)
            Policy().check_egress(target)
        except ServiceError:
            continue
        # What is fetched means the same to the parser as what was checked.
        assert Policy().check_url(target.url) == target


@given(st.ip_addresses())
def test_an_address_is_refused_by_its_name_as_by_its_number(address):
    host = f"[{address}]" if address.version == 6 else str(address)
    try:
        Policy().check_url(f"http://{host}/")
        allowed = True
    except ServiceError:
        allowed = False
    assert allowed == is_public(str(address))
