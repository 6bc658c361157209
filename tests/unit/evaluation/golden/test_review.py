"""Review: every verdict is kept, nothing is lost, and a locked half stays as it is."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from services.evaluation.golden import lock, sets
from services.evaluation.golden.building.build import Built, Report
from services.evaluation.golden.building.publish import Taken, check_free, publish
from services.evaluation.golden.checking import checked
from services.evaluation.golden.item import Item, Stratum
from services.evaluation.golden.review import REJECTED, Review, ReviewRefused
from services.evaluation.golden.sets import About, BrokenSet

ABOUT = About(name="made-up", version=1, licence="Apache-2.0", languages=["en"], made_by="a test")
ITEMS = [
    Item(f"q{n}", f"Question {n}?", "en", Stratum.SINGLE_HOP, sources=(f"d{n}",), reference="Ten.", split=split)
    for n, split in enumerate(["dev", "dev", "test"])
]


@pytest.fixture
def folder(tmp_path):
    publish(tmp_path, ABOUT, Built(ITEMS, {"q0": ["Ten of them."]}, Report()), review_share=1, seed=1)
    return tmp_path


@pytest.fixture
def review(folder):
    return Review(folder, clock=lambda: datetime(2026, 5, 4, 3, 2, 1, tzinfo=UTC))


def items(folder):
    return {one.id: one for half in sets.HALVES for one in sets.read_half(folder, half).items}


def verdicts(review):
    return {one.id: (one.verdict, one.reviewer, one.reason) for one in review.drawn()}


def test_what_was_drawn_is_open_with_the_passages_it_was_written_from(review):
    found = {item.id: passages for item, passages in review.open_items()}
    assert found == {"q0": ["Ten of them."], "q1": [], "q2": []}


def test_an_accepted_item_has_a_reviewer(folder, review):
    review.accept("q0", "Ana")
    assert items(folder)["q0"] == replace(ITEMS[0], reviewer="Ana")
    assert verdicts(review)["q0"] == ("accepted", "Ana", "")
    assert {item.id for item, _ in review.open_items()} == {"q1", "q2"}
    assert review.drawn()[[one.id for one in review.drawn()].index("q0")].time == "2026-05-04T03:02:01Z"


def test_the_fingerprint_outlives_an_accepted_item_and_no_edit(folder, review):
    before = sets.read(folder).fingerprint
    review.accept("q0", "Ana")
    assert sets.read(folder).fingerprint == before
    review.edit("q0", "Ana", question="How many?", reference="Ten.")
    assert sets.read(folder).fingerprint != before


def test_an_edited_item_says_what_was_changed(folder, review):
    review.edit("q2", "Ana", question=" How many? ", reference="Ten.")
    assert items(folder)["q2"] == replace(ITEMS[2], question="How many?", reviewer="Ana")
    assert verdicts(review)["q2"] == ("edited", "Ana", "question")


def test_a_rejected_item_is_taken_out_and_kept_aside(folder, review):
    review.reject("q1", "Ana", "two\nanswers")
    assert set(items(folder)) == {"q0", "q2"}
    assert '"q1"' in (folder / REJECTED).read_text(encoding="utf-8")
    assert verdicts(review)["q1"] == ("rejected", "Ana", "two answers")
    review.reject("q0", "Ana", "trivial")
    assert len((folder / REJECTED).read_text(encoding="utf-8").splitlines()) == 2


@pytest.mark.parametrize(
    "call",
    [
        lambda one: one.accept("q0", ""),
        lambda one: one.accept("q9", "Ana"),
        lambda one: one.reject("q0", "Ana", " "),
        lambda one: one.edit("q0", "Ana", question="", reference=None),
    ],
)
def test_a_verdict_needs_an_item_a_reviewer_and_a_reason(folder, review, call):
    before = items(folder)
    with pytest.raises(ReviewRefused):
        call(review)
    assert items(folder) == before
    assert {verdict for verdict, *_ in verdicts(review).values()} == {"open"}


def test_an_item_that_was_not_drawn_may_be_judged_too(folder, review):
    (folder / "review.jsonl").unlink()
    review.accept("q1", "Ana")
    assert verdicts(review) == {"q1": ("accepted", "Ana", "")}


def test_drawing_again_keeps_the_verdicts(review):
    review.accept("q0", "Ana")
    review.draw(ITEMS)
    assert [one.verdict for one in review.drawn()].count("accepted") == 1
    assert len(review.drawn()) == 3


def test_a_locked_test_half_is_neither_shown_nor_changed_by_a_review(folder, review):
    lock.lock(folder)
    with pytest.raises(ReviewRefused, match="locked test half"):
        review.accept("q2", "Ana")
    review.accept("q0", "Ana")
    lock.verify(folder)
    assert {item.id for item, _ in review.open_items()} == {"q1"}
    sets.write_about(folder, ABOUT.model_copy(update={"version": 2}))
    assert {item.id for item, _ in review.open_items()} == {"q1", "q2"}
    review.accept("q2", "Ana")
    assert lock.lock(folder).version == 2


def test_a_queue_that_somebody_broke_is_said(folder, review):
    (folder / "review.jsonl").write_text("{}\n", encoding="utf-8")
    with pytest.raises(BrokenSet, match="line 1"):
        review.drawn()


def test_nothing_is_built_over_what_people_have_worked_on(folder, review):
    check_free(folder)
    review.accept("q0", "Ana")
    with pytest.raises(Taken, match="1 reviewed"):
        publish(folder, ABOUT, Built([], {}, Report()), review_share=1, seed=1)
    lock.lock(folder)
    with pytest.raises(Taken, match="locked"):
        check_free(folder)


def test_a_check_tells_counts_and_the_lock_and_what_is_wrong(folder, review):
    review.accept("q0", "Ana")
    found = checked(folder)
    assert (found.dev, found.test, found.reviewed, found.lock, found.complaint) == (2, 1, "1 of 3", "open", "")
    lock.lock(folder)
    lock.open_test(folder, lock.Reading("release", "Ana"))
    assert checked(folder).lock == "locked, read 1 times"
    sets.write_half(folder, "test", [replace(ITEMS[2], reference="No.")])
    assert "not what was frozen" in checked(folder).complaint
    (folder / "test.jsonl").unlink()
    assert "not what was frozen" in checked(folder).complaint
    (folder / "set.yaml").unlink()
    assert "set.yaml" in checked(folder).complaint
