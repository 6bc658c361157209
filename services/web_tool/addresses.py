"""Which addresses are on the public internet: deny by default for whatever is not."""

import ipaddress
from ipaddress import IPv4Address, IPv6Address

# `is_global` says True for these (checked on 3.11): translation and tunnel ranges that lead back inside, and oddities.
_DENIED = [
    ipaddress.ip_network(text)
    for text in (
        "0.0.0.0/8", "100.64.0.0/10", "168.63.129.16/32", "192.0.0.0/24", "192.88.99.0/24", "198.18.0.0/15",
        "224.0.0.0/3", "2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20",
    )
]  # fmt: skip
_PUBLIC_IPV6 = ipaddress.IPv6Network("2000::/3")
_ISATAP = (0x0000_5EFE, 0x0200_5EFE)


def is_public(text: str) -> bool:
    """Whether an address is on the public internet, whichever way it is written. A zone (`%eth0`) never is."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return False
    if isinstance(address, IPv6Address) and address.scope_id is not None:
        return False
    if isinstance(address, IPv6Address) and address.ipv4_mapped:
        address = address.ipv4_mapped
    if any(address in network for network in _DENIED if network.version == address.version):
        return False
    if isinstance(address, IPv4Address):
        return address.is_global
    is_isatap = int(address) >> 32 & 0xFFFF_FFFF in _ISATAP
    return address.is_global and address in _PUBLIC_IPV6 and not is_isatap
