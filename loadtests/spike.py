"""Does it recover? `make load-spike`: the rate times five for some seconds.

What it cannot serve then it must refuse with 429 or 503 and a Retry-After: never a hang, never a wrong answer. Soon
after, everything is within its budgets again.
"""

from loadtests.offering.command import main
from loadtests.offering.options import Asked, Offer
from loadtests.offering.plan import PlanFile, Row
from loadtests.offering.running import Clock, UntilOffered, offers

__all__ = ["Clock", "UntilOffered"]


def offer(plan: PlanFile, asked: Asked) -> Offer:
    """Four windows without a gap. In the spike and while it recovers answers may be late, or refused."""
    spike = plan.spike
    chosen = plan.named(spike.scenarios)

    def window(name: str, seconds: float, times: float = 1, warm: float = 0, calm: bool = True) -> list[Row]:
        rate = times * spike.per_second / len(chosen)
        # What was due in the spike may be answered as late as the recovery ends.
        grace = 2 if calm else spike.recovers_within_seconds
        return [
            plan.row(
                one, f"{one.name}, {name}", asked.seconds or seconds, rate,
                warm_up_seconds=warm, timed=calm, may_refuse=not calm, grace_seconds=grace,
            )
            for one in chosen
        ]  # fmt: skip

    return Offer(
        "spike",
        [
            window("before", spike.before_seconds, warm=3),
            window("spike", spike.spike_seconds, spike.times, calm=False),
            window("recovering", spike.recovers_within_seconds, calm=False),
            window("after", spike.after_seconds),
        ],
    )


# Locust reads this file once more, as a module of its own.
if __name__ == "__main__":
    raise SystemExit(main(__file__, own_stack=True))

offers(offer)
