"""What a run asks the model of its own work: is evidence needed, is it relevant, is the answer supported and useful."""

from collections.abc import Sequence
from enum import Enum
from typing import Protocol

from services.orchestrator.citing.review import Draft, Review
from services.orchestrator.model import Message, Spent
from services.orchestrator.results import Found

# What stands behind a sentence that the evidence does not support: a question mark in parentheses, as editors of both
# languages put it. Plain text, no bracket: it is no citation.
MARKED = "(?)"


class Reflecting(Enum):
    """Whether, and what becomes of sentences that the evidence does not support."""

    OFF = "off"
    MARK = "mark"
    DROP = "drop"


class Reflection(Protocol):
    """The questions. Each is one model turn of at most `seconds`, whose cost is added to `spent`.

    Where it fails, the run goes on as without.
    """

    async def needs_evidence(self, question: str, history: Sequence[Message], spent: Spent, seconds: float) -> bool:
        """Whether the question can only be answered from evidence. True where that is not known."""
        ...

    async def relevant(self, question: str, found: Found, spent: Spent, seconds: float) -> Found:
        """The result without the passages and pages that do not help to answer."""
        ...

    async def judge(self, draft: Draft, mode: Reflecting, spent: Spent, seconds: float) -> Review:
        """Each sentence supported? The answer useful? With `drop` unsupported sentences are left out, else marked."""
        ...


class Unreflecting:
    """Asks nothing."""

    async def needs_evidence(self, question: str, history: Sequence[Message], spent: Spent, seconds: float) -> bool:
        """See Reflection."""
        return True

    async def relevant(self, question: str, found: Found, spent: Spent, seconds: float) -> Found:
        """See Reflection."""
        return found

    async def judge(self, draft: Draft, mode: Reflecting, spent: Spent, seconds: float) -> Review:
        """See Reflection."""
        return Review(draft.answer)
