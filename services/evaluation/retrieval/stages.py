"""The stages of a search that are measured one by one, and what they are asked with."""

from dataclasses import dataclass
from enum import Enum


class Fusion(Enum):
    """How the legs of a hybrid search are joined; NONE where there is one leg, or for the product's default."""

    NONE = "none"
    RRF = "rrf"
    DBSF = "dbsf"
    CALIBRATED = "calibrated"


class Legs(Enum):
    """What is searched by."""

    WORDS = "sparse"
    MEANING = "dense"
    BOTH = "hybrid"


@dataclass(frozen=True)
class Stage:
    """One way to search."""

    name: str
    legs: Legs
    fusion: Fusion = Fusion.NONE
    rerank: bool = False


TRIVIAL = "shared words"
BM25 = Stage("BM25", Legs.WORDS)
DENSE = Stage("dense", Legs.MEANING)
RRF = Stage("hybrid, RRF", Legs.BOTH, Fusion.RRF)
DBSF = Stage("hybrid, DBSF", Legs.BOTH, Fusion.DBSF)
CALIBRATED = Stage("hybrid, calibrated", Legs.BOTH, Fusion.CALIBRATED)
# As the product does it when it is asked for nothing special.
RERANKED = Stage("hybrid + rerank", Legs.BOTH, rerank=True)
STAGES = (BM25, DENSE, RRF, DBSF, CALIBRATED, RERANKED)
LEGS = (BM25, DENSE)
# Of the stages without reranker the one that the product has by default.
HYBRID = CALIBRATED
