"""Where a server listens."""

import socket


def address_of(host: str) -> str:
    """The address to bind for `SABUESO_HOST`: `[::]` takes IPv4 too, and where there is no IPv6, IPv4 alone."""
    host = host.strip("[]")
    return "0.0.0.0" if host == "::" and not socket.has_dualstack_ipv6() else host
