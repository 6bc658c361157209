"""Which of the points that a search met count: those of the generation that the registry names for their document."""

from collections.abc import Iterable, Mapping

# Each round leaves out what the one before met. A second is rare, a third needs a replacement within milliseconds.
ROUNDS = 8


class Freshness:
    """Judges the rounds of one search. `excluded` is what the next round has to leave out."""

    def __init__(self) -> None:
        self._documents: dict[str, str] = {}

    @property
    def excluded(self) -> list[str]:
        """Generations to leave out, in order."""
        return sorted(self._documents)

    def documents(self, found: Iterable[tuple[str, str]]) -> set[str]:
        """The documents to ask the registry about, after a round that met these (document, generation) pairs."""
        return {document_id for document_id, _ in found} | set(self._documents.values())

    def accepts(self, found: Iterable[tuple[str, str]], current: Mapping[str, str]) -> bool:
        """True when all that was met counts and nothing that counts by now was left out."""
        stale = {generation: one for one, generation in found if current.get(one) != generation}
        revived = {generation for generation, one in self._documents.items() if current.get(one) == generation}
        self._documents = {g: one for g, one in (self._documents | stale).items() if g not in revived}
        return not stale and not revived
