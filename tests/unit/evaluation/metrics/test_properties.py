"""What must hold of a metric whatever the answer is."""

import asyncio
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.evaluation.answered import Answered, Passage
from services.evaluation.judge.scripted import Script, ScriptedJudge
from services.evaluation.metrics import noise_sensitivity
from services.evaluation.metrics.catalogue import named
from services.evaluation.metrics.context_precision import average_precision
from services.evaluation.metrics.embedder import ScriptedEmbedder
from services.evaluation.metrics.noise_sensitivity import with_noise
from services.evaluation.metrics.ranking import ranked
from services.evaluation.score import Status
from tests.unit.evaluation.metrics.world import ANSWER, NO_VECTORS, QUESTION, answered, item, judge, supporting

# A score runs an event loop: enough examples to find what is wrong, and no more.
few = settings(max_examples=30)
flags = st.lists(st.booleans(), min_size=1, max_size=30)
SOURCES = [f"d{n}" for n in range(8)]
rankings = st.lists(st.sampled_from(SOURCES), max_size=15)
expected_sources = st.sets(st.sampled_from(SOURCES), min_size=1)


def value(name, answer, by, about=None, embedder=NO_VECTORS):
    return asyncio.run(named([name])[0].score(answer, about, by, embedder)).value


def claims_of(verdicts):
    claims = [f"Claim {n}." for n in range(len(verdicts))]
    return claims, [claim for claim, holds in zip(claims, verdicts, strict=True) if holds]


@pytest.mark.parametrize("name", ["faithfulness", "context_recall"])
@few
@given(verdicts=flags)
def test_shares_of_claims_are_the_share_that_is_supported(name, verdicts):
    claims, supported = claims_of(verdicts)
    assert value(name, answered(), supporting(claims, supported), item()) == sum(verdicts) / len(verdicts)


@pytest.mark.parametrize("name", ["faithfulness", "context_recall"])
@few
@given(verdicts=flags, data=st.data())
def test_shares_of_claims_do_not_depend_on_the_order_of_claims_or_passages(name, verdicts, data):
    claims, supported = claims_of(verdicts)
    passages = ["p1", "p2", "p3", "p4"]
    moved = supporting(data.draw(st.permutations(claims)), supported, ["p2"])
    shown = data.draw(st.permutations(passages))
    straight = value(name, answered(passages), supporting(claims, supported, ["p2"]), item())
    assert value(name, answered(shown), moved, item()) == straight


@pytest.mark.parametrize("name", ["faithfulness", "context_recall"])
@few
@given(verdicts=flags)
def test_one_more_supported_claim_never_lowers_and_one_more_invented_never_raises(name, verdicts):
    now, better, worse = (
        value(name, answered(), supporting(*claims_of(each)), item())
        for each in (verdicts, [*verdicts, True], [*verdicts, False])
    )
    assert worse <= now <= better


@few
@given(verdicts=flags, times=st.integers(2, 4))
def test_saying_the_same_again_changes_no_faithfulness(verdicts, times):
    claims, supported = claims_of(verdicts)
    again = [*claims, *(f"  {claims[0].upper()} " for _ in range(times))]
    by = {claim: ["p1"] if claim in supported else [] for claim in claims}
    said = judge(claims={ANSWER: again}, supported_by=by)
    assert value("faithfulness", answered(), said) == sum(verdicts) / len(verdicts)


def relevance(passages, relevant, name):
    return value(name, answered(passages), judge(relevant_to={QUESTION: relevant}))


@few
@given(verdicts=flags, data=st.data())
def test_plain_precision_is_a_share_and_knows_no_order(verdicts, data):
    passages, relevant = claims_of(verdicts)
    found = relevance(passages, relevant, "context_precision")
    assert found == sum(verdicts) / len(verdicts)
    assert relevance(data.draw(st.permutations(passages)), relevant, "context_precision") == found


@few
@given(verdicts=flags)
def test_rank_weighted_precision_is_that_of_its_definition(verdicts):
    precisions = [sum(verdicts[: k + 1]) / (k + 1) for k in range(len(verdicts))]
    weighted = sum(p * v for p, v in zip(precisions, verdicts, strict=True))
    passages, relevant = claims_of(verdicts)
    found = relevance(passages, relevant, "context_precision_ranked")
    assert found == pytest.approx(weighted / sum(verdicts) if any(verdicts) else 0.0)
    assert 0 <= found <= 1


@few
@given(verdicts=flags)
def test_rank_weighted_precision_is_best_in_the_best_order_and_worst_in_the_worst(verdicts):
    best, worst = sorted(verdicts, reverse=True), sorted(verdicts)
    assert average_precision(worst) <= average_precision(verdicts) <= average_precision(best)
    assert average_precision(best) == (1.0 if any(verdicts) else 0.0)


def test_rank_weighted_precision_tells_a_good_order_from_a_bad_one():
    assert average_precision([True, False]) == 1.0
    assert average_precision([False, True]) == 0.5


@few
@given(verdicts=flags, data=st.data())
def test_turning_a_useless_passage_into_a_relevant_one_never_lowers_plain_precision(verdicts, data):
    at = data.draw(st.integers(0, len(verdicts) - 1))
    better = [*verdicts[:at], True, *verdicts[at + 1 :]]
    before, after = (relevance(*claims_of(each), "context_precision") for each in (verdicts, better))
    assert before <= after


@few
@given(verdicts=flags)
def test_the_same_passage_twice_is_judged_alike(verdicts):
    passages, relevant = claims_of(verdicts)
    assert relevance([*passages, *passages], relevant, "context_precision") == sum(verdicts) / len(verdicts)


@few
@given(cosines=st.lists(st.floats(-1, 1), min_size=3, max_size=3), data=st.data())
def test_relevance_is_the_mean_cosine_in_any_order_and_within_bounds(cosines, data):
    questions = ["a?", "b?", "c?"]
    embedder = ScriptedEmbedder.by_cosine(QUESTION, dict(zip(questions, cosines, strict=True)))
    found = value("answer_relevance", answered(), judge(questions={ANSWER: questions}), embedder=embedder)
    assert found == pytest.approx(max(0.0, sum(cosines) / 3), abs=1e-9)
    assert 0 <= found <= 1
    moved = judge(questions={ANSWER: data.draw(st.permutations(questions))})
    assert value("answer_relevance", answered(), moved, embedder=embedder) == pytest.approx(found, abs=1e-9)


@few
@given(verdicts=flags)
def test_completeness_is_the_share_of_the_aspects_that_are_covered(verdicts):
    aspects, covered = claims_of(verdicts)
    by = judge(aspects={QUESTION: aspects}, covered_by={ANSWER: covered})
    assert value("completeness", answered(), by) == sum(verdicts) / len(verdicts)


@few
@given(clean=flags, noisy=flags)
def test_noise_sensitivity_is_the_difference_of_two_faithfulnesses(clean, noisy):
    script = Script(
        claims={"before": [f"B{n}" for n in range(len(clean))], "after": [f"A{n}" for n in range(len(noisy))]},
        supported_by={f"B{n}": ["p1"] if holds else [] for n, holds in enumerate(clean)}
        | {f"A{n}": ["p1"] if holds else [] for n, holds in enumerate(noisy)},
    )
    one, other = answered(answer="before"), answered(("p1", "noise"), answer="after")
    found = asyncio.run(noise_sensitivity.score(one, other, ScriptedJudge(script)))
    assert found.value == pytest.approx(sum(clean) / len(clean) - sum(noisy) / len(noisy))
    assert -1 <= found.value <= 1
    assert found.details["from_noise"] == 0
    same = asyncio.run(noise_sensitivity.score(one, one, ScriptedJudge(script)))
    assert same.value == 0


def test_what_was_taken_over_from_the_noise_is_faithful_and_said_apart():
    by = {"True.": ["p1"], "Both.": ["p1", "noise"], "Taken.": ["noise"], "Invented.": []}
    script = Script(claims={ANSWER: list(by)}, supported_by=by)
    found = asyncio.run(noise_sensitivity.score(answered(), answered(("noise", "p1")), ScriptedJudge(script)))
    assert found.details["clean"] == 0.5
    assert found.details["noisy"] == 0.75
    assert found.details["from_noise"] == 0.25


@few
@given(count=st.integers(0, 5), seed=st.integers())
def test_noise_is_from_other_sources_keeps_the_order_and_is_the_same_each_time(count, seed):
    shown = [Passage("one", "a"), Passage("two", "b")]
    pool = [Passage(f"text {n}", source) for n, source in enumerate("abcdefghij")] + [Passage("one", "z")]
    mixed = with_noise(shown, pool, count, seed, avoid={"c"})
    assert mixed == with_noise(shown, pool, count, seed, avoid={"c"})
    assert [one for one in mixed if one in shown] == shown
    added = [one for one in mixed if one not in shown]
    assert len(added) == len({one.text for one in added}) == count
    assert not {one.source for one in added} & {"a", "b", "c", "z"}


def test_too_little_noise_is_refused():
    with pytest.raises(ValueError, match="only 1 of 2 passages"):
        with_noise([Passage("one", "a")], [Passage("x", "a"), Passage("y", "b")], 2, 0)


@few
@given(passages=rankings, expected=expected_sources, name=st.sampled_from(["recall", "precision", "mrr", "ndcg"]))
def test_measures_of_a_ranking_are_within_bounds_and_do_not_care_how_sources_are_listed(passages, expected, name):
    found = ranked(name, 10, passages, sorted(expected))
    assert 0 <= found <= 1
    assert found == ranked(name, 10, passages, sorted(expected, reverse=True))
    if not set(passages[:10]) & expected and name == "precision":
        assert found == 0


@few
@given(passages=rankings, expected=expected_sources)
def test_measures_of_a_ranking_are_those_of_their_definitions(passages, expected):
    distinct = list(dict.fromkeys(passages))[:10]
    hits = [place for place, source in enumerate(distinct, start=1) if source in expected]
    assert ranked("recall", 10, passages, sorted(expected)) == pytest.approx(len(hits) / len(expected))
    assert ranked("mrr", 10, passages, sorted(expected)) == pytest.approx(1 / hits[0] if hits else 0)
    ideal = sum(1 / math.log2(place + 1) for place in range(1, min(10, len(expected)) + 1))
    gained = sum(1 / math.log2(place + 1) for place in hits)
    assert ranked("ndcg", 10, passages, sorted(expected)) == pytest.approx(gained / ideal)
    relevant = sum(source in expected for source in passages[:10])
    assert ranked("precision", 10, passages, sorted(expected)) == pytest.approx(relevant / 10)


@few
@given(passages=rankings, expected=expected_sources)
def test_an_expected_source_put_first_never_lowers_a_measure(passages, expected):
    better = [min(expected), *passages]
    for name in ("recall", "mrr", "ndcg", "precision"):
        before, after = (ranked(name, 10, each, sorted(expected)) for each in (passages, better))
        assert after >= before - 1e-9


def test_a_value_is_never_given_without_the_status_that_it_is_one():
    found = asyncio.run(named(["faithfulness"])[0].score(Answered("?", "x", "en"), None, judge(), NO_VECTORS))
    assert (found.value, found.status) == (None, Status.NO_CONTEXT)
