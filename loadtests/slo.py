"""Does it hold its targets? `make load`: every scenario of slo.yaml alone, then all at once beside a noisy neighbour.

`python -m loadtests.slo` on a stack of its own, or on that of SABUESO_URL; `locust -f loadtests/slo.py --headless` on
the one that `make up` started. Exit status 1, and a table that names it, when a budget was broken.
"""

from loadtests.offering.command import main
from loadtests.offering.options import Asked, Offer
from loadtests.offering.plan import PlanFile
from loadtests.offering.running import Clock, UntilOffered, offers

__all__ = ["Clock", "UntilOffered"]


def offer(plan: PlanFile, asked: Asked) -> Offer:
    """Each scenario has its window, so that a figure is that of its name; in the mix they meet."""
    seconds = asked.seconds or plan.seconds
    alone = [[plan.row(one, one.name, seconds, one.arrivals_per_second, warm_up_seconds=2)] for one in plan.scenarios]
    of = plan.mixed.model_copy(update={"seconds": asked.seconds or plan.mixed.seconds})
    mixed = plan.mix(of, ", mixed")
    if noisy := plan.noisy_neighbour:
        mixed.append(plan.row(noisy, noisy.name, of.seconds, noisy.arrivals_per_second))
    return Offer("slo", [*alone, mixed], gap_seconds=1)


# Locust reads this file once more, as a module of its own.
if __name__ == "__main__":
    raise SystemExit(main(__file__, own_stack=True))

offers(offer)
