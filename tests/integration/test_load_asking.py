"""What a load test makes of answers that are late, wrong, refused, cut, or never come."""

import time

import pytest

from loadtests.answers import Question
from loadtests.offering.asking import Asker
from loadtests.offering.connections import Connections
from loadtests.offering.documents import Documents, text_of
from loadtests.offering.part import Part
from loadtests.offering.plan import Load, Row, Scenario
from loadtests.offering.samples import sample_of
from loadtests.offering.target import Target
from loadtests.offering.watching import Watcher
from tests.integration.crooked_server import TRUTH, crooked_server

KEYS = {"main": "k", "second": "k", "noisy": "k"}


@pytest.fixture(scope="module")
def server():
    with crooked_server() as running:
        yield running


def row(*words, kind="agent", **more):
    asked = tuple(Question(word, f"{word} cuántos", [[TRUTH]] if kind == "agent" else []) for word in words)
    scenario = Scenario(name="s", kind=kind, questions=words, arrivals_per_second=1, turns=2)
    return Row(**{"name": "s", "scenario": scenario, "asked": asked, "seconds": 1.0, "per_second": 1.0} | more)


def ask(server, word, longest=20.0, connections=None, **more):
    asked = row(word, **more)
    load = Load(file="test", profile="instant", rows=(asked,), longest_seconds=longest)
    own = connections or Connections(server.url)
    asker = Asker(load, own, KEYS, time.perf_counter())
    try:
        return asker.ask(asked, asked.asked[0], 0.0, False)
    finally:
        if not connections:
            own.close()


def test_a_true_answer_is_kept_with_its_times_and_stages(server):
    sample = ask(server, "fine")
    assert (sample.problem, sample.refused, sample.status, sample.finish) == ("", False, 200, "answered")
    assert sample.degraded
    assert sample.answered
    assert 0 < sample.sent <= sample.first_event <= sample.first_token < sample.ended
    assert sample.stages_ms == {"gateway": 2.0}
    assert 0 < sample.gap_ms_p50 <= sample.gap_ms_max


def test_a_late_answer_shows_when_it_came(server):
    assert ask(server, "slow").milliseconds("first_event") >= 300


@pytest.mark.parametrize(
    ("word", "problem"),
    [
        ("wrong", f"wrong: the answer does not say {TRUTH}"),
        ("early", "early: the stream ended before the answer did"),
        ("failed", "failed: no model"),
        ("broken", "broken: status 500: internal error"),
        ("mute", "mute: status 429 that does not say when to come again"),
    ],
)
def test_what_is_no_true_answer_is_a_problem_in_words(server, word, problem):
    sample = ask(server, word)
    assert (sample.problem, sample.refused) == (problem, False)


@pytest.mark.parametrize("word", ["full", "shed", "late"])
def test_a_refusal_that_says_when_to_come_again_is_none(server, word):
    sample = ask(server, word)
    assert (sample.problem, sample.refused, sample.answered) == ("", True, False)
    assert sample.finish == f"{word}_code"


@pytest.mark.parametrize("word", ["cut", "gone"])
def test_a_connection_that_breaks_is_a_problem_and_is_not_tried_again(server, word):
    before = server.asked[word]
    assert ask(server, word).problem.startswith(f"{word}: the connection broke")
    assert server.asked[word] == before + 1


def test_an_answer_that_never_comes_is_given_up(server):
    assert ask(server, "hang", longest=0.3).problem == "hang: no answer after 0.3 s"


def test_nobody_there_is_a_problem():
    connections = Connections("http://127.0.0.1:1")
    assert "cannot be reached" in ask(None, "fine", connections=connections).problem


def test_a_connection_is_used_again_but_not_after_one_that_broke(server):
    connections, before = Connections(server.url), server.connections
    for _ in range(3):
        assert ask(server, "fine", connections=connections).answered
        assert ask(server, "full", connections=connections).refused
    assert server.connections == before + 1
    ask(server, "hang", longest=0.1, connections=connections)
    assert ask(server, "fine", connections=connections).answered
    assert server.connections == before + 2
    connections.close()


def test_an_answer_that_came_about_in_another_way_is_a_problem(server):
    scenario = Scenario(name="s", questions=("fine",), arrivals_per_second=1, turns=3)
    assert ask(server, "fine", scenario=scenario).problem == "fine: it took 2 turns of the model, not 3"


def test_chat_and_embeddings_are_asked_of_the_models_that_the_server_names(server):
    assert ask(server, "fine", kind="chat").answered
    assert ask(server, "fine", kind="embeddings").answered
    assert ask(server, "same", kind="embeddings").problem == "same: two texts have the same vector"
    assert "not one vector" in ask(server, "few", kind="embeddings").problem


def test_arrivals_do_not_wait_for_answers_and_times_count_from_when_they_were_due(server):
    rows = (row("slow", seconds=1.0, per_second=20.0, process="constant"),)
    load = Load(file="test", profile="instant", rows=rows)
    told = []
    part = Part(Target(server.url, KEYS), told.append)
    server.most_at_once = 0
    part.offer(load, 0, 1)
    assert server.most_at_once > 1
    report = part.report()
    assert (report["done"], report["problem"], report["requests"]) == (True, "", 20)
    samples = [sample_of(one) for one in report["samples"]]
    assert sorted(one.due for one in samples) == pytest.approx([0.025 + 0.05 * place for place in range(20)])
    assert all(one.sent >= one.due and one.milliseconds("answer") >= 300 for one in samples)
    assert len(told) == 20
    assert part.report()["samples"] == []


def test_a_share_that_cannot_be_offered_says_why(server):
    part = Part(Target(server.url, {}), lambda _: None)
    part.offer(Load(file="test", profile="instant", rows=(row("fine"),)), 0, 0)
    assert part.done
    assert part.problem


def test_documents_are_indexed_one_after_the_other_and_deleted(server):
    connections = Connections(server.url)
    documents = Documents(connections, "k", pages=2)
    documents.index_until(lambda: documents.ready == 2)
    connections.close()
    assert documents.told() == {"ready": 2, "pages": 4, "problems": []}
    assert server.documents == [
        "PUT /v1/collections/load-test",
        "POST /v1/documents", "GET /v1/documents/load-test-0",
        "POST /v1/documents", "GET /v1/documents/load-test-1",
        "DELETE /v1/documents/load-test-2",
        "DELETE /v1/collections/load-test",
    ]  # fmt: skip
    assert text_of(3, 2) == text_of(3, 2) != text_of(4, 2)
    assert text_of(3, 2).count("## Section") == 2


def test_documents_that_cannot_be_indexed_are_a_problem_in_words():
    documents = Documents(Connections("http://127.0.0.1:1"), "k", pages=1)
    documents.index_until(lambda: False)
    assert documents.ready == 0
    assert "cannot be reached" in documents.problems[0]


def test_the_leases_of_a_stack_elsewhere_are_read_from_its_metrics(server):
    connections = Connections(server.url)
    server.leases = 3
    [reading] = Watcher(None, connections).read(5.0)
    server.leases = 0
    connections.close()
    assert (reading.at, reading.process, reading.leases, reading.rss_bytes) == (5.0, "gateway", 3, None)
    assert Watcher(None, Connections("http://127.0.0.1:1")).read(5.0) == []
