"""The verdict blames what a fault may not do, and nothing else."""

from dataclasses import replace

from tests.chaos.asking import WORDS
from tests.chaos.offering import Ledger, Sample
from tests.chaos.verdict import Fault, judge, lost_documents, wrong_tokens

CUT = Fault("retrieval", "cut", began=10.0, ended=14.0, broken=10.0, mending=14.0)
NEEDS = {"documents": frozenset({"retrieval"}), "model": frozenset()}
FINE = Sample("documents", "demo", 1.0, 2.0, status=200, finish="answered", tokens=7)
WITHOUT = {"degraded": ("retrieval",), "reasons": ("retrieval does not answer",)}


def broken(*samples, fault=CUT):
    return list(judge(fault, samples, NEEDS).broken)


def sample(sent, **fields):
    return replace(FINE, **{"sent": sent, "ended": sent + 1, **fields})


def test_a_quiet_run_is_as_it_should_be():
    assert broken(sample(1), sample(11, **WITHOUT), sample(15)) == []


def test_a_typed_error_during_the_fault_is_allowed_and_any_error_without_one_is_not():
    refused = {"status": 503, "code": "dependency_failed", "problem": "retrieval does not answer", "finish": ""}
    assert broken(sample(11, **refused)) == []
    assert "without any fault" in broken(sample(1, **refused))[0]


def test_an_error_without_a_code_and_a_bug_are_blamed():
    assert "without a code" in broken(sample(11, status=0, problem="no answer: ReadError"))[0]
    bug = broken(sample(11, status=500, code="internal_error", problem="Internal error."))
    assert any("a bug" in one for one in bug)


def test_only_the_gateways_own_fault_may_leave_a_client_without_an_answer():
    gone = sample(11, status=0, problem="no answer: ReadError")
    assert broken(gone, fault=replace(CUT, service="gateway", how="kill")) == []


def test_another_tenants_word_is_blamed_whenever_it_is_told():
    for sent in (1, 11, 20):
        [said] = broken(sample(sent, text=f"It is {WORDS['other']}.", **(WITHOUT if sent == 11 else {})))
        assert "the word of tenant other" in said


def test_an_untrue_answer_must_say_what_it_went_without():
    assert broken(sample(11, untrue="it does not say 47", **WITHOUT)) == []
    assert "not true" in broken(sample(11, untrue="it does not say 47"))[0]


def test_an_answer_that_was_made_without_what_it_needs_must_say_so():
    assert "says nothing" in broken(sample(11))[0]
    assert broken(replace(sample(11), kind="model", finish="")) == []


def test_a_call_beyond_its_deadline_is_blamed():
    assert "hung" in broken(sample(11, ended=40.0, **WITHOUT))[0]


def test_recovery_is_counted_to_the_last_request_that_was_not_whole():
    late = sample(18.5, **WITHOUT)
    assert judge(CUT, [late], NEEDS).recovery_seconds == 4.5
    [said] = broken(sample(26, **WITHOUT))
    assert "whole again only 12.0 s after" in said


def test_a_busy_machine_is_excused_for_a_few_late_answers_and_not_for_many():
    late = {"degraded": ("sql_tool",), "reasons": ("timeout after 8s",)}
    assert broken(sample(1, **late), *(sample(2) for _ in range(20))) == []
    assert len(broken(sample(1, **late), sample(2))) == 1


def test_tokens_are_exact_where_all_ended_well_and_never_fewer():
    assert wrong_tokens([FINE, FINE], {"demo": 14}) == []
    assert wrong_tokens([FINE, FINE], {"demo": 15}) != []
    assert wrong_tokens([FINE, sample(1, problem="lost", tokens=0)], {"demo": 15}) == []
    assert wrong_tokens([FINE, sample(1, problem="lost", tokens=0)], {"demo": 6}) != []
    assert wrong_tokens([FINE, sample(1, problem="lost", tokens=0)], {"demo": 30_000}) != []


def test_what_met_a_lost_store_may_be_charged_what_it_set_aside():
    lost = Fault("valkey", "pause", began=10.0, ended=14.0, broken=10.0, mending=14.0)
    assert wrong_tokens([FINE, sample(11)], {"demo": 514}, lost) == []
    assert wrong_tokens([FINE, sample(1)], {"demo": 514}, lost) != []


def test_a_document_that_was_acknowledged_must_be_found():
    ledger = Ledger({"a": ("demo", "x"), "b": ("other", "y")})
    assert lost_documents(ledger, {"a": "found", "b": "found"}) == []
    [said] = lost_documents(ledger, {"a": "found", "b": "failed"})
    assert "document b of other" in said
