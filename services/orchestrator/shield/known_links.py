"""Addresses that an answer may lead to, or name: those that were given, and those of sources."""

import re
from collections.abc import Iterable

from services.orchestrator.results import Found, Pages, Passages
from services.orchestrator.shield.addresses import addresses
from services.orchestrator.shield.heard import Heard


class KnownLinks:
    """Of one run. `given`: by the user; `linked`: all that an answer might lead to; `barred`: stood in orders."""

    def __init__(self, links: str, heard: Heard) -> None:
        """`links`: the tenant's policy."""
        self._links = links
        self._heard = heard
        self.given: set[str] = set()
        self._linked: set[str] = set()
        self._barred: set[str] = set()

    def give(self, text: str) -> None:
        """Notes the addresses in what the user, or the application, says."""
        self.given.update(found := _urls(text))
        self._linked.update(found)

    def note(self, admitted: Found, blamed: Iterable[str], clean: Iterable[str]) -> None:
        """Notes those of a result: its sources' own, those in `blamed` parts and, by policy, in its `clean` texts."""
        for part in blamed:
            self._barred.update(addresses(part))
        match admitted:
            case Pages():
                self._linked.update(one.url for one in admitted.pages if is_web(one.url))
            case Passages():
                self._linked.update(one.source for one in admitted.passages if is_web(one.source))
            case _:
                pass
        if self._links == "read":
            self._linked.update(url for text in clean for url in _urls(text))

    def may_link(self, address: str) -> bool:
        """Whether an answer may lead there."""
        return self._links == "all" or address in self._linked

    def may_name(self, address: str) -> bool:
        """Whether an answer may name it."""
        return self._links == "all" or address.lower() not in self._barred or self._heard.said(address)


def is_web(url: str) -> bool:
    """Whether it is an address of the web."""
    return url.lower().startswith(("https://", "http://"))


def _urls(text: str) -> list[str]:
    return re.findall(r"https?://[^\s<>\"'`|{}\\^]{1,2000}[^\s<>\"'`|{}\\^.,;:!?)\]]", text)
