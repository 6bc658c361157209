"""The questions that the router learns from, and those that it is measured on."""

import json
from pathlib import Path

from services.orchestrator.routing.calibration import committed
from services.orchestrator.routing.examples import NONE, OURS, built_in, examples_of
from services.orchestrator.routing.wording import word_lists
from services.runtime import tenants
from services.runtime.expressions.folding import fold

ROOT = Path(__file__).parents[4]
DEMO = tenants.load(ROOT / "demo" / "tenant_files")["demo"]


def questions(name):
    path = ROOT / "tests" / "data" / "routing" / f"{name}.jsonl"
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def plain(text):
    return " ".join(fold(text).replace("?", " ").replace("¿", " ").replace(".", " ").split())


def test_every_label_is_a_tool_of_ours_or_none():
    assert set(built_in()) == {*OURS, NONE}
    assert all(len(texts) == len(set(texts)) >= 60 for texts in built_in().values())


def test_an_example_has_one_label():
    texts = [plain(text) for _, text in examples_of(DEMO, {})]
    assert len(texts) == len(set(texts))


def test_questions_of_measurement_are_among_no_examples():
    known = {plain(text) for _, text in examples_of(DEMO, {})}
    asked = [plain(one["question"]) for name in ("dev", "test") for one in questions(name)]
    # The demo's headline question is an example of its query; with its second half it is another one.
    assert not known & set(asked)
    assert len(asked) == len(set(asked))


def test_half_of_the_questions_are_spanish():
    for name in ("dev", "test"):
        languages = [one["language"] for one in questions(name)]
        assert languages.count("es") == languages.count("en") >= 60


def test_no_filler_limits_or_counts():
    lists = word_lists()
    assert not lists["fillers"] & (lists["grouping"] | lists["counting"] | lists["summing"])
    assert not lists["fillers"] & {
        "no",
        "not",
        "sin",
        "without",
        "except",
        "less",
        "more",
        "menos",
        "mas",
        "only",
        "solo",
    }


def test_confidence_grows_with_the_lead():
    known = committed()
    values = [known.confidence(lead / 10) for lead in range(11)]
    assert values == sorted(values)
    assert 0.5 <= values[0] < 0.85 < values[-1] < 1
    assert 0.85 < known.confidence(-1, fits=True) < 1
