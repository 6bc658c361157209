"""A question that a model has written, and what became of it."""

from enum import StrEnum

from pydantic import BaseModel, ConfigDict, Field

from services.evaluation.golden.item import Stratum


class Rejection(StrEnum):
    """Why a question is not taken."""

    EMPTY = "empty question or answer"
    ECHO = "repeats its passage"
    NOT_IN_PASSAGE = "the answer is not in the passage"
    ONE_PASSAGE = "one of the two passages answers it alone"
    AMBIGUOUS = "not clear by itself, or with several answers"
    KNOWN = "answered rightly without the corpus"
    UNCHANGED = "its premise is what the passage says"
    HELD = "the corpus says what should be wrong"
    ANSWERED = "the corpus answers it"
    DUPLICATE = "asks what another one asks"
    SAME_MEANING = "asks in other words what another one asks"


class Candidate(BaseModel):
    """`rejected` is None for one that is taken. `documents` hold the answer, or would if there were one."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    question: str
    language: str
    stratum: Stratum
    documents: list[str] = Field(min_length=1)
    # Ids of the chunks that it was written from.
    chunks: list[str] = Field(min_length=1)
    reference: str | None = None
    rejected: Rejection | None = None
    detail: str = ""

    def refused(self, why: Rejection, detail: str = "") -> "Candidate":
        """The same, rejected."""
        return self.model_copy(update={"rejected": why, "detail": detail})
