"""What is counted of answers that are offered to evaluation."""

from prometheus_client import Counter

# sent, refused (evaluation took it not), lost (evaluation away or too slow), dropped (too many wait here).
OFFERED = Counter(
    "sabueso_orchestrator_answers_offered_total",
    "Answers that were chosen for evaluation, by what became of the offer.",
    ["outcome"],
)
