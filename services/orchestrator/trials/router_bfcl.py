"""Tools of strangers, known by their descriptions only: BFCL's questions (Patil et al. 2025, Apache-2.0)."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from services.orchestrator.routing.choice import committed
from services.orchestrator.routing.encoder import QueryEncoder
from services.orchestrator.routing.examples import IMPORTANCE, built_in
from services.orchestrator.routing.head import learn
from services.orchestrator.routing.wording import punctuated
from services.orchestrator.trials.router_calibration import encoded

_MIN_CONFIDENCE = 0.65
_MOST = 80


@dataclass(frozen=True)
class Question:
    """`right` is the tool that it needs; empty where none fits. `tools`: descriptions by name."""

    text: str
    tools: Mapping[str, str]
    right: str


def read(folder: Path, kind: str) -> list[Question]:
    """The questions of one file; those with several turns are left out."""
    answers: dict[str, str] = {}
    answered = folder / "possible_answer" / f"BFCL_v4_{kind}.json"
    if answered.exists():
        for line in answered.read_text(encoding="utf-8").splitlines():
            one = json.loads(line)
            answers[one["id"]] = next(iter(one["ground_truth"][0]))
    found: list[Question] = []
    for line in (folder / f"BFCL_v4_{kind}.json").read_text(encoding="utf-8").splitlines():
        one: dict[str, Any] = json.loads(line)
        said = [turn["content"] for turn in one["question"][0] if turn["role"] == "user"]
        tools = {tool["name"]: _about(tool) for tool in one["function"]}
        if len(said) == 1 and said[0].strip() and len(said[0]) <= 2_000 and tools:
            found.append(Question(said[0], tools, answers.get(one["id"], "")))
    return found


def _about(tool: Mapping[str, Any]) -> str:
    """Name and description, as the router takes them for an example."""
    return f"{tool['name'].replace('_', ' ').replace('.', ' ')}: {tool['description']}"[:400]


async def report(encoder: QueryEncoder, folder: Path) -> str:
    """A row a file: the best of the tools, how often the router is sure of one, and how often that is right."""
    texts = [(label, text) for label, known in built_in().items() for text in known]
    known = await encoded(encoder, [punctuated(text) for _, text in texts])
    rows = [
        "| BFCL, by description only | questions | best is right | nearest description | sure | right, of sure |",
        "|---|---|---|---|---|---|",
    ]
    for kind in ("multiple", "live_multiple", "irrelevance"):
        questions = read(folder, kind)[:_MOST]
        best, nearest, sure, right = 0, 0, 0, 0
        for one in questions:
            names = list(one.tools)
            vectors = await encoded(encoder, [punctuated(text) for text in (one.text, *one.tools.values())])
            labels = [*(label for label, _ in texts), *names]
            examples = [*(text for _, text in texts), *one.tools.values()]
            head = learn(examples, [known, vectors[1:]], labels, importance=IMPORTANCE)
            scores = head.scores([one.text], vectors[:1])[0]
            first = max(names, key=lambda name: scores[name])
            best += first == one.right
            nearest += names[int(np.argmax(vectors[1:] @ vectors[0]))] == one.right
            choice = committed().choose(scores, [])
            named = choice.confidence >= _MIN_CONFIDENCE and bool(choice.labels & set(names))
            sure += named
            right += named and choice.labels == frozenset([one.right])
        shares = [f"{count / len(questions):.3f}" for count in (best, nearest, sure)]
        if not questions[0].right:
            shares[:2] = ["–", "–"]
        rows.append(f"| {kind} | {len(questions)} | {' | '.join(shares)} | {right / sure if sure else 0:.3f} |")
    return "\n".join(rows)
