"""What the orchestrator counts besides its calls."""

from prometheus_client import Counter, Histogram

ANSWERS = Counter("sabueso_orchestrator_answers_total", "Runs by strategy and how they ended.", ["strategy", "finish"])
TOOL_CALLS = Counter("sabueso_orchestrator_tool_calls_total", "Tool calls by how they ended.", ["tool", "status"])
FIRST_CALLS = Counter(
    "sabueso_orchestrator_first_calls_total",
    "Tool calls that began a question: recalled from the last time it was asked, or kept for the next.",
    ["outcome"],
)
# valid / all is the valid-call ratio of a model.
MODEL_CALLS = Counter(
    "sabueso_orchestrator_model_calls_total",
    "Calls that a model wrote, by model and whether tool and arguments were valid.",
    ["model", "valid"],
)
# One bucket for each limit of charts/sabueso/alerts/slos.yaml.
ANSWER_SECONDS = Histogram(
    "sabueso_orchestrator_answer_seconds",
    "Time of a run, by scenario (services/orchestrator/scenario.py).",
    ["scenario"],
    buckets=(0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1, 1.1, 1.3, 1.5, 2, 3, 5, 10, 20, 30, 60, 120),
)
OVERHEAD_SECONDS = Histogram(
    "sabueso_orchestrator_overhead_seconds",
    "Time of a run that was neither model, tools nor cache.",
    buckets=(0.001, 0.002, 0.004, 0.008, 0.012, 0.02, 0.05, 0.1, 0.5, 1),
)
QUERY_TRANSFORMS = Counter(
    "sabueso_orchestrator_query_transforms_total",
    "Document queries that the model was asked to transform, by kind and whether it could.",
    ["transform", "status"],
)
SUSPICIONS = Counter(
    "sabueso_orchestrator_suspicions_total",
    "Text of tools that gives orders, and calls that would have obeyed it, by kind of tool and what was done.",
    ["tool", "action"],
)
REMOVED_LINKS = Counter(
    "sabueso_orchestrator_removed_links_total", "Links, images and secrets that were taken out of answers.", ["kind"]
)
