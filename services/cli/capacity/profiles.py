"""What an answer costs: measured CPU time of each service, a model pool as it is reckoned, and kinds of questions."""

from collections.abc import Mapping
from dataclasses import dataclass

# Tokens of a question with its evidence and of its answer, which the KV cache holds while it is written.
PROMPT_TOKENS, ANSWER_TOKENS = 4096, 200


@dataclass(frozen=True)
class Pool:
    """One replica of a model. Times without any queue, in seconds; see services/understudy/latency.py for their source.

    `kv_tokens` and `most_sequences`: charts/vllm/README.md. `tool_turn` ends in a call, `last_turn` in an answer.
    """

    gpus: int
    kv_tokens: int
    most_sequences: int
    first_token: tuple[float, float, float]
    call: float
    answer: float

    def turn(self, number: int, last: int) -> tuple[float, float]:
        """Seconds to the first token of turn `number` (from 0), and from there to its end; `last` answers."""
        return self.first_token[min(number, 2)], self.answer if number == last else self.call

    def slots(self, tokens: int) -> int:
        """Sequences of that length worked on at a time: by the setting, and by the room in the cache."""
        return max(1, min(self.most_sequences, self.kv_tokens // tokens))


POOLS: Mapping[str, Pool] = {
    "h100-tp4": Pool(4, 665_404, 128, (0.150, 0.180, 0.200), 0.005, 0.160),
    "h100-tp2": Pool(2, 221_838, 48, (0.250, 0.280, 0.295), 0.008, 0.267),
}


@dataclass(frozen=True)
class Question:
    """A kind of question. `tool_seconds`: outside of our services, the longest of each turn: databases, engines, pages.

    `cpu_seconds`: of each service, for the whole question.
    """

    turns: int
    tool_seconds: float
    cpu_seconds: Mapping[str, float]


# CPU time of each process over ten questions of the demo, one after the other, cache off, on the two cores of the
# project's machine; docs/capacity.md says which were measured and which are reckoned from those. Times of tools are
# the source material's.
QUESTIONS: Mapping[str, Question] = {
    "rag": Question(1, 0.020, {"gateway": 0.015, "orchestrator": 0.021, "embedding": 0.010, "retrieval": 0.012}),
    "router": Question(
        1,
        0.050,
        {"gateway": 0.021, "orchestrator": 0.040, "embedding": 0.039, "retrieval": 0.022, "sql_tool": 0.006},
    ),
    "one-iteration": Question(2, 0.050, {"gateway": 0.016, "orchestrator": 0.019, "sql_tool": 0.005}),
    "parallel": Question(
        2,
        0.050,
        {"gateway": 0.024, "orchestrator": 0.045, "embedding": 0.009, "retrieval": 0.015, "sql_tool": 0.008},
    ),
    "two-iterations": Question(
        3,
        0.070,
        {"gateway": 0.023, "orchestrator": 0.040, "embedding": 0.010, "retrieval": 0.012, "sql_tool": 0.005},
    ),
    "three-iterations": Question(
        4,
        0.120,
        {"gateway": 0.030, "orchestrator": 0.059, "embedding": 0.010, "retrieval": 0.012, "sql_tool": 0.010},
    ),
    "web": Question(2, 0.600, {"gateway": 0.018, "orchestrator": 0.030, "web_tool": 0.020}),
}
MIX: Mapping[str, float] = {
    "rag": 0.30,
    "router": 0.15,
    "one-iteration": 0.20,
    "parallel": 0.15,
    "two-iterations": 0.10,
    "three-iterations": 0.05,
    "web": 0.05,
}
# Cores that one replica can use: a Python process one, the embedding model the two that the chart asks for.
CORES: Mapping[str, int] = {
    "gateway": 1,
    "orchestrator": 1,
    "retrieval": 1,
    "embedding": 2,
    "sql_tool": 1,
    "web_tool": 1,
}
