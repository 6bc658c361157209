"""What a caller is told of the limits with every answer: OpenAI's headers, and those of the IETF's draft.

draft-ietf-httpapi-ratelimit-headers-11: lists of quoted names; `q` quota, `qu` its unit, `w` window in seconds,
`r` remaining, `t` seconds until the window ends, which on a refusal is the very moment of Retry-After.
"""

import math
from collections.abc import Sequence

from services.gateway.limits.decision import Standing


def limit_headers(standings: Sequence[Standing]) -> dict[str, str]:
    """How the limits stand, the tightest first. Empty when there are none."""
    if not standings:
        return {}
    states: list[tuple[float, float, str]] = []
    tightest: dict[str, tuple[float, int, Standing]] = {}
    for one in standings:
        limit, remaining, wait = one.limit, one.remaining, one.wait_seconds
        state = f'"{limit.name}";r={remaining}'
        if wait:
            state += f";t={retry_seconds(one)}"
        elif limit.kind != "concurrency":
            state += f";t={math.ceil(one.reset_seconds)}"
        states.append((-wait, remaining / limit.most, state))
        known = tightest.get(limit.kind)
        # The one that refuses, else the one with the least left.
        if known is None or (-wait, remaining) < known[:2]:
            tightest[limit.kind] = -wait, remaining, one
    states.sort()
    headers = {
        "RateLimit-Policy": ", ".join([one.limit.policy for one in standings]),
        "RateLimit": ", ".join([state for *_, state in states]),
    }
    for kind in ("requests", "tokens"):
        if kind in tightest:
            _, remaining, one = tightest[kind]
            headers[f"x-ratelimit-limit-{kind}"] = str(one.limit.most)
            headers[f"x-ratelimit-remaining-{kind}"] = str(remaining)
            headers[f"x-ratelimit-reset-{kind}"] = duration_text(one.reset_seconds)
    return headers


def retry_seconds(standing: Standing) -> int:
    """Least whole number of seconds, 1 or more, after which a refused request passes."""
    return max(1, math.ceil(standing.wait_seconds))


def duration_text(seconds: float) -> str:
    """A duration as OpenAI writes it: `120ms`, `1.5s`, `6m0s`."""
    milliseconds = round(seconds * 1000)
    if milliseconds < 1000:
        return f"{milliseconds}ms"
    minutes, rest = divmod(milliseconds, 60_000)
    return f"{minutes}m{rest / 1000:g}s" if minutes else f"{rest / 1000:g}s"
