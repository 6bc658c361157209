"""Does it work? `make load-smoke`: each question of every scenario twice, against the stack that `make up` started.

Every answer is checked for what it must say; one failure, or one question never asked, and the exit status is 1.
"""

from loadtests.offering.command import main
from loadtests.offering.options import Asked, Offer
from loadtests.offering.plan import PlanFile
from loadtests.offering.running import Clock, UntilOffered, offers

__all__ = ["Clock", "UntilOffered"]


def offer(plan: PlanFile, asked: Asked) -> Offer:
    """No budgets: an answer may be slow, it must be there and right."""
    seconds = asked.seconds or plan.smoke_seconds
    rows = [
        plan.row(one, one.name, seconds, 2 * len(one.questions) / seconds, process="constant", timed=False)
        for one in plan.scenarios
    ]
    return Offer("smoke", [rows])


# Locust reads this file once more, as a module of its own.
if __name__ == "__main__":
    raise SystemExit(main(__file__, own_stack=False))

offers(offer)
