"""Who judges: any model behind an OpenAI-compatible URL, asked for JSON by a schema."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from services.evaluation.answered import Json

# What is wrong with an answer that fits the schema, in words for the judge; empty: nothing.
Check: TypeAlias = Callable[[Json], str]


class JudgeFailed(Exception):
    """The judge gave no answer that fits, also when asked once more. The message quotes neither prompt nor answer."""


class OverBudget(Exception):
    """The budget for judging is used up; nothing was asked."""


@dataclass
class Usage:
    """What a judge has been asked since it was made. Retries of the HTTP client are within one call."""

    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    # Answers that did not fit and were asked for once more, and asks that failed for good.
    repeated: int = 0
    failed: int = 0


def no_complaint(_: Json) -> str:
    """The check where the schema says it all."""
    return ""


class Judge(Protocol):
    """Asks a model. Counts its own calls and tokens."""

    @property
    def name(self) -> str:
        """The model's name, as results record it."""
        ...

    @property
    def url(self) -> str:
        """Where it is asked; empty: in this process. What is called the same elsewhere may be another model."""
        ...

    @property
    def usage(self) -> Usage:
        """Counts so far."""
        ...

    def prompt_version(self, task: str, language: str) -> str:
        """A hash of the prompt; results with different ones do not compare."""
        ...

    async def ask(
        self,
        task: str,
        language: str,
        facts: Mapping[str, Json],
        schema: Mapping[str, Json],
        check: Check = no_complaint,
    ) -> Json:
        """The model's answer to the prompt `task` (a name in prompts) in `language` over `facts`, valid by `schema`.

        An answer that does not fit the schema, or that `check` complains of, is asked for once more.
        Raises JudgeFailed, OverBudget.
        """
        ...
