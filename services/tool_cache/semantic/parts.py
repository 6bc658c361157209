"""A question cut into parts: phrases with their prepositions, verbs and dates."""

from dataclasses import dataclass, field

from services.tool_cache.semantic.vocabulary import Item

Canonical = tuple[tuple[str, ...], ...]

_NO_VERB = Item("", "")


@dataclass
class Part:
    """A phrase with its preposition, a verb, or a date."""

    kind: str
    role: str = ""
    words: list[str] = field(default_factory=list[str])
    leading: list[str] = field(default_factory=list[str])
    # The word that the others say more of.
    head: str = ""
    acts: bool = False
    # Whether the main word means people, and whether it is written like a name.
    someone: bool = False
    named: bool = False
    verb: Item = _NO_VERB
    negated: int = 0
    before: str = ""
    # Main word of what a verb or a date belongs to.
    bound: str = ""
    # Whether its last word may be a verb that is not known: "customers acquired".
    open: bool = False

    def written(self) -> tuple[str, ...]:
        """As part of a signature, with all that it has."""
        negation = "not " * self.negated
        if self.kind == "verb":
            verb = self.verb
            return self.kind, self.before, negation, self.role, verb.value, verb.tense, verb.voice, self.bound
        if self.kind == "date":
            return self.kind, self.before, negation, self.role, self.bound, *self.words
        return self.kind, self.before, negation, self.role, "+".join(self.leading), *self.words
