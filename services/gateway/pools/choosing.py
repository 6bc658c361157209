"""Which replica gets a request."""

import random
from collections.abc import Container, Sequence

from services.gateway.pools.replica import Replica

# A replica that knows the prompt's beginning is preferred while it is not much busier than the least busy one.
_GUARD_REQUESTS, _GUARD_PART = 4.0, 0.25


def choose(
    replicas: Sequence[Replica], now: float, *, preferred: str | None = None, tried: Container[str] = ()
) -> Replica | None:
    """The least busy one, or the preferred one where it is not overloaded. None when there is none left.

    Where none is well, a first attempt goes to one all the same: it may be the probe that errs. A second does not.
    """
    left = [replica for replica in replicas if replica.url not in tried]
    usable = [replica for replica in left if replica.usable(now)]
    if not usable:
        if len(left) < len(replicas):
            return None
        usable = left
    candidates = [replica for replica in usable if replica.has_room] or usable
    if len(candidates) <= 1:
        return candidates[0] if candidates else None
    scores = [replica.score(now) for replica in candidates]
    least = min(scores)
    if preferred is not None:
        for replica, score in zip(candidates, scores, strict=True):
            if replica.url == preferred:
                if score <= least + max(_GUARD_REQUESTS / replica.weight, _GUARD_PART * least):
                    return replica
                break
    return random.choice([one for one, score in zip(candidates, scores, strict=True) if score == least])
