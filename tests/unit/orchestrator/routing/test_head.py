"""The linear head: what it learns from examples."""

import asyncio

import numpy as np

from services.orchestrator.routing.encoder import HashedStems
from services.orchestrator.routing.head import SEVERAL, learn, lesson
from services.orchestrator.routing.wording import punctuated
from services.orchestrator.trials.router_calibration import held_out

RED = ["red apples", "red roses", "red wine here", "a red door", "red paint"]
BLUE = ["blue sky", "blue sea today", "a blue door", "blue paint", "blue ink"]
TEXTS, LABELS = [*RED, *BLUE], ["red"] * len(RED) + ["blue"] * len(BLUE)


def vectors(texts):
    return asyncio.run(HashedStems().encode(texts, 60)).vectors


def best(head, text):
    (scores,) = head.scores([text], vectors([text]))
    return max(scores, key=scores.get)


def test_kinds_are_told_apart():
    head = learn(TEXTS, [vectors(TEXTS)], LABELS)
    assert (best(head, "red curtains"), best(head, "blue curtains")) == ("red", "blue")


def test_in_doubt_the_more_important_label_wins():
    doubt = "a door"
    for important in ("red", "blue"):
        head = learn(TEXTS, [vectors(TEXTS)], LABELS, importance={important: 20.0})
        assert best(head, doubt) == important


def test_blocks_of_vectors_are_one():
    one, two = (learn(TEXTS, blocks, LABELS) for blocks in ([vectors(TEXTS)], [vectors(RED), vectors(BLUE)]))
    first, second = (head.scores(["a red sky"], vectors(["a red sky"]))[0] for head in (one, two))
    assert first.keys() == second.keys() == {"red", "blue"}
    assert all(abs(first[name] - second[name]) < 1e-3 for name in first)


def test_an_example_of_several_labels_teaches_each_of_them():
    texts, labels = [*TEXTS, "red and blue", "a red and a blue door"], [*LABELS, "red+blue", "red+blue"]
    head = learn(texts, [vectors(texts)], labels)
    both, one = head.scores(["red and blue flags", "red flags"], vectors(["red and blue flags", "red flags"]))
    assert set(head.labels) == {"red", "blue", SEVERAL}
    assert both[SEVERAL] > one[SEVERAL]
    assert both["blue"] > one["blue"]


def test_leaving_examples_out_in_closed_form_is_learning_without_them():
    known = dict(zip(map(punctuated, TEXTS), vectors(TEXTS), strict=True))
    said = held_out(TEXTS, known, LABELS, {text: [] for text in TEXTS})
    encoded = vectors(TEXTS)
    made = lesson(TEXTS, encoded, LABELS, importance={})
    gram = made.gram()
    for at, one in enumerate(said):
        kept = [index for index in range(len(TEXTS)) if encoded[index] @ encoded[at] <= 0.91]
        dual = np.linalg.solve(gram[np.ix_(kept, kept)], made.targets[kept])
        row = made.kernel(made.features[[at]], encoded[[at]])[:, kept]
        expected = dict(zip(made.labels, (row @ dual)[0] + made.offset, strict=True))
        assert one.needed == {LABELS[at]}
        assert all(abs(one.whole[name] - expected[name]) < 1e-3 for name in expected)
