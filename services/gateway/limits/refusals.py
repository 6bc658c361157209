"""What a caller whom the limits refuse is answered."""

from services.gateway.errors import ApiError
from services.gateway.limits.decision import LimiterUnavailable, Standing
from services.gateway.limits.headers import retry_seconds

CODES = {
    "requests": "rate_limit_exceeded",
    "tokens": "tokens_limit_exceeded",
    "daily_tokens": "daily_tokens_exceeded",
    "concurrency": "concurrency_limit_exceeded",
}


def refusal(standing: Standing, tokens: int) -> ApiError:
    """A 429 that says which limit it was, whose, and how long to wait. `tokens`: what the request would reserve."""
    limit, wait = standing.limit, retry_seconds(standing)
    whose = "This tenant's" if limit.scope == "tenant" else f"This {limit.scope}'s"
    match limit.kind:
        case "concurrency":
            what = f"{whose} limit of {limit.most} requests at the same time is reached: {standing.used} are running"
        case "requests":
            what = f"{whose} limit of {limit.most} requests a minute is used up"
        case "tokens" | "daily_tokens":
            unit = "a minute" if limit.kind == "tokens" else "a day (UTC)"
            needed = f"{limit.cost(tokens)} are needed and {standing.remaining} are left"
            what = f"{whose} limit of {limit.most} tokens {unit} is used up: {needed}"
    headers, kind = {"Retry-After": str(wait)}, ""
    if limit.kind == "daily_tokens":
        # As OpenAI's: its clients would ask again at once, and again, and again tomorrow.
        kind, headers["x-should-retry"] = "insufficient_quota", "false"
    return ApiError(429, f"{what}; try again in {wait} s.", code=CODES[limit.kind], kind=kind, headers=headers)


def unavailable(error: LimiterUnavailable) -> ApiError:
    """A 503: the limit cannot be counted, and is set to let nobody pass then."""
    message = f"The limit `{error.limit.name}` cannot be counted just now, and nobody passes without it."
    return ApiError(503, message, code="limiter_unavailable", headers={"Retry-After": "1"})
