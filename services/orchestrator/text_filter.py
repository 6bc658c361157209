"""What the text of an answer passes through on its way to the reader, piece by piece."""

from collections.abc import Sequence
from typing import Protocol

from services.orchestrator.events import Finding


class TextFilter(Protocol):
    """One thing that looks at the text. It holds back no more than what may still turn out to be its business."""

    def feed(self, text: str) -> str:
        """What can be shown now."""
        ...

    def flush(self) -> str:
        """What was held back, when no more text comes."""
        ...

    def take_findings(self) -> Sequence[Finding]:
        """What was wrong since this was last asked."""
        ...


class Passing:
    """Changes nothing."""

    def feed(self, text: str) -> str:
        """See TextFilter."""
        return text

    def flush(self) -> str:
        """See TextFilter."""
        return ""

    def take_findings(self) -> Sequence[Finding]:
        """See TextFilter."""
        return ()
