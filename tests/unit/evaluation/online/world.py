"""What tests of online measuring share: answers as they are offered, and counters as they stand."""

import random

from prometheus_client import REGISTRY

from services.evaluation.answered import Answered, Call, Passage
from services.evaluation.online.offered import Offered


def answered(answer_id="ans_1", tenant="acme", **more):
    fields = {
        "question": "What is the penalty?",
        "answer": "It is 2 %.",
        "language": "en",
        "passages": (Passage("The penalty is 2 %.", "c-7", 0.8), Passage("rows", "main")),
        "calls": (Call("vector_search", {"query": "penalty"}),),
        "trace_id": "0af7651916cd43dd8448eb211c80319c",
        "milliseconds": {"total": 900.0},
    }
    return Answered(**(fields | {"answer_id": answer_id, "tenant": tenant} | more))


def offered(answer_id="ans_1", tenant="acme", metrics=("faithfulness",), **more):
    return Offered(answered(answer_id, tenant, **more), metrics)


def traffic(seed, count, *, score=0.7, refused=0.1, sql=0.3):
    """Answers of a tenant whose traffic is what it is: scores around `score`, some refused, some from the database."""
    chance = random.Random(seed)
    for number in range(count):
        tool = "sql_query" if chance.random() < sql else "vector_search"
        yield answered(
            f"ans_{number}",
            passages=(Passage("text", "c-7", chance.gauss(score, 0.1)),),
            calls=(Call(tool, {}),),
            finish="refused" if chance.random() < refused else "answered",
        )


def sample(name, **labels):
    return REGISTRY.get_sample_value(name, labels) or 0.0
