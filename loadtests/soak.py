"""Does it leak? `make load-soak`: all scenarios for half an hour; memory, file descriptors and leases are watched.

What must stay flat is judged by a Theil-Sen slope (offering/trend.py). Answers must be true; their times are slo.py's.
"""

from loadtests.offering.command import main
from loadtests.offering.options import Asked, Offer
from loadtests.offering.plan import PlanFile
from loadtests.offering.running import Clock, UntilOffered, offers

__all__ = ["Clock", "UntilOffered"]

_READINGS = 120
_OFTEN_SECONDS, _SELDOM_SECONDS = 1.0, 15.0


def offer(plan: PlanFile, asked: Asked) -> Offer:
    """One window; the readings are as many whatever its length."""
    of = plan.soak.model_copy(update={"seconds": asked.seconds or plan.soak.seconds})
    every = min(_SELDOM_SECONDS, max(_OFTEN_SECONDS, of.seconds / _READINGS))
    return Offer("soak", [plan.mix(of, warm_up_seconds=10, timed=False)], watched_every_seconds=every)


# Locust reads this file once more, as a module of its own.
if __name__ == "__main__":
    raise SystemExit(main(__file__, own_stack=True))

offers(offer)
