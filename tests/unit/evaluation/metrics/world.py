"""Answers and judges for the tests of metrics."""

import json
from pathlib import Path

from services.evaluation.answered import Answered, Passage
from services.evaluation.golden.item import Item, Stratum
from services.evaluation.judge.scripted import Script, ScriptedJudge
from services.evaluation.metrics.embedder import ScriptedEmbedder

DATA = Path(__file__).parents[3] / "data/evals/metrics"
QUESTION, ANSWER, REFERENCE = "What is so?", "An answer.", "A reference."
NO_VECTORS = ScriptedEmbedder({})


def answered(passages=("p1",), answer=ANSWER, **others):
    return Answered(QUESTION, answer, "en", passages=tuple(Passage(text, text) for text in passages), **others)


def item(reference=REFERENCE, sources=()):
    return Item("i1", QUESTION, "en", Stratum.SINGLE_HOP, sources=tuple(sources), reference=reference)


def judge(first=None, **script):
    return ScriptedJudge(Script(**script), first)


def supporting(claims, supported, passages=("p1",)):
    """A judge that finds `claims` in the answer and the reference, and `supported` of them in all of `passages`."""
    by = {claim: list(passages) if claim in supported else [] for claim in claims}
    return judge(claims={ANSWER: list(claims), REFERENCE: list(claims)}, supported_by=by)


def worked_example():
    """The answer, the item, the judge, the embedder and the values expected."""
    data = json.loads((DATA / "worked_example.json").read_text(encoding="utf-8"))
    passages = tuple(Passage(one["text"], one["source"]) for one in data["passages"])
    shown = Answered(data["question"], data["answer"], data["language"], passages=passages)
    golden = Item(
        "redis",
        data["question"],
        data["language"],
        Stratum.MULTI_HOP,
        tuple(data["sources"]),
        reference=data["reference"],
    )
    embedder = ScriptedEmbedder.by_cosine(data["question"], data["cosines"])
    return shown, golden, ScriptedJudge(Script.model_validate(data["script"])), embedder, data["expected"]
