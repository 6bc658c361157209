"""What may be reached: schemes, ports, names and addresses. Deny by default for whatever is not the public internet."""

import ipaddress
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from urllib.parse import unquote, urljoin

import httpx2

from services.runtime.errors import InvalidField, NotPermitted
from services.web_tool.addresses import is_public

_MAX_URL_CHARS = 8192
_PORTS = {"http": 80, "https": 443}
# Special-use names (RFC 6761, 6762, 7686, 8375, ICANN's .internal) and habits of inner networks.
_INNER_SUFFIXES = (
    ".local", ".internal", ".localhost", ".localdomain", ".home.arpa", ".lan", ".intranet", ".corp", ".home",
    ".private", ".svc", ".onion",
)  # fmt: skip
_URL = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*):(?://(?P<authority>[^/?#]*))?")
_NAME = re.compile(r"(?=.{1,253}$)(?:[a-z0-9_-]{1,63}\.)*[a-z0-9_-]{1,63}")
# Browsers read a host here, and others a path.
_OWN_WAY = re.compile(r"(?:https?:(?!//)|(?:https?:)?///)", re.IGNORECASE)
# WHATWG's "ends in a number": resolvers read such names as addresses, in many ways of writing.
_NUMBER = re.compile(r"(?:0x[0-9a-f]*|[0-9]+)", re.IGNORECASE)

# Names that anybody's resolver turns into the address that they spell, or into that of the machine itself, and names of
# clouds for what only their machines may ask. What a name resolves to is checked anyway; this says so without asking.
_SPELLED_ADDRESSES = (
    "nip.io", "sslip.io", "xip.io", "localtest.me", "lvh.me", "vcap.me", "lacolhost.com",
    "metadata.goog", "metadata.tencentyun.com", "metadata.platformequinix.com", "metadata.packet.net",
)  # fmt: skip

# A URL is also a way out. Data that a model was talked into sending is long, or looks like nothing that people write.
_MAX_QUERY_CHARS, _MAX_PATH_CHARS = 1024, 2048
_MAX_HOST_CHARS = 100
_LONG_RUN = re.compile(r"[A-Za-z0-9+/_=-]{120,}")
_ONE_CASE_BLOB = re.compile(r"(?:[0-9a-f]{120,}|[0-9A-F]{120,}|[A-Z2-7=]{120,})")
_MOST_CHANGES = 0.25
_LONG_LABEL = re.compile(r"[a-z0-9]{40,}")


@dataclass(frozen=True)
class Target:
    """A URL that passed every check that needs no name resolution. `host` is in its ASCII form, without a last dot."""

    url: str
    scheme: str
    host: str
    port: int

    @property
    def origin(self) -> str:
        """Scheme, host and port, as a URL without a path."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}" + ("" if self.port == _PORTS[self.scheme] else f":{self.port}")

    def redirected(self, location: str) -> str:
        """The URL that a Location header means here; it is yet to be checked. Raises NotPermitted for nonsense."""
        try:
            if not _OWN_WAY.match(location):
                return urljoin(self.url, location)
        except ValueError:
            pass
        raise NotPermitted("The page redirects to what is no URL.", rule="redirects")


@dataclass(frozen=True)
class Policy:
    """Rules of one tenant.

    `exceptions` are (host, port) that may be read although they are not public. `robots`: obey robots.txt.
    """

    allowed_domains: Sequence[str] = ()
    denied_domains: Sequence[str] = ()
    exceptions: frozenset[tuple[str, int]] = frozenset()
    robots: bool = True

    def check_url(self, text: str) -> Target:
        """The URL in its parsed form, which is the one to fetch. Raises InvalidField or NotPermitted."""
        url, host = _parse(text)
        port = _PORTS[url.scheme] if url.port is None else url.port
        target = Target(str(url.copy_with(fragment=None, host=host)), url.scheme, host, port)
        if not self.is_exception(target):
            if port not in _PORTS.values():
                raise NotPermitted(f"Port {port} is not read; only 80 and 443 are.", rule="port")
            _check_host(host)
        self.check_domain(host)
        return target

    def is_exception(self, target: Target) -> bool:
        """Whether the operator has named the place as one to read although it is not public."""
        return (target.host, target.port) in self.exceptions

    def check_domain(self, host: str) -> None:
        """Raises NotPermitted when the tenant's file forbids the name."""
        if any(_within(host, domain) for domain in self.denied_domains):
            raise NotPermitted(f"The tenant's file forbids `{host}`.", rule="denied_domain")
        if self.allowed_domains and not any(_within(host, domain) for domain in self.allowed_domains):
            raise NotPermitted(f"The tenant's file allows only certain domains, not `{host}`.", rule="allowed_domains")

    def check_addresses(self, host: str, port: int, addresses: Sequence[str]) -> None:
        """Raises NotPermitted unless every address of the name is public: one that is not would be enough."""
        if (host.rstrip(".").lower(), port) in self.exceptions:
            return
        if not addresses or not all(is_public(address) for address in addresses):
            raise NotPermitted("The address is not on the public internet.", rule="address")

    def check_egress(self, target: Target) -> None:
        """Raises NotPermitted when a URL that somebody asks for could carry data out: too long, or with a blob in it.

        Not for redirects: a server that writes them learns nothing from what it wrote itself.
        """
        rest = target.url.split("/", 3)[3] if target.url.count("/") > 2 else ""
        path, _, query = rest.partition("?")
        is_long = len(query) > _MAX_QUERY_CHARS or len(path) > _MAX_PATH_CHARS or len(target.host) > _MAX_HOST_CHARS
        labels = (label for label in target.host.split(".") if _LONG_LABEL.fullmatch(label))
        if is_long or _has_blob(unquote(rest)) or any(sum(c.isdigit() for c in label) > 4 for label in labels):
            raise NotPermitted("The URL is long or holds encoded data: it could carry data out.", rule="egress")


def _check_host(host: str) -> None:
    """Names of inner networks, and addresses that can be judged without asking anybody."""
    try:
        address = str(ipaddress.ip_address(host))
    except ValueError:
        if _NUMBER.fullmatch(host.rpartition(".")[2]):
            raise NotPermitted(
                "An address is read in its usual form only, as in `192.0.2.1`.", rule="address"
            ) from None
        if "." not in host or host.endswith(_INNER_SUFFIXES):
            raise NotPermitted(f"`{host}` is a name of an inner network.", rule="name") from None
        if any(host == name or host.endswith("." + name) for name in _SPELLED_ADDRESSES):
            raise NotPermitted(f"`{host}` is a name for an address inside.", rule="name") from None
    else:
        if not is_public(address):
            raise NotPermitted("The address is not on the public internet.", rule="address")


def _parse(text: str) -> tuple[httpx2.URL, str]:
    """The URL, and its host in ASCII. Refuses whatever parsers are known to read differently."""
    if len(text) > _MAX_URL_CHARS:
        raise InvalidField(f"`url` is longer than {_MAX_URL_CHARS} characters.", field="url")
    # Backslashes, blanks and control characters are where parsers disagree about which host is meant.
    if not text or any(ord(c) <= 32 or ord(c) == 127 or c in '\\<>"' for c in text):
        raise InvalidField("`url` is empty or has blanks, control characters, backslashes, quotes or <>.", field="url")
    parts = _URL.match(text)
    if parts is None:
        raise InvalidField("`url` is not absolute; it begins with http:// or https://.", field="url")
    if parts["scheme"].lower() not in _PORTS:
        raise NotPermitted(f"Only http and https are read, not `{parts['scheme'][:20]}`.", rule="scheme")
    if not parts["authority"]:
        raise InvalidField("`url` has no host.", field="url")
    if "@" in parts["authority"]:
        raise NotPermitted("A URL with user name or password is not read.", rule="credentials")
    # Some parsers take signs, and the digits of other scripts.
    port = parts["authority"].rpartition("]")[2].partition(":")[2]
    if port and not (port.isascii() and port.isdigit()):
        raise InvalidField("`url` has a port that is no number.", field="url")
    try:
        url = httpx2.URL(text)
    except (httpx2.InvalidURL, UnicodeError) as error:
        raise InvalidField(f"`url` is not a URL ({type(error).__name__}).", field="url") from None
    host = url.raw_host.decode("ascii").lower().removesuffix(".")
    if url.userinfo or not (":" in host or _is_name(host)) or "%" in host or url.port == 0:
        raise InvalidField("`url` has no host that could be looked up.", field="url")
    return url, host


def _is_name(host: str) -> bool:
    """Whether it could be looked up: its labels are well-formed, and those in Punycode stand for something."""
    if not _NAME.fullmatch(host):
        return False
    try:
        decoded = [label[4:].encode().decode("punycode") for label in host.split(".") if label.startswith("xn--")]
    except UnicodeError:
        return False
    return not any(label.isascii() for label in decoded)


def _has_blob(text: str) -> bool:
    """A long run as encoders make it: all of hex or base32, or of capitals, small letters and digits in no order."""
    for run in _LONG_RUN.findall(text):
        # In words in title case the kind changes with every sixth letter, in base64 with every second.
        within_words = ((one, after) for one, after in pairwise(run) if one.isalnum() and after.isalnum())
        changes = sum(_kind(one) != _kind(after) for one, after in within_words)
        if changes > _MOST_CHANGES * len(run) or _ONE_CASE_BLOB.search(run):
            return True
    return False


def _kind(character: str) -> tuple[bool, bool]:
    return character.isupper(), character.isdigit()


def _within(host: str, domain: str) -> bool:
    domain = domain.rpartition("://")[2].removeprefix("*.").strip(".").lower()
    try:
        domain = httpx2.URL(f"http://{domain}").raw_host.decode("ascii")
    except httpx2.InvalidURL:
        return False
    return host == domain or host.endswith("." + domain)
