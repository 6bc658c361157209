"""What stands between a run and untrusted text: results on their way in, calls and the answer on their way out."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol

from services.orchestrator.events import Suspicion
from services.orchestrator.model import ToolCall
from services.orchestrator.results import Found, Source
from services.orchestrator.text_filter import Passing, TextFilter


class Shield(Protocol):
    """The shield of one run. What it decides depends on the tenant's policy and on all that the run has read."""

    @property
    def rules(self) -> str:
        """What is added to the system prompt: how untrusted text is marked, a canary. May be empty."""
        ...

    async def admit(self, call: ToolCall, found: Found) -> tuple[Found, Sequence[Suspicion]]:
        """What of a result the model may read, and what was wrong with it. Remembers where its text came from."""
        ...

    async def admit_message(self, call: ToolCall, text: str) -> tuple[str, Sequence[Suspicion]]:
        """The same for why a call failed, where the words are a foreign tool's; others pass."""
        ...

    def present(self, observation: str, found: Found) -> str:
        """The observation as the model reads it, marked as what it is."""
        ...

    def refusal(self, call: ToolCall) -> str:
        """Why the call must not be made, in words for the model; empty if it may."""
        ...

    def outgoing(self) -> TextFilter:
        """What the answer passes through: links to nothing that was read, images, the canary."""
        ...

    def cited_only(self, sources: Mapping[int, Source], used: Callable[[], Collection[int]]) -> TextFilter:
        """What it passes through last, its marks being checked: links to sources that it does not cite.

        `sources` by mark, it grows; `used`: the marks that were found to be right.
        """
        ...


class Unshielded:
    """Lets everything pass."""

    rules = ""

    async def admit(self, call: ToolCall, found: Found) -> tuple[Found, Sequence[Suspicion]]:
        """See Shield."""
        return found, ()

    async def admit_message(self, call: ToolCall, text: str) -> tuple[str, Sequence[Suspicion]]:
        """See Shield."""
        return text, ()

    def present(self, observation: str, found: Found) -> str:
        """See Shield."""
        return observation

    def refusal(self, call: ToolCall) -> str:
        """See Shield."""
        return ""

    def outgoing(self) -> TextFilter:
        """See Shield."""
        return Passing()

    def cited_only(self, sources: Mapping[int, Source], used: Callable[[], Collection[int]]) -> TextFilter:
        """See Shield."""
        return Passing()
