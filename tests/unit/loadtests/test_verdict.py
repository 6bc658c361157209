import json
import math

import pytest

from loadtests.answers import Question
from loadtests.offering.arrivals import schedule
from loadtests.offering.plan import Load, Relative, Row, Scenario
from loadtests.offering.samples import Finding, Run, Sample, Watched, sample_of
from loadtests.offering.verdict import judge, planned_counts, table

ASKED = (Question("q", "¿Qué?", []),)


def row(name="one", begins=10.0, seconds=20.0, **more):
    scenario = Scenario(
        **{"name": name, "questions": ("q",), "arrivals_per_second": 1, "p95_ms": {"answer": 100, "first_event": 20}}
        | {key: more.pop(key) for key in list(more) if key in Scenario.model_fields}
    )
    return Row(
        name=name, scenario=scenario, asked=ASKED, begins=begins, seconds=seconds, per_second=1, process="constant",
        **more,
    )  # fmt: skip


def load(*rows):
    return Load(file="test", profile="instant", rows=rows)


def sample(milliseconds=50.0, place=0, name="one", begins=10.0, **more):
    due = begins + place + 0.5
    fields = {"first_event": due + milliseconds / 10_000, "status": 200} | more
    return Sample(name, "main", "q", due, due, due + milliseconds / 1000, **fields)


def samples(*times, **more):
    return [sample(time, place, **more) for place, time in enumerate(times)]


def failed(found):
    return [(one.scenario, one.text) for one in found if one.failed]


def test_a_budget_holds_when_one_answer_in_twenty_is_late():
    assert failed(judge(load(row()), samples(*[50.0] * 19, 900.0))) == []
    assert failed(judge(load(row()), samples(*[50.0] * 18, 800.0, 900.0))) == [
        ("one", "p95 of answer is 800 ms, over its 100 ms"),
        ("one", "p95 of first_event is 80 ms, over its 20 ms"),
    ]


def test_every_budget_has_a_sentence_also_when_it_is_kept():
    texts = [one.text for one in judge(load(row()), samples(*[50.0] * 20))]
    assert texts == [
        "p95 of answer is 50 ms, within its 100 ms",
        "p95 of first_event is 5 ms, within its 20 ms",
        "0 of 20 failed",
        "0 of 20 were refused",
        "100.0% of the planned load was offered and ended in time",
    ]


def test_p50_and_p99_have_budgets_too():
    asked = row(p50_ms={"answer": 40}, p99_ms={"answer": 60}, p95_ms={})
    assert [text for _, text in failed(judge(load(asked), samples(*[50.0] * 19, 70.0)))] == [
        "p50 of answer is 50 ms, over its 40 ms",
        "p99 of answer is 70 ms, over its 60 ms",
    ]


def test_one_failure_breaks_it_unless_a_share_is_allowed():
    seen = [*samples(*[50.0] * 19), sample(place=19, problem="q: status 500: no")]
    assert failed(judge(load(row()), seen)) == [("one", "1 of 20 failed: q: status 500: no")]
    assert failed(judge(load(row(max_error_share=0.05)), seen)) == []


def test_refusals_are_counted_apart_and_their_times_are_no_answers():
    refused = [sample(1, place, refused=True, status=429, finish="tokens_limit") for place in range(10, 20)]
    seen = [*samples(*[50.0] * 10), *refused]
    assert failed(judge(load(row()), seen)) == [("one", "10 of 20 were refused (tokens_limit)")]
    assert failed(judge(load(row(max_refused_share=None)), seen)) == []
    loud = row(max_refused_share=None, min_refused_share=0.6)
    few = "10 of 20 were refused (tokens_limit), fewer than the 60% that its limits should"
    assert failed(judge(load(loud), seen)) == [("one", few)]


def test_no_answer_at_all_breaks_every_budget():
    seen = [sample(place=place, problem="q: no answer after 20 s", status=0) for place in range(20)]
    texts = [text for _, text in failed(judge(load(row()), seen))]
    assert texts[0] == "p95 of answer is inf ms, over its 100 ms"
    assert texts[-1].startswith("0.0% of the planned load was offered and ended in time, less than 98%")


def test_what_was_never_sent_counts_as_planned():
    assert "95.0% of the planned load" in failed(judge(load(row()), samples(*[50.0] * 19)))[0][1]


def test_the_run_fails_when_too_much_ended_too_late():
    late = [*samples(*[50.0] * 18), sample(5000, 18), sample(5000, 19)]
    texts = [text for _, text in failed(judge(load(row(p95_ms={})), late))]
    assert [text[:5] for text in texts] == ["90.0%"]
    assert failed(judge(load(row(p95_ms={}, grace_seconds=6.0)), late)) == []


def test_warm_up_does_not_count():
    seen = [*samples(*[50.0] * 20), sample(9000, 0, warm_up=True, problem="q: status 500")]
    assert failed(judge(load(row()), seen)) == []


def test_a_median_can_be_measured_by_that_of_another_scenario():
    both = load(row("uncached"), row("cached", median=Relative(of="uncached", times=0.8)))
    other = samples(*[80.0] * 20, name="uncached")
    assert failed(judge(both, other + samples(*[60.0] * 20, name="cached"))) == []
    slow = samples(*[70.0] * 20, name="cached")
    assert failed(judge(both, other + slow)) == [("cached", "its median is 70 ms, over 0.8 × the 80 ms of uncached")]
    alone = load(row("cached", median=Relative(of="uncached", times=0.8)))
    assert failed(judge(alone, slow)) == []


def test_in_a_spike_times_and_refusals_are_free_but_errors_are_not():
    seen = [*samples(*[1900.0] * 18), sample(place=18, refused=True), sample(place=19, problem="q: wrong")]
    assert failed(judge(load(row(timed=False, may_refuse=True)), seen)) == [("one", "1 of 20 failed: q: wrong")]


def test_without_budgets_a_question_must_still_be_answered():
    seen = [*samples(*[1900.0] * 19), sample(place=19, refused=True)]
    assert failed(judge(load(row(timed=False)), seen)) == [("one", "1 of 20 were refused")]


def test_the_table_has_a_line_a_timed_thing_and_names_what_failed():
    asked = load(row())
    seen = samples(*[50.0] * 10, *[500.0] * 10)
    lines = table(asked, seen, judge(asked, seen)).splitlines()
    assert lines[1].split() == ["one", "answer", "50", "500", "500", "p95", "100", "20/20", "0", "0"]
    assert lines[2].split()[:2] == ["one", "first_event"]
    assert sum(line.startswith("✗ one: ") for line in lines) == 2
    fine = samples(*[50.0] * 20)
    assert table(asked, fine, judge(asked, fine)).splitlines()[-1] == "✓ all is as it should be"


def test_a_run_is_kept_with_all_its_samples(tmp_path):
    asked = load(row())
    run = Run(asked, "http://here", samples=samples(50.0, 60.0), watched=[Watched(1.0, "gateway", 5, 6, 0)])
    run.samples[0] = sample(problem="q: no answer", first_event=None)
    run.findings = [Finding("one", "errors", True, "1 of 2 failed")]
    run.write(tmp_path / "run")
    told = json.loads((tmp_path / "run" / "run.json").read_text())
    assert told["schema"] == 1
    assert told["scenarios"][0]["budgets"] == {
        "answer": {"p50": None, "p95": 100, "p99": None},
        "first_event": {"p50": None, "p95": 20, "p99": None},
    }
    assert told["verdict"] == [{"scenario": "one", "what": "errors", "failed": True, "text": "1 of 2 failed"}]
    assert told["watched"] == [{"at": 1.0, "process": "gateway", "rss_bytes": 5, "file_descriptors": 6, "leases": 0}]
    lines = [json.loads(line) for line in (tmp_path / "run" / "samples.jsonl").read_text().splitlines()]
    assert [sample_of(line) for line in lines] == run.samples
    assert lines[0]["first_event"] is None
    assert run.failed


def test_a_sample_that_never_saw_an_event_is_infinitely_late():
    assert math.isinf(sample(first_event=None).milliseconds("first_event"))
    assert sample(60).milliseconds("answer") == pytest.approx(60)


def test_planned_counts_leave_the_warm_up_out():
    asked = load(row(warm_up_seconds=2.0))
    assert planned_counts(asked, schedule(asked)) == {"one": 20}
