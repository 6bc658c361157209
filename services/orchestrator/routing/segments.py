"""Which part of a question is for which tool: neighbours for the same tool are one."""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

from services.orchestrator.query_shape import leans_on_history
from services.orchestrator.routing.examples import NONE
from services.orchestrator.routing.head import SEVERAL


@dataclass(frozen=True)
class Piece:
    """A part of the question and its scores by label."""

    text: str
    scores: Mapping[str, float]

    @property
    def label(self) -> str:
        """The best one."""
        return max((name for name in self.scores if name != SEVERAL), key=lambda name: self.scores[name])


@dataclass(frozen=True)
class Segment:
    """What of the question is for one tool. `leans`: only the whole question says what is meant."""

    text: str
    label: str
    leans: bool = False


def segments(whole: Piece, pieces: Sequence[Piece], labels: AbstractSet[str]) -> list[Segment]:
    """A segment for each of the tools, in the order of the question.

    A greeting or an instruction beside a question needs nothing by itself. Where the parts do not say all tools, each
    gets the whole question.
    """
    if len(labels) == 1:
        return [Segment(whole.text, label) for label in labels]
    joined: dict[str, Segment] = {}
    for index, piece in enumerate(pieces if len(pieces) > 1 else ()):
        label = piece.label
        if label == NONE:
            continue
        if label in joined:
            joined[label] = replace(joined[label], text=f"{joined[label].text} {piece.text}")
        else:
            # `… and what do they say about it`: only the whole question says who they are.
            joined[label] = Segment(piece.text, label, index > 0 and leans_on_history(piece.text))
    if joined.keys() == labels:
        return list(joined.values())
    return [Segment(whole.text, label, leans=True) for label in sorted(labels, key=lambda one: -whole.scores[one])]
