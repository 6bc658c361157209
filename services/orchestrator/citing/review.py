"""Looks at a whole answer against its evidence, after its last word."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from services.orchestrator.citing.support import Support
from services.orchestrator.events import Finding
from services.orchestrator.model import Spent
from services.orchestrator.results import Degraded, Source


@dataclass(frozen=True)
class Draft:
    """An answer as it was shown, or is to be shown, and what it may rest on.

    `sources` by mark: all of the run's evidence, cited or not. `shown`: its text has gone out already. `said`: what was
    said before the question, whose figures may be repeated. `support`: what has read the sources already, if anything.
    """

    question: str
    answer: str
    sources: Mapping[int, Source]
    shown: bool = True
    said: Sequence[str] = ()
    support: Support | None = None


@dataclass(frozen=True)
class Review:
    """What was found. `answer` is the text to show in place of one that has not gone out.

    `note`: what the answer must say of itself, in its own language; empty if nothing. `withdrawn`: nothing of the
    answer is supported, and it must not stand. `degraded`: what could not be checked.
    """

    answer: str
    findings: Sequence[Finding] = ()
    note: str = ""
    withdrawn: bool = False
    degraded: Sequence[Degraded] = ()


class Reviewer(Protocol):
    """Reviews drafts."""

    async def review(self, draft: Draft, spent: Spent, seconds: float) -> Review:
        """What is wrong with the draft. Never raises: what cannot be checked in time counts as right.

        What model turns cost is added to `spent`.
        """
        ...


class Unreviewed:
    """Takes every answer as it is."""

    async def review(self, draft: Draft, spent: Spent, seconds: float) -> Review:
        """See Reviewer."""
        return Review(draft.answer)
