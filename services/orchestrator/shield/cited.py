"""Which addresses an answer may link to: those of the sources that it has cited so far, to the letter."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from services.orchestrator.citing.claims import MARK, numbers
from services.orchestrator.results import Page, Passage, Source


@dataclass
class CitedSources:
    """`sources` by mark, it may grow; `used`: the marks that were found to be right.

    A mark counts once it was shown: what was dropped with a link or a tag around it cites nothing.
    """

    sources: Mapping[int, Source]
    used: Callable[[], Collection[int]]
    _shown: set[int] = field(default_factory=set[int])

    def note(self, text: str) -> None:
        """Text of the answer that is shown, or will be whatever becomes of the links in it."""
        if "[" in text:
            self._shown.update(number for mark in MARK.finditer(text) for number in numbers(mark[1]))

    def __contains__(self, address: object) -> bool:
        """Whether it is the address of a source that was cited."""
        return bool(address) and any(
            address_of(self.sources[mark]) == address for mark in self._shown.intersection(self.used())
        )

    def may_come(self, address: str) -> bool:
        """Whether a mark that is yet to come may make it one."""
        return bool(address) and any(address_of(source) == address for source in self.sources.values())


def address_of(source: Source) -> str:
    """Where a source is read on the web; empty for those that are not there."""
    match source:
        case Page():
            address = source.url
        case Passage():
            address = source.source  # may be the name of a file
        case _:
            return ""
    return address if address.lower().startswith(("https://", "http://")) else ""
