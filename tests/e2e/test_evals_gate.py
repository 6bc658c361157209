"""The gate on a real stack: no change is not caught, and each of four planted regressions is."""

import asyncio
from pathlib import Path

import pytest
import yaml

from services.evaluation.golden import sets
from services.evaluation.runs import command
from services.evaluation.runs.baseline import Baseline, baseline_of
from services.evaluation.runs.command import JudgeChoice, Wanted
from services.evaluation.runs.compare import families_of
from services.evaluation.runs.gate import check
from services.evaluation.runs.gateway_asker import GatewayAsker, Stack
from services.evaluation.runs.variant import Variant

pytestmark = [pytest.mark.slow, pytest.mark.timeout(420)]
TOOLS, ANSWERS = Path("demo/evals/tools"), Path("demo/evals/answers")


class Bench:
    """Runs variants of a stack, and compares runs."""

    def __init__(self, stack, folder):
        self._stack = stack
        self._folder = folder

    def run(self, name, golden, *variants, judge="none"):
        place = Stack(self._stack.url, self._stack.env["SABUESO_API_KEY"])
        chosen = [Variant.parse(one) for one in variants]
        wanted = Wanted(
            golden,
            self._folder / name,
            place,
            chosen,
            with_baselines=False,
            judge=JudgeChoice(judge),
            concurrency=2,
            database=(self._stack.home / "gateway-keys" / "demo.dsn").read_text(),
        )
        found = asyncio.run(command.run(wanted))
        assert all(one.answered is not None for one in found.records), [one.failure for one in found.records]
        return found

    @staticmethod
    def gate(before, after):
        made = baseline_of(before.origin, before.scored, before.answered)
        return check(made, after.current, families_of(after.items))


@pytest.fixture
def bench(stack, tmp_path):
    return Bench(stack, tmp_path)


def test_the_reranker_off_is_caught_and_no_change_is_not(bench):
    on = "search: kind=search top_k=5"
    before = bench.run("on", TOOLS, on)
    assert bench.gate(before, bench.run("again", TOOLS, on)).is_open
    found = bench.gate(before, bench.run("off", TOOLS, f"{on} rerank=false"))
    assert [one.what for one in found.faults] == ["search: ndcg@10"]


def test_noise_among_the_passages_is_caught_and_no_change_is_not(bench):
    clean = "given: kind=given top_k=4"
    before = bench.run("clean", ANSWERS, clean, judge="lexical")
    assert bench.gate(before, bench.run("again", ANSWERS, clean, judge="lexical")).is_open
    found = bench.gate(before, bench.run("noisy", ANSWERS, f"{clean} noise=6", judge="lexical"))
    assert "given: context_precision" in [one.what for one in found.faults]


def test_what_tools_are_for_told_of_the_wrong_ones_is_caught_and_no_change_is_not(bench, stack):
    router = "router: strategy=router"
    before = bench.run("right", TOOLS, router)
    assert bench.gate(before, bench.run("again", TOOLS, router)).is_open
    file = stack.home / "tenants" / "demo.yaml"
    kept = file.read_text()
    try:
        file.write_text(swapped(kept))
        describes(stack, "Runs one read-only")
        after = bench.run("swapped", TOOLS, router)
    finally:
        file.write_text(kept)
        describes(stack, "Searches the company")
    found = bench.gate(before, after)
    assert "router: tool_selection_accuracy" in [one.what for one in found.faults]
    assert {("sql_query", "vector_search"), ("vector_search", "sql_query")} & set(
        after.tools.selections["router"].confusion
    )


def test_values_told_wrongly_are_caught_by_the_rows_that_statements_give(bench, stack):
    agent = "agent: strategy=react"
    before = bench.run("right", TOOLS, agent)
    file = stack.home / "tenants" / "demo.yaml"
    kept = file.read_text()
    try:
        file.write_text(mistold(kept))
        describes(stack, "'PT' = Spain", tool="sql_query")
        after = bench.run("mistold", TOOLS, agent)
    finally:
        file.write_text(kept)
        describes(stack, "'ES' = Spain", tool="sql_query")
    assert [one.what for one in bench.gate(before, after).faults] == ["agent: call_accuracy"]


@pytest.mark.parametrize("golden", [ANSWERS, TOOLS], ids=["answers", "tools"])
def test_the_agent_is_no_worse_than_the_committed_baseline(bench, golden):
    kept = Baseline.read(Path("tests/data/evals/baseline") / f"{golden.name}.json")
    found = bench.run("now", golden)
    ours = kept.model_copy(update={part: {"agent": getattr(kept, part)["agent"]} for part in ("scores", "answered")})
    gate = check(ours, found.current, families_of(found.items))
    assert gate.is_open, [(one.what, one.why) for one in gate.faults]


def swapped(text):
    """A tenant's file in which documents and database are each said to answer the other's questions."""
    tenant = yaml.safe_load(text)
    documents, database = tenant["tools"]["vector_search"], tenant["tools"]["sql_query"]
    documents["examples"], database["examples"] = (
        [*database["examples"], *questions("sql_query")],
        [*documents["examples"], *questions("vector_search")],
    )
    ours = yaml.safe_load(Path("services/orchestrator/tools.yaml").read_text())
    documents["description"], database["description"] = ours["sql_query"], ours["vector_search"]
    return yaml.safe_dump(tenant, allow_unicode=True, sort_keys=False)


def mistold(text):
    """A tenant's file in which each value of a column is said to mean what the one before it does."""
    tenant = yaml.safe_load(text)
    for table in tenant["sql"]["tables"].values():
        for column in table["columns"].values():
            if values := column.get("values"):
                meanings = list(values.values())
                column["values"] = dict(zip(values, [meanings[-1], *meanings[:-1]], strict=True))
    return yaml.safe_dump(tenant, allow_unicode=True, sort_keys=False)


def questions(tool):
    """Those of the development half that need this tool and no other."""
    return [item.question for item in sets.read(TOOLS).items if [call.tool for call in item.calls] == [tool]]


def describes(stack, words, tool="vector_search"):
    """Waits until the stack describes the tool with these words."""

    async def wait():
        place = Stack(stack.url, stack.env["SABUESO_API_KEY"])
        asker = GatewayAsker(lambda _: place)
        async with asyncio.timeout(60):
            while True:
                told = {one.name: one.description for one in await asker.tools(place)}
                if words in told[tool]:
                    return await asker.close()
                await asyncio.sleep(0.2)

    asyncio.run(wait())
