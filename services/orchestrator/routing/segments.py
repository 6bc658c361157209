"""The parts of a question by what they need: neighbours that need the same are one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from services.orchestrator.query_shape import leans_on_history
from services.orchestrator.routing.examples import NONE


@dataclass(frozen=True)
class Segment:
    """A stretch of the question. `lead`: how far `label` is before the second best. `fits`: see Calibration."""

    text: str
    label: str
    lead: float
    scores: Mapping[str, float]
    leans: bool = False
    fits: bool = False


def segment(text: str, scores: Mapping[str, float]) -> Segment:
    """The segment with its best label."""
    best, second = sorted(scores, key=lambda one: -scores[one])[:2]
    return Segment(text, best, scores[best] - scores[second], scores)


def fitting(whole: Segment) -> Segment:
    """The question as one that a reviewed query says word for word, whatever its kind seems to be."""
    ours = whole.scores.get("sql_query", 0.0)
    others = max((score for label, score in whole.scores.items() if label != "sql_query"), default=0.0)
    return replace(whole, label="sql_query", lead=ours - others, fits=True)


def segments(whole: Segment, pieces: Sequence[Segment]) -> list[Segment]:
    """What the question needs, in its order: itself where all of it needs the same.

    A greeting or an instruction beside a question needs nothing by itself.
    """
    needed = [piece for piece in pieces if piece.label != NONE] if len(pieces) > 1 else []
    if len({piece.label for piece in needed}) < 2:
        if needed and needed[0].label != whole.label:
            surest = max((whole, *needed), key=lambda one: one.lead)
            return [replace(whole, label=surest.label, lead=surest.lead)]
        return [whole]
    joined: list[Segment] = []
    for index, piece in enumerate(needed):
        if joined and joined[-1].label == piece.label:
            last = joined[-1]
            joined[-1] = replace(last, text=f"{last.text} {piece.text}", lead=min(last.lead, piece.lead))
        else:
            # `… and what do they say about it`: only the whole question says who they are.
            joined.append(replace(piece, leans=index > 0 and leans_on_history(piece.text)))
    return joined
