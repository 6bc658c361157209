"""What a quality score is worth nothing without: what no thought, and what less thought, would have reached."""

from collections import Counter
from collections.abc import Sequence

from services.evaluation.golden.item import Item
from services.evaluation.runs.variant import Kind, Variant

CONSTANT = Variant("constant answer", Kind.CONSTANT)
NO_RETRIEVAL = Variant("no retrieval", Kind.MODEL)
SINGLE_SHOT = Variant("single-shot RAG", Kind.AGENT, {"strategy": "rag"})
BASELINES = (CONSTANT, NO_RETRIEVAL, SINGLE_SHOT)
NAMES = frozenset(one.name for one in BASELINES)


def constant_answer(items: Sequence[Item]) -> str:
    """The reference that most items have, the shortest where several are as frequent: the best single guess.

    The most favourable constant is the fairest bar: it has seen the answers.
    """
    counts = Counter(item.reference for item in items if item.reference)
    return min(counts, key=lambda text: (-counts[text], len(text), text), default="")
