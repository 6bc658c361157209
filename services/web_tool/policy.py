"""What may be reached: schemes, ports, names and addresses. Deny by default for whatever is not the public internet."""

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address

import httpx2

from services.runtime.errors import InvalidField, NotPermitted

_MAX_URL_CHARS = 2048
_PORTS = {"http": 80, "https": 443}
# `is_global` says True for these (checked on 3.11): translation and tunnel ranges that lead back inside, and oddities.
_DENIED = [
    ipaddress.ip_network(text)
    for text in (
        "0.0.0.0/8", "100.64.0.0/10", "168.63.129.16/32", "192.0.0.0/24", "192.88.99.0/24", "198.18.0.0/15",
        "224.0.0.0/3", "2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20",
    )
]  # fmt: skip
# Special-use names (RFC 6761, 6762, 8375, ICANN's .internal) and habits of inner networks.
_INNER_SUFFIXES = (".local", ".internal", ".localhost", ".localdomain", ".home.arpa", ".lan", ".intranet", ".corp")
_PUBLIC_IPV6 = ipaddress.IPv6Network("2000::/3")
_ISATAP = (0x0000_5EFE, 0x0200_5EFE)


@dataclass(frozen=True)
class Target:
    """A URL that passed every check that needs no name resolution."""

    url: str
    scheme: str
    host: str
    port: int


@dataclass(frozen=True)
class Policy:
    """Rules of one tenant. `exceptions` are (host, port) that may be read although they are not public."""

    allowed_domains: Sequence[str] = ()
    denied_domains: Sequence[str] = ()
    exceptions: frozenset[tuple[str, int]] = frozenset()

    def check_url(self, text: str) -> Target:
        """The URL in its parsed form, which is the one to fetch. Raises InvalidField or NotPermitted."""
        url = _parse(text)
        if url.scheme not in _PORTS:
            raise NotPermitted(f"Only http and https are read, not `{url.scheme or 'no scheme'}`.", rule="scheme")
        if url.userinfo:
            raise NotPermitted("A URL with user name or password is not read.", rule="credentials")
        host, port = url.host.rstrip(".").lower(), _PORTS[url.scheme] if url.port is None else url.port
        if not host or "%" in host:
            raise InvalidField("`url` has no host, or one with percent signs.", field="url")
        if (host, port) not in self.exceptions:
            if port not in _PORTS.values():
                raise NotPermitted(f"Port {port} is not read; only 80 and 443 are.", rule="port")
            if ":" not in host and ("." not in host or host.endswith(_INNER_SUFFIXES)):
                raise NotPermitted(f"`{host}` is a name of an inner network.", rule="name")
        self.check_domain(host)
        return Target(str(url.copy_with(fragment=None)), url.scheme, host, port)

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


def is_public(text: str) -> bool:
    """Whether an address is on the public internet, whichever way it is written."""
    try:
        address = ipaddress.ip_address(text.split("%", 1)[0])
    except ValueError:
        return False
    if isinstance(address, IPv6Address) and address.ipv4_mapped:
        address = address.ipv4_mapped
    if any(address in network for network in _DENIED if network.version == address.version):
        return False
    if isinstance(address, IPv4Address):
        return address.is_global
    is_isatap = int(address) >> 32 & 0xFFFF_FFFF in _ISATAP
    return address.is_global and address in _PUBLIC_IPV6 and not is_isatap


def _parse(text: str) -> httpx2.URL:
    if len(text) > _MAX_URL_CHARS:
        raise InvalidField(f"`url` is longer than {_MAX_URL_CHARS} characters.", field="url")
    # Backslashes, blanks and control characters are where parsers disagree about which host is meant.
    if not text or any(ord(c) <= 32 or ord(c) == 127 or c == "\\" for c in text):
        raise InvalidField("`url` is empty or has blanks, control characters or backslashes.", field="url")
    try:
        return httpx2.URL(text)
    except httpx2.InvalidURL as error:
        raise InvalidField(f"`url` is not a URL: {error}", field="url") from None


def _within(host: str, domain: str) -> bool:
    domain = domain.lstrip("*.").lower()
    return host == domain or host.endswith("." + domain)
