"""Our metrics and those of `ragas` on the same inputs, with the same verdicts: where they agree, and where not and why.

To run it: `.venv/bin/uv pip install --require-hashes --target .sabueso/clients/ragas -r
tests/data/evals/metrics/ragas/requirements.lock` (600 MB), then `make test-slow`.
"""

import json
import math
import os
import random
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from services.evaluation.metrics import noise_sensitivity
from services.evaluation.metrics.catalogue import named
from services.evaluation.metrics.embedder import ScriptedEmbedder
from services.evaluation.score import Status
from tests.unit.evaluation.metrics.world import ANSWER, NO_VECTORS, QUESTION, REFERENCE, answered, item, judge

FOLDER = Path(".sabueso/clients/ragas")
SCRIPT = Path(__file__).with_name("ragas_peer.py")
QUESTIONS = ["a?", "b?", "c?"]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(120),
    pytest.mark.skipif(not FOLDER.exists(), reason="ragas is not installed; the module's first lines say how"),
]


@dataclass
class Case:
    """What both are asked; `ours` gives our score. `expected`: ours and theirs, where they differ."""

    name: str
    ours: object
    theirs: dict
    expected: tuple = ()


def inputs(**others):
    return {"user_input": QUESTION, **others}


def statements(verdicts, key="verdict", names=None):
    return [
        {"statement": names[n] if names else f"C{n}", "reason": "", key: int(holds)} for n, holds in enumerate(verdicts)
    ]


def scoring(name, answer, by, about=None, embedder=NO_VECTORS):
    return lambda: named([name])[0].score(answer, about, by, embedder)


def supported(verdicts, text, first=None, names=None):
    claims = names or [f"C{n}" for n in range(len(verdicts))]
    by = {claim: ["p1"] if holds else [] for claim, holds in zip(claims, verdicts, strict=False)}
    return judge(first, claims={text: claims}, supported_by=by)


def faithfulness(name, verdicts, expected=(), *, contexts=("p1",), names=None, returned=None):
    """`returned`: how many of the verdicts the judge gives."""
    claims = names or [f"C{n}" for n in range(len(verdicts))]
    given = verdicts[:returned]
    nli = {"statements": statements(given, names=claims)}
    theirs = {
        "metric": "Faithfulness",
        "inputs": inputs(response=ANSWER, retrieved_contexts=list(contexts)),
        "answers": [{"statements": claims}, nli],
    }
    by = supported(verdicts, ANSWER, first=_short(given) if returned else None, names=names)
    return Case(name, scoring("faithfulness", answered(contexts), by), theirs, expected)


def recall(name, verdicts, expected=(), *, contexts=("p1",), returned=None):
    given = verdicts[:returned]
    theirs = {
        "metric": "ContextRecall",
        "inputs": inputs(reference=REFERENCE, retrieved_contexts=list(contexts)),
        "answers": [{"classifications": statements(given, "attributed")}],
    }
    by = supported(verdicts, REFERENCE, first=_short(given) if returned else None)
    return Case(name, scoring("context_recall", answered(contexts), by, item()), theirs, expected)


def _short(given):
    each = [{"claim": n, "reason": "", "passages": [], "supported": holds} for n, holds in enumerate(given, start=1)]
    return {"support": [json.dumps({"verdicts": each})] * 2}


def precision(name, verdicts, expected=()):
    passages = [f"P{n}" for n in range(len(verdicts))]
    theirs = {
        "metric": "ContextPrecisionWithReference",
        "inputs": inputs(reference=REFERENCE, retrieved_contexts=passages),
        "answers": [{"reason": "", "verdict": int(holds)} for holds in verdicts],
    }
    relevant = [passage for passage, holds in zip(passages, verdicts, strict=True) if holds]
    by = judge(relevant_to={QUESTION: relevant})
    return Case(name, scoring("context_precision_ranked", answered(passages), by, item()), theirs, expected)


def relevance(name, cosines, expected=(), *, noncommittal=(0, 0, 0), zero=False):
    vectors = {each: [cosine, math.sqrt(1 - cosine**2)] for each, cosine in zip(QUESTIONS, cosines, strict=True)}
    vectors[QUESTION] = [0.0, 0.0] if zero else [1.0, 0.0]
    theirs = {
        "metric": "AnswerRelevancy",
        "inputs": inputs(response=ANSWER),
        "answers": [
            {"question": each, "noncommittal": flag} for each, flag in zip(QUESTIONS, noncommittal, strict=True)
        ],
        "vectors": vectors,
    }
    by = judge(questions={ANSWER: [] if any(noncommittal) else QUESTIONS})
    score = scoring("answer_relevance", answered(), by, embedder=ScriptedEmbedder(vectors))
    return Case(name, score, theirs, expected)


def noise(mode):
    """The answer says one right thing by the relevant passage and takes one wrong thing from the noise."""
    by = judge(
        claims={"clean": ["Right."], ANSWER: ["Right.", "Wrong."]}, supported_by={"Right.": ["p1"], "Wrong.": ["noise"]}
    )
    yes, no = ({"statements": statements(each)} for each in ([1, 0], [0, 1]))
    theirs = {
        "metric": "NoiseSensitivity",
        "options": {"mode": mode},
        "inputs": inputs(response=ANSWER, reference=REFERENCE, retrieved_contexts=["p1", "noise"]),
        "answers": [
            {"statements": ["Reference."]},
            {"statements": ["Right.", "Wrong."]},
            {"statements": statements([1])},
            yes,
            {"statements": statements([0])},
            no,
            yes,
        ],
    }
    clean, noisy = answered(answer="clean"), answered(("p1", "noise"))
    return Case(f"noise, {mode}", lambda: noise_sensitivity.score(clean, noisy, by), theirs)


def _drawn():
    draw = random.Random(11)
    for n in range(25):
        verdicts = [draw.random() < 0.6 for _ in range(draw.randint(1, 12))]
        yield faithfulness(f"faithfulness {n}", verdicts)
        yield recall(f"recall {n}", verdicts)
        yield precision(f"precision {n}", verdicts)
        yield relevance(f"relevance {n}", [round(draw.uniform(0, 1), 3) for _ in QUESTIONS])


AGREEING = [
    *_drawn(),
    faithfulness("faithfulness of the worked example", [True, True, True, False]),
    precision("precision of the worked example", [True, True, False, True, False]),
    precision("no passage relevant", [False, False]),
    recall("recall of the worked example", [True, True, True]),
    relevance("relevance of the worked example", [0.91, 0.74, 0.52]),
]
DIFFERING = [
    faithfulness("no claims", [], (Status.NO_CLAIMS, "NaN")),
    faithfulness("a verdict is dropped", [True, True, False], (Status.JUDGE_FAILED, 1.0), returned=2),
    faithfulness("a claim is said twice", [True, True, False], (0.5, 2 / 3), names=["C0", "C0", "C1"]),
    faithfulness("nothing retrieved", [True], (Status.NO_CONTEXT, "ValueError"), contexts=()),
    faithfulness("an empty passage", [True], (Status.NO_CONTEXT, 1.0), contexts=("",)),
    recall("a verdict on the reference is dropped", [True, True, False], (Status.JUDGE_FAILED, 1.0), returned=2),
    recall("nothing retrieved for the reference", [True], (Status.NO_CONTEXT, "ValueError"), contexts=()),
    precision("nothing to rank", [], (Status.NO_CONTEXT, "ValueError")),
    relevance("noncommittal", [0.9, 0.8, 0.7], (Status.NO_CLAIMS, 0.0), noncommittal=(1, 1, 1)),
    relevance("noncommittal twice of three", [0.9, 0.8, 0.7], (Status.NO_CLAIMS, 0.8), noncommittal=(1, 1, 0)),
    relevance("questions that point away", [-0.9, -0.2, -0.1], (0.0, -0.4)),
    relevance("a question without a direction", [0.9, 0.8, 0.7], (Status.JUDGE_FAILED, "NaN"), zero=True),
]


@pytest.fixture(scope="module")
def theirs():
    """What ragas says, by name of the case."""
    cases = [*AGREEING, *DIFFERING, noise("relevant"), noise("irrelevant")]
    sent = "\n".join(json.dumps(case.theirs) for case in cases)
    command = [sys.executable, "-S", "-W", "ignore", str(SCRIPT), str(FOLDER)]
    quiet = os.environ | {"RAGAS_DO_NOT_TRACK": "true"}
    done = subprocess.run(command, input=sent, capture_output=True, text=True, timeout=100, check=False, env=quiet)
    assert done.returncode == 0, done.stderr[-2000:]
    values = [json.loads(line) for line in done.stdout.splitlines()]
    return dict(zip((case.name for case in cases), values, strict=True))


def near(value):
    return pytest.approx(value, abs=1e-9) if isinstance(value, float) else value


@pytest.mark.parametrize("case", AGREEING, ids=lambda case: case.name)
async def test_the_value_is_that_of_ragas(case, theirs):
    found = await case.ours()
    assert theirs[case.name] == near(found.value)


@pytest.mark.parametrize("case", DIFFERING, ids=lambda case: case.name)
async def test_the_value_differs_from_that_of_ragas_as_the_documentation_says(case, theirs):
    found = await case.ours()
    ours, other = case.expected
    assert (found.value if found.status is Status.OK else found.status) == near(ours)
    assert theirs[case.name] == near(other)


async def test_a_perfect_ranking_is_one_and_not_nearly_one(theirs):
    perfect = next(case for case in AGREEING if case.name.startswith("precision") and theirs[case.name] > 0.999)
    assert (await perfect.ours()).value == 1.0
    assert theirs[perfect.name] < 1.0


async def test_noise_sensitivity_is_another_quantity_of_the_same_name(theirs):
    found = await noise("relevant").ours()
    assert (found.value, found.details["from_noise"]) == (0.0, 0.5)
    # Theirs is the share of wrong claims that a relevant passage supports, or else an irrelevant one.
    assert theirs["noise, relevant"] == 0.0
    assert theirs["noise, irrelevant"] == found.details["from_noise"]
