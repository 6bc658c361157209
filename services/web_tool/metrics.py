"""Numbers of page reading."""

from prometheus_client import Counter, Histogram

PAGES = Counter(
    "sabueso_web_tool_pages_total",
    "Pages that were asked for, by what came of them: read, or the error's reason, with the rule where one forbade it.",
    ["outcome"],
)
STAGE_SECONDS = Histogram(
    "sabueso_web_tool_stage_duration_seconds",
    "Time of one page in a stage: fetch (robots, waiting for the host's turn and redirects included), extract.",
    ["stage"],
    buckets=(0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
)
