"""What is counted of foreign tools."""

from prometheus_client import Counter, Gauge

REFUSED = Counter(
    "sabueso_orchestrator_external_tools_refused_total",
    "Foreign tools that a run did without, by why: changed, not_approved, missing, unreachable.",
    ["reason"],
)
SESSIONS = Gauge("sabueso_orchestrator_external_sessions_count", "Open sessions with servers of foreign tools.")
