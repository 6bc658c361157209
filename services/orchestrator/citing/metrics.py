"""What is counted of checking answers."""

from prometheus_client import Counter

FINDINGS = Counter(
    "sabueso_orchestrator_findings_total",
    "What answers say that their sources do not bear out, by kind (citation, number) and when it was seen (streaming, "
    "end).",
    ["kind", "seen"],
)
