"""One question of a golden set, with what a right answer needs."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from services.evaluation.answered import Json

DEV, TEST = "dev", "test"
# What `sources` call things that are no documents: a table of a database, a page of the web.
TABLE, PAGE = "table:", "page:"


class Stratum(StrEnum):
    """What makes a question hard."""

    SINGLE_HOP = "single_hop"
    MULTI_HOP = "multi_hop"
    FALSE_PREMISE = "false_premise"
    UNANSWERABLE = "unanswerable"
    ADVERSARIAL = "adversarial"
    # Nothing needs to be looked up: a greeting, arithmetic.
    NO_TOOL = "no_tool"


@dataclass(frozen=True)
class ExpectedCall:
    """A tool call that is expected. `arguments` are matched as `tools.matching` says; an absent name may be anything.

    An argument's expectation is a value, or an object: accepted values (`{"any_of": […]}`), a range (`{"at_least": 1,
    "at_most": 5}`), words (`{"contains": ["penalty"]}`), an equivalent statement (`{"sql": "…"}`), or what may be
    left out (`{"optional": …}`). `tools.expectation` has them all.
    """

    tool: str
    arguments: Mapping[str, Json] = field(default_factory=dict[str, Json])
    # Calls of one group may run side by side; a later group needs an earlier one's results.
    group: int = 0
    # Other calls that are as right: a free statement in place of a reviewed query.
    alternatives: tuple["ExpectedCall", ...] = ()
    # Whether an argument that is not named here is wrong.
    closed: bool = False

    @property
    def ways(self) -> tuple["ExpectedCall", ...]:
        """The call itself, then its alternatives."""
        return (self, *self.alternatives)


@dataclass(frozen=True)
class Item:
    """A question and what is expected of its answer. `id` is unique in its set and never reused."""

    id: str
    question: str
    language: str
    stratum: Stratum
    # Documents (or tables, pages) whose passages hold the answer; empty where nothing does.
    sources: tuple[str, ...] = ()
    calls: tuple[ExpectedCall, ...] = ()
    # None where the right answer is a refusal.
    reference: str | None = None
    # "dev" or "test".
    split: str = DEV
    # Who or what made it, and from what: a model's name, "hand", a public set with its licence.
    provenance: str = ""
    # Who looked at it; empty: nobody yet.
    reviewer: str = ""
    # Questions that belong together (a question and its translation): never parted by dev and test.
    family: str = ""
    # What it was written from, where that is more than `sources`: a question that nothing answers has a document too.
    made_from: tuple[str, ...] = ()
    # Texts that an answer must have, each in one of its forms. Empty: the reference alone says what is right.
    contains: tuple[tuple[str, ...], ...] = ()
    # Other sets of calls that are as right as `calls`: one statement for what two reviewed queries say.
    other_calls: tuple[tuple[ExpectedCall, ...], ...] = ()
