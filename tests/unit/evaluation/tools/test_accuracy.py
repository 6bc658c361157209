"""Tool selection: figures that can be reckoned by hand, and what holds whatever was called."""

import asyncio
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.evaluation.answered import Answered, Call
from services.evaluation.golden.item import ExpectedCall, Item, Stratum
from services.evaluation.tools import baselines, descriptions
from services.evaluation.tools.accuracy import NONE, OfTool, Share, measure
from services.evaluation.tools.assignment import Assigner
from services.evaluation.tools.statements import Rows

DESCRIPTIONS = {"sql_query": "Runs a | statement\nover tables", "vector_search": "Searches documents"}

tools = st.sampled_from(["sql_query", "vector_search", "web_search"])
made = st.builds(
    Call,
    tools,
    st.dictionaries(st.sampled_from(["a", "b"]), st.integers(0, 2), max_size=2),
    st.integers(0, 2),
    st.booleans(),
)
expected = st.builds(ExpectedCall, tools, st.dictionaries(st.sampled_from(["a", "b"]), st.integers(0, 2), max_size=2))


@st.composite
def runs(draw):
    items, answers = [], {}
    for number in range(draw(st.integers(0, 6))):
        calls = tuple(draw(st.lists(expected, max_size=3)))
        stratum = Stratum.SINGLE_HOP if calls else draw(st.sampled_from([Stratum.NO_TOOL, Stratum.UNANSWERABLE]))
        items.append(Item(str(number), "?", "en", stratum, calls=calls))
        if draw(st.booleans()):
            answers[str(number)] = answered(*draw(st.lists(made, max_size=4)))
    return items, answers


def answered(*calls):
    return Answered("?", "", "en", calls=calls)


def item(name, *calls, stratum=Stratum.SINGLE_HOP):
    return Item(name, "?", "en", stratum if calls else Stratum.NO_TOOL, calls=calls)


def measured(items, answers, **options):
    return asyncio.run(measure(items, answers, Assigner(**options)))


def shares(selection):
    names = ("accuracy", "covered", "no_tool", "arguments", "calls", "parallel", "valid")
    return [getattr(selection, name) for name in names]


@settings(max_examples=30)
@given(runs())
def test_every_share_is_within_0_and_1_and_every_count_adds_up(run):
    found = measured(*run)
    for share in shares(found):
        assert 0 <= share.part <= share.whole
    assert found.accuracy.part <= found.covered.part
    for tool in found.tools.values():
        assert 0 <= tool.right <= min(tool.called, tool.expected)
    assert found.question_count == len(run[0])


@settings(max_examples=30)
@given(runs())
def test_doing_exactly_what_is_expected_is_perfect(run):
    items, _ = run
    found = measured(items, {one.id: answered(*(Call(c.tool, c.arguments) for c in one.calls)) for one in items})
    assert all(share.part == share.whole for share in shares(found))
    assert all(tool.precision == tool.recall == 1 for tool in found.tools.values())
    assert all(wanted == called for wanted, called in found.confusion)
    assert descriptions.confused(found, DESCRIPTIONS) == []


@settings(max_examples=30)
@given(runs(), st.randoms())
def test_the_order_of_calls_does_not_matter(run, random):
    items, answers = run
    shuffled = {}
    for name, one in answers.items():
        calls = list(one.calls)
        random.shuffle(calls)
        shuffled[name] = replace(one, calls=tuple(calls))
    before, after = measured(items, answers), measured(items, shuffled)
    # Which of several equal calls is taken may decide in which turn it was.
    assert replace(after, parallel=Share(), confusion={}, tools={}) == replace(
        before, parallel=Share(), confusion={}, tools={}
    )
    assert {name: one.right for name, one in after.tools.items()} == {
        name: one.right for name, one in before.tools.items()
    }


@settings(max_examples=30)
@given(runs())
def test_a_further_call_never_helps_precision_and_is_never_the_right_tool(run):
    items, answers = run
    before = measured(items, answers)
    noisy = {name: replace(one, calls=(*one.calls, Call("noise", {}))) for name, one in answers.items()}
    after = measured(items, noisy)
    assert after.accuracy.part == 0
    assert after.no_tool.part == 0
    assert after.covered == before.covered
    if "noise" in after.tools:
        assert after.tools["noise"].precision == 0


def test_the_figures_of_a_few_questions_are_those_that_one_reckons():
    items = [
        item("right", ExpectedCall("sql_query", {"n": 1})),
        item("wrong tool", ExpectedCall("sql_query")),
        item("one too many", ExpectedCall("vector_search", {"q": "x"})),
        item("none", ExpectedCall("web_search")),
        item("idle"),
        item("busy"),
        item("two", ExpectedCall("sql_query"), ExpectedCall("vector_search")),
    ]
    answers = {
        "right": answered(Call("sql_query", {"n": 2})),
        "wrong tool": answered(Call("vector_search", {})),
        "one too many": answered(Call("vector_search", {"q": "X"}), Call("web_search", {}, valid=False)),
        "none": answered(),
        "idle": answered(),
        "busy": answered(Call("web_search", {})),
        "two": answered(Call("vector_search", {}, 0), Call("sql_query", {}, 1), Call("calculate", {}, 2)),
    }
    found = measured(items, answers)
    assert found.accuracy == Share(2, 5)
    assert found.covered == Share(3, 5)
    assert found.no_tool == Share(1, 2)
    assert found.arguments == Share(1, 2)
    assert found.calls == Share(3, 6)
    assert found.parallel == Share(1, 2)
    assert found.valid == Share(7, 8)
    assert found.tools["sql_query"] == OfTool(expected=3, called=2, right=2)
    assert found.tools["vector_search"] == OfTool(expected=2, called=3, right=2)
    assert found.tools["web_search"] == OfTool(expected=1, called=2, right=0)
    assert found.confusion == {
        ("sql_query", "sql_query"): 2,
        ("sql_query", "vector_search"): 1,
        ("vector_search", "vector_search"): 2,
        (NONE, "web_search"): 2,
        ("web_search", NONE): 1,
        (NONE, NONE): 1,
    }


def test_a_sum_that_is_reckoned_by_the_tool_for_it_needed_no_look_up():
    items = [item("reckoned"), item("reckoned and searched"), item("silent")]
    answers = {
        "reckoned": answered(Call("calculate", {"expression": "2 + 2"})),
        "reckoned and searched": answered(Call("calculate", {}), Call("web_search", {})),
        "silent": answered(),
    }
    assert measured(items, answers).no_tool == Share(2, 3)


def test_a_question_without_an_answer_counts_as_a_failure_and_is_told():
    items = [item("a", ExpectedCall("sql_query")), item("b")]
    found = measured(items, {})
    assert (found.accuracy, found.no_tool, found.missing_count) == (Share(0, 1), Share(0, 1), 2)
    assert found.valid.value is None


def test_another_way_is_as_right_and_counts_for_its_own_tool():
    way = ExpectedCall("signed", {"year": 2025}, alternatives=(ExpectedCall("sql_query", {"n": 1}),))
    found = measured([item("a", way)], {"a": answered(Call("sql_query", {"n": 1}))})
    assert (found.accuracy, found.calls) == (Share(1, 1), Share(1, 1))
    assert found.tools == {"sql_query": OfTool(1, 1, 1)}


def test_another_set_of_calls_is_as_right_and_the_one_that_fits_best_is_taken():
    two = ExpectedCall("signed", {"year": 2024}), ExpectedCall("signed", {"year": 2025})
    one = replace(item("a", *two), other_calls=((ExpectedCall("sql_query", {"years": 2}),),))
    together = measured([one], {"a": answered(Call("sql_query", {"years": 2}))})
    assert (together.accuracy, together.calls, together.parallel) == (Share(1, 1), Share(1, 1), Share(0, 0))
    apart = measured([one], {"a": answered(Call("signed", {"year": 2024}), Call("signed", {"year": 2025}))})
    assert (apart.accuracy, apart.calls, apart.parallel) == (Share(1, 1), Share(2, 2), Share(2, 2))
    half = measured([one], {"a": answered(Call("signed", {"year": 2024}))})
    assert (half.accuracy, half.calls) == (Share(0, 1), Share(1, 2))


def test_calls_of_one_tool_are_paired_so_that_most_arguments_are_right():
    wanted = [ExpectedCall("play", {"artist": one, "minutes": n}) for one, n in (("Swift", 20), ("Maroon", 15))]
    calls = [Call("play", {"artist": "Maroon", "minutes": 15}), Call("play", {"artist": "Swift", "minutes": 20})]
    found = measured([item("a", *wanted)], {"a": answered(*calls)})
    assert (found.calls, found.arguments, found.parallel) == (Share(2, 2), Share(4, 4), Share(2, 2))


def test_calls_that_need_each_other_need_not_be_side_by_side():
    wanted = ExpectedCall("sql_query"), ExpectedCall("vector_search", group=1)
    found = measured([item("a", *wanted)], {"a": answered(Call("sql_query", {}), Call("vector_search", {}, 1))})
    assert found.parallel == Share(0, 0)


class OneRow:
    """Each statement's row is what stands in it."""

    async def rows(self, statement, values):
        return Rows(1, [(statement.strip().lower(), *values)])


async def test_statements_are_judged_by_their_rows_or_not_at_all():
    items = [item("a", ExpectedCall("sql_query", {"query": {"sql": "select 1"}}))]
    answers = {"a": answered(Call("sql_query", {"query": " SELECT 1"}))}
    judged = await measure(items, answers, Assigner(executes=OneRow()))
    assert (judged.calls, judged.arguments, judged.unjudged_count) == (Share(1, 1), Share(1, 1), 0)
    unjudged = await measure(items, answers, Assigner())
    assert (unjudged.calls, unjudged.arguments, unjudged.unjudged_count) == (Share(0, 0), Share(0, 0), 1)
    wrong = {"a": answered(Call("sql_query", {"query": 5}))}
    assert (await measure(items, wrong, Assigner(executes=OneRow()))).calls == Share(0, 1)


def test_tools_that_are_confused_are_told_with_both_descriptions():
    items = [item(str(n), ExpectedCall("sql_query")) for n in range(10)]
    answers = {str(n): answered(Call("sql_query" if n < 8 else "vector_search", {})) for n in range(10)}
    found = measured(items, answers)
    [pair] = descriptions.confused(found, DESCRIPTIONS)
    assert (pair.expected, pair.called, pair.count) == ("sql_query", "vector_search", 2)
    assert pair.expected_description == DESCRIPTIONS["sql_query"]
    assert pair.called_description == DESCRIPTIONS["vector_search"]


@pytest.mark.parametrize(
    ("tools", "accuracy", "covered"), [(["sql_query"], 1, 1), (["sql_query", "web_search"], 0, 2), ([], 0, 0)]
)
def test_whoever_calls_every_tool_covers_everything_and_is_never_right(tools, accuracy, covered):
    items = [item("a", ExpectedCall("sql_query")), item("b", ExpectedCall("web_search")), item("c")]
    found = measured(items, baselines.always(items, tools))
    assert (found.accuracy.part, found.covered.part) == (accuracy, covered)
    assert found.no_tool.part == (not tools)


def test_the_baselines_look_at_words_or_at_nothing():
    items = [
        replace(item("a", ExpectedCall("sql_query")), question="How many rows of the tables?"),
        replace(item("b", ExpectedCall("vector_search")), question="What do documents say?"),
        replace(item("c", ExpectedCall("sql_query")), question="Hi!"),
    ]
    found = baselines.by_words(items, DESCRIPTIONS)
    assert [tuple(call.tool for call in found[name].calls) for name in "abc"] == [
        ("sql_query",),
        ("vector_search",),
        (),
    ]
    assert baselines.most_expected(items) == "sql_query"
    assert baselines.most_expected([]) == ""
