"""What `ragas` makes of the same inputs and the same verdicts: cases as JSON lines in, values as JSON lines out.

Runs with the packages of a folder of its own (the first argument), since they cannot be installed beside ours.
"""

import asyncio
import json
import math
import sys

sys.path.insert(0, sys.argv[1])

from ragas.embeddings.base import BaseRagasEmbedding
from ragas.llms.base import InstructorBaseRagasLLM
from ragas.metrics.collections import (
    AnswerRelevancy,
    ContextPrecisionWithReference,
    ContextRecall,
    Faithfulness,
    NoiseSensitivity,
)

WITH_VECTORS = {"AnswerRelevancy": AnswerRelevancy}
METRICS = {
    "Faithfulness": Faithfulness,
    "ContextPrecisionWithReference": ContextPrecisionWithReference,
    "ContextRecall": ContextRecall,
    "NoiseSensitivity": NoiseSensitivity,
}


class Scripted(InstructorBaseRagasLLM):
    """Answers one after another, of the form that is asked for."""

    def __init__(self, answers):
        self.answers = list(answers)

    def generate(self, prompt, response_model):
        return response_model.model_validate(self.answers.pop(0))

    async def agenerate(self, prompt, response_model):
        return self.generate(prompt, response_model)


class Vectors(BaseRagasEmbedding):
    def __init__(self, vectors):
        super().__init__()
        self.vectors = vectors

    def embed_text(self, text, **_):
        return self.vectors[text]

    async def aembed_text(self, text, **_):
        return self.vectors[text]


async def value(case):
    llm = Scripted(case["answers"])
    if case["metric"] in WITH_VECTORS:
        metric = WITH_VECTORS[case["metric"]](llm=llm, embeddings=Vectors(case["vectors"]))
    else:
        metric = METRICS[case["metric"]](llm=llm, **case.get("options", {}))
    try:
        found = (await metric.ascore(**case["inputs"])).value
    except Exception as error:  # the kind is the outcome
        return type(error).__name__
    return "NaN" if math.isnan(found) else found


for line in sys.stdin:
    print(json.dumps(asyncio.run(value(json.loads(line)))), flush=True)
