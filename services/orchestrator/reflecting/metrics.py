"""What is counted of reflection."""

from prometheus_client import Counter

JUDGED = Counter(
    "sabueso_orchestrator_judged_answers_total",
    "Answers that a model judged, by whether it found them useful.",
    ["verdict"],
)
UNSUPPORTED_SENTENCES = Counter(
    "sabueso_orchestrator_unsupported_sentences_total", "Sentences of answers that a model did not find supported."
)
NOT_JUDGED = Counter(
    "sabueso_orchestrator_reflection_failures_total", "Questions of reflection that the model did not answer.", ["form"]
)
