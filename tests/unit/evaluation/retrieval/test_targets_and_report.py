import json
from dataclasses import replace

import pytest

from services.evaluation.retrieval import report, split, targets
from services.evaluation.retrieval.clients import Found
from services.evaluation.retrieval.collection import Collection, Passage, Question
from services.evaluation.retrieval.measures import measure
from services.evaluation.retrieval.stages import STAGES, TRIVIAL
from services.evaluation.retrieval.trial import Trial, document_ids, false_share

ORIGIN = report.Origin(split.DEV, "make eval-retrieval", "abc", "e5", "2 × x86_64", "2026-01-01", False)
FAR = [f"n{n}" for n in range(200)]


def trial(name, places, *, floor=0.0, lost=()):
    """Each stage finds the one relevant passage at the place (from 1) that `places` says, else at the first."""
    questions = [Question(f"q{n}", "?", frozenset({"a"})) for n in range(20)]
    measured = {}
    for stage in (TRIVIAL, *(one.name for one in STAGES)):
        ranking = [*FAR[: places.get(stage, 1) - 1], "a"]
        answered = [one for at, one in enumerate(questions) if stage not in lost or at % 3]
        measured[stage] = measure(questions, {one.question_id: ranking for one in answered})
    return Trial(Collection(name, [Passage("a", "text")], questions, floor=floor), measured)


def passed(trials):
    return [one.passed for one in targets.verdicts(trials)]


def test_a_stage_that_fails_every_third_question_is_a_fault():
    broken = trial("some", {}, lost=["dense"])
    broken.failures["dense"] = "embedding does not answer."
    assert targets.faults([broken]) == [
        "some, dense: only 65% of the questions were answered (embedding does not answer.)"
    ]


def test_bm25_below_the_floor_is_a_fault():
    (fault,) = targets.faults([trial("cranfield", {"BM25": 50}, floor=0.2)])
    assert "nDCG@10 of BM25 is 0.000, below the floor of 0.20" in fault
    assert targets.faults([trial("cranfield", {}, floor=0.2)]) == []


def test_targets_are_met_and_missed_as_they_should_be():
    worse_legs = {"BM25": 2, "dense": 3}
    assert passed([trial("medline", worse_legs)]) == [True, True, True, None, None, None, None]
    below = {"hybrid, calibrated": 2, "hybrid + rerank": 3}
    assert passed([trial("medline", below)])[:3] == [False, False, False]


def test_spanish_is_compared_with_english_and_questions_across_languages_with_a_figure():
    same = [trial(name, {}) for name in ("xquad-en", "xquad-es", "xquad-es-to-en")]
    assert passed(same)[3:5] == [True, True]
    worse = [trial("xquad-en", {}), *(trial(name, {"hybrid + rerank": 2}) for name in ("xquad-es", "xquad-es-to-en"))]
    assert passed(worse)[3:5] == [False, False]


def test_identifiers_must_come_first_and_unknown_ones_must_not_look_known():
    good, bad = trial("identifiers", {}), trial("identifiers", {"hybrid + rerank": 2})
    good.false_share, bad.false_share = 0.0, 0.1
    assert passed([good]) == [None, None, None, None, None, True, True]
    assert passed([bad])[5:] == [False, False]


def test_adi_is_too_small_to_be_compared():
    assert passed([trial("adi", {"hybrid + rerank": 50})])[:3] == [None, None, None]


def test_an_unknown_identifier_is_held_against_the_known_ones_of_its_kind():
    questions = [
        Question("1", "ERR-1", frozenset({"p"}), "error"),
        Question("2", "ERR-2", frozenset({"p"}), "error"),
        Question("3", "G1", frozenset({"p"}), "tax number"),
        Question("4", "ERR-8", frozenset(), "unknown error"),
        Question("5", "ERR-9", frozenset(), "unknown error"),
        Question("6", "G2", frozenset(), "unknown tax number"),
        Question("7", "G3", frozenset(), "unknown tax number"),
    ]
    scores = {"1": 9.0, "2": 7.0, "3": 4.0, "4": 6.9, "5": 7.1, "6": 3.0}
    answers = {each: [Found("p", score)] for each, score in scores.items()} | {"7": []}
    assert false_share(questions, answers) == 1 / 4


def test_ids_for_the_product_are_plain_and_in_the_order_of_the_collections_ids():
    ids = document_ids([Passage("doc (b)", ""), Passage("doc (a)", ""), Passage("é", "")])
    assert ids == {"doc (a)": "p0000000", "doc (b)": "p0000001", "é": "p0000002"}


def test_the_table_shows_every_stage_with_interval_difference_and_coverage():
    one = trial("medline", {"BM25": 2, "dense": 3})
    text = report.section(ORIGIN, [one], targets.verdicts([one]), ["something is wrong"])
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    assert sum(any(stage.name in row for stage in STAGES) for row in rows if "±" in row) == len(STAGES)
    assert "| medline | shared words | 1.000 ± 0.000 |" in text
    assert "|  | BM25 | 0.631 ± 0.000 |" in text
    assert "best leg | 100% |" in text
    assert "+0.369 [+0.369, +0.369]" in text
    assert "- **fault**: something is wrong" in text
    assert "| not measured |" in text


def test_writing_one_split_leaves_the_other_alone(tmp_path):
    path = tmp_path / "docs" / "retrieval-quality.md"
    report.written(path, "test", "## test\n\nread once\n")
    report.written(path, "dev", "## dev\n\nfirst\n")
    report.written(path, "dev", "## dev\n\nsecond\n")
    text = path.read_text(encoding="utf-8")
    assert text.startswith("# Quality of retrieval\n")
    assert text.endswith("## dev\n\nsecond\n\n## test\n\nread once\n")
    assert "first" not in text


def test_the_shipped_sample_has_a_part_of_its_own(tmp_path):
    path = tmp_path / "retrieval-quality.md"
    one = trial("medline", {})
    for origin in (ORIGIN, replace(ORIGIN, is_sample=True)):
        report.written(path, origin.heading, report.section(origin, [one], [], []))
    headings = [line for line in path.read_text(encoding="utf-8").splitlines() if line.startswith("## ")]
    assert headings == ["## dev", "## dev, shipped sample"]


def test_lines_for_programs_are_json_with_means_and_intervals():
    one = trial("medline", {"BM25": 2})
    rows = [json.loads(line) for line in report.trial_lines("dev", one)]
    bm25 = next(row for row in rows if row["stage"] == "BM25")
    assert bm25["nDCG@10"]["mean"] == pytest.approx(0.63093)
    assert (bm25["collection"], bm25["split"], bm25["coverage"]) == ("medline", "dev", 1.0)
    told = [json.loads(line) for line in report.target_lines(ORIGIN, targets.verdicts([one]))]
    assert [row["passed"] for row in told][:2] == [True, False]
    assert {row["model"] for row in told} == {"e5"}
