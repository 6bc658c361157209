"""Does indexing disturb answering? `make load-ingest`: the same questions without documents coming in, then with them.

While documents are indexed, one after the other, the budgets of the answers may be exceeded by `factor` of slo.yaml.
"""

from loadtests.offering.command import main
from loadtests.offering.options import Asked, Offer
from loadtests.offering.plan import PlanFile
from loadtests.offering.running import Clock, UntilOffered, offers

__all__ = ["Clock", "UntilOffered"]


def offer(plan: PlanFile, asked: Asked) -> Offer:
    """Two windows."""
    ingest = plan.ingest
    chosen = plan.named(ingest.scenarios)
    seconds = asked.seconds or ingest.seconds
    alone, beside = (
        [
            plan.row(
                one, f"{one.name}, {name}", seconds, one.arrivals_per_second / len(chosen),
                factor=factor, warm_up_seconds=3,
            )
            for one in chosen
        ]
        for name, factor in (("alone", 1.0), ("while indexing", ingest.factor))
    )  # fmt: skip
    return Offer("ingest", [alone, beside], documents_with=1, document_pages=ingest.pages)


# Locust reads this file once more, as a module of its own.
if __name__ == "__main__":
    raise SystemExit(main(__file__, own_stack=True))

offers(offer)
