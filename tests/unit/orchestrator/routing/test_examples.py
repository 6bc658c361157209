"""The questions that the router learns from, and those that it is measured on."""

import json
from pathlib import Path

from services.orchestrator.routing import shipped
from services.orchestrator.routing.examples import NONE, OURS, built_in, examples_of
from services.orchestrator.routing.head import PLUS
from services.orchestrator.routing.wording import punctuated, word_lists
from services.runtime import tenants
from services.runtime.expressions.folding import fold

ROOT = Path(__file__).parents[4]
DEMO = tenants.load(ROOT / "demo" / "tenant_files")["demo"]


def questions(name):
    path = ROOT / "tests" / "data" / "routing" / f"{name}.jsonl"
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def plain(text):
    return " ".join(fold(text).replace("?", " ").replace("¿", " ").replace(".", " ").split())


def test_every_label_is_of_tools_of_ours_or_none():
    single = {label: texts for label, texts in built_in().items() if PLUS not in label}
    assert set(single) == {*OURS, NONE}
    assert all(len(texts) == len(set(texts)) >= 60 for texts in single.values())
    assert all(set(label.split(PLUS)) <= set(OURS) for label in built_in() if PLUS in label)


def test_every_example_has_its_vector_in_the_package():
    texts = {punctuated(text) for _, text in examples_of(None, {})}
    assert shipped.committed().of(list(texts)).keys() == texts, (
        "python -m services.orchestrator.trials.router --vectors"
    )


def test_an_example_has_one_label():
    texts = [plain(text) for _, text in examples_of(DEMO, {})]
    assert len(texts) == len(set(texts))


def test_questions_of_measurement_are_among_no_examples():
    known = {plain(text) for _, text in examples_of(DEMO, {})}
    asked = [
        plain(one["question"])
        for name in ("dev", "test", "companies", "several", "several_test")
        for one in questions(name)
    ]
    # The demo's headline question is an example of its query; with its second half it is another one.
    assert not known & set(asked)
    assert len(asked) == len(set(asked))


def test_half_of_the_questions_are_spanish():
    for name in ("dev", "test", "companies", "several", "several_test", "follow_ups"):
        languages = [one["language"] for one in questions(name)]
        assert abs(languages.count("es") - languages.count("en")) <= 1


def test_tenants_of_questions_have_a_file_or_none_on_purpose():
    known = tenants.load(ROOT / "tests" / "data" / "routing" / "tenants")
    assert {one["tenant"] for one in questions("companies")} == {*known, "elsewhere"}


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
