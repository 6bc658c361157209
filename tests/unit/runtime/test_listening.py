"""Where a server listens."""

import socket

from services.runtime.listening import address_of


def test_the_wildcard_takes_both_families_where_there_are_both():
    expected = "::" if socket.has_dualstack_ipv6() else "0.0.0.0"
    assert address_of("[::]") == address_of("::") == expected


def test_any_other_address_stays_as_it_is_without_brackets():
    assert [address_of(host) for host in ("127.0.0.1", "[::1]", "0.0.0.0")] == ["127.0.0.1", "::1", "0.0.0.0"]
