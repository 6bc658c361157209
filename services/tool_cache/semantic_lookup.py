"""Near-equal calls: the semantic layer names earlier texts, the store alone says what is known of them.

An earlier text leads to the key of the same call with that text, and its entry passes every check that an equal call
has to pass. So a wrong index can cost a result that fits badly, never one of another tenant or of old data.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from services.tool_cache.keys import CallKey, scope, with_text
from services.tool_cache.semantic.gate import depends_on_day
from services.tool_cache.semantic.layer import Question, SemanticLayer
from services.tool_cache.store import Lookup, Store


@dataclass(frozen=True)
class TextCall:
    """A call of which near-equal ones may serve; `text` is its argument `argument`."""

    key: CallKey
    argument: str
    text: str
    min_similarity: float

    def question(self) -> Question:
        """The text, and what must be equal besides it."""
        return Question(self.key.tenant, scope(self.key, self.argument), self.text)


@dataclass(frozen=True)
class Alike:
    """A stored result of a near-equal call."""

    lookup: Lookup
    text: str
    similarity: float


class SemanticLookup:
    """Finds results of near-equal calls."""

    def __init__(self, store: Store, layer: SemanticLayer) -> None:
        self._store = store
        self._layer = layer

    def day(self, text: str) -> str:
        """The date that the text's words depend on (today, last month), or nothing. It belongs into the key."""
        return self._layer.today().isoformat() if depends_on_day(text) else ""

    async def find(self, calls: Sequence[TextCall]) -> list[Alike | None]:
        """The best result for each, in order. Raises DependencyFailed when the store does not answer."""
        matches = await self._layer.find([(call.question(), call.min_similarity) for call in calls])
        candidates = [
            (at, match, with_text(calls[at].key, calls[at].argument, match.text, self.day(match.text)))
            for at, found in enumerate(matches)
            for match in found
        ]
        best: list[Alike | None] = [None] * len(calls)
        if candidates:
            lookups = await self._store.get([key for _, _, key in candidates])
            for (at, match, _), lookup in zip(candidates, lookups, strict=True):
                if lookup.value is not None and best[at] is None:
                    best[at] = Alike(lookup, match.text, match.similarity)
        return best

    def remember(self, stored: Sequence[tuple[TextCall, int]]) -> None:
        """Lets later calls find these, which were stored for so many milliseconds. In the background."""
        if stored:
            self._layer.add_later([(call.question(), ttl_ms) for call, ttl_ms in stored])
