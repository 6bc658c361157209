"""The addresses behind a name: every replica of a headless service."""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from dns.asyncresolver import Resolver

_LOOKUP_SECONDS = 3.0


class Names(Protocol):
    """Looks names up."""

    async def addresses(self, name: str) -> Sequence[str]:
        """IPv4 and IPv6 addresses of the name, in a stable order; empty when there are none or nobody answers."""
        ...


class DnsNames:
    """Asks the DNS for A and AAAA records, by the rules of /etc/resolv.conf; then the host's own tables."""

    def __init__(self, resolver: "Resolver | None" = None) -> None:
        self._resolver = resolver

    async def addresses(self, name: str) -> Sequence[str]:
        """As in Names."""
        # Imported here: it costs 200 ms and more, and most installations name their servers.
        from dns.asyncresolver import Resolver
        from dns.exception import DNSException

        try:
            resolver = self._resolver = self._resolver or Resolver()
        except (DNSException, OSError):  # no resolv.conf
            return await _of_host(name)
        answers = await asyncio.gather(*(_ask(resolver, name, kind) for kind in ("A", "AAAA")))
        found = sorted({address for answer in answers for address in answer})
        return found or await _of_host(name)


class FixedNames:
    """Knows the addresses that it was told; they can be changed."""

    def __init__(self, **addresses: Sequence[str]) -> None:
        self.known: dict[str, Sequence[str]] = dict(addresses)

    async def addresses(self, name: str) -> Sequence[str]:
        """As in Names."""
        return sorted(self.known.get(name, ()))


async def _ask(resolver: "Resolver", name: str, kind: str) -> list[str]:
    from dns.exception import DNSException

    try:
        answer = await resolver.resolve(
            name, kind, raise_on_no_answer=False, lifetime=_LOOKUP_SECONDS, search=not name.endswith(".")
        )
        return [str(record) for record in answer]
    except (DNSException, OSError):
        return []


async def _of_host(name: str) -> list[str]:
    try:
        async with asyncio.timeout(_LOOKUP_SECONDS):
            found = await asyncio.get_running_loop().getaddrinfo(name, None, type=1)
    except (OSError, TimeoutError):
        return []
    return sorted({str(address[4][0]) for address in found})
