"""Late interaction: how well a passage's tokens answer a query's, token by token."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from services.retrieval import token_codec
from services.retrieval.store import TokenMatrix
from services.retrieval.token_codec import TokenRows

# OpenBLAS takes several threads for a product of more multiplications than this. On a shared machine they wait for
# each other: ten times slower than one thread alone.
_ONE_THREAD_PRODUCTS = 65_536 * 4
# Below this sum of deviations what differs is rounding.
_ALIKE = 1e-6


def late_scores(query: TokenMatrix, passages: Sequence[bytes | None]) -> list[float | None]:
    """One score a passage, from -1 to 1: the average over the query's tokens of the best cosine among the passage's.

    `passages` are packed by `token_codec`; None, one without tokens or one of other dimensions gets None.
    """
    tokens = token_codec.unit_rows(query)
    usable = [at for at, one in enumerate(passages) if one is not None and _comparable(one, query.dimensions)]
    scores: list[float | None] = [None] * len(passages)
    if not usable or not len(tokens):
        return scores
    rows = token_codec.unpack([one for at in usable if (one := passages[at]) is not None])
    similarities = token_similarities(tokens, rows)
    starts = np.cumsum([0, *rows.counts[:-1]])
    best = np.maximum.reduceat(similarities, starts, axis=0)
    for at, score in zip(usable, averaged(best), strict=True):
        scores[at] = score
    return scores


def averaged(best: NDArray[np.float32]) -> list[float]:
    """Averages of `best`, float32 (passages, query tokens), over the tokens.

    MaxSim of Khattab and Zaharia (ColBERT, 2020, section 3.3), but a token counts as much as it tells the passages
    apart: by the deviation of its best similarities. Words that every passage answers alike would else drown the rest;
    on the development questions of docs/retrieval-quality.md this was worth as much as late interaction itself.
    """
    weights = best.std(axis=0)
    total = float(weights.sum())
    # One passage alone, or all alike: nothing to tell apart.
    average = best @ (weights / total) if total > _ALIKE else best.mean(axis=1)
    return average.tolist()


def token_similarities(tokens: NDArray[np.float32], rows: TokenRows) -> NDArray[np.float32]:
    """Cosine similarities, float32 (passage tokens, query tokens)."""
    count, dimensions = rows.values.shape
    tile = max(1, min(count, _ONE_THREAD_PRODUCTS // (dimensions * len(tokens))))
    tiled = count // tile * tile
    turned = np.ascontiguousarray(tokens.T)
    # A stack of small products instead of a large one: see above.
    stacked = (rows.values[:tiled].reshape(-1, tile, dimensions) @ turned).reshape(tiled, -1)
    similarities = np.concatenate([stacked, rows.values[tiled:] @ turned])
    # Scaling similarities instead of rows: there are fewer of them.
    similarities *= rows.scales[:, None]
    return similarities


def _comparable(packed: bytes, dimensions: int) -> bool:
    return bool(packed) and token_codec.dimensions_of(packed) == dimensions and token_codec.count_of(packed) > 0
