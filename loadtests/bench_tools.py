"""Figures of the tools' own work: the guard of SQL statements, near-equal questions, one page of the web."""

import asyncio
import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import sqlglot

from loadtests.measuring import NotMeasured
from loadtests.own_stack import OwnStack
from loadtests.side_by_side import Peer, measure
from sabueso.tool_cache.v1 import tool_cache_pb2, tool_cache_pb2_grpc
from sabueso.web_tool.v1 import web_tool_pb2, web_tool_pb2_grpc
from services.runtime.channels import connect
from services.sql_tool import guard
from services.sql_tool.allowlist import AllowedTable, AllowList, of

_CASES = Path(__file__).parents[1] / "tests" / "data" / "sql" / "cases.jsonl"
_TABLES = {
    "providers": ("id", "name", "region", "country"),
    "contracts": ("id", "provider", "provider_region", "amount", "year", "signed_on", "status", "clauses", "tags"),
    "payments": ("id", "contract_id", "amount", "paid_at", "method"),
}
_QUESTIONS = 10_000
_BATCH = 50
_PAGE = "/pages/euro-area-cpi"


async def sql_guard() -> list[dict[str, Any]]:
    """The guard over the corpus's legitimate statements, one a round; the peer only parses them."""
    allowed = of(AllowedTable("public", name, columns) for name, columns in _TABLES.items())
    cases = [json.loads(line) for line in _CASES.read_text(encoding="utf-8").splitlines()]
    statements = [case["sql"] for case in cases if case["expect"] == "allow" and _is_over(case, allowed)]
    turn, peer_turn = itertools.cycle(statements), itertools.cycle(statements)

    async def check() -> None:
        guard.check(next(turn), allowed)

    async def parse() -> None:
        sqlglot.parse(next(peer_turn), dialect="postgres")

    rounds = 10 * len(statements)
    peer = Peer("sqlglot.parse", parse)
    figure = await measure("sql_guard", check, rounds=rounds, peer=peer, seconds=10, in_process=True)
    return [figure.fields(statements=len(statements))]


def _is_over(case: dict[str, Any], allowed: AllowList) -> bool:
    tables = {table.name for table in allowed.tables.values()}
    return set(case["allow"]["tables"]) <= tables and "columns" not in case["allow"]


async def semantic_lookup(stack: OwnStack) -> list[dict[str, Any]]:
    """A question that nobody asked in these words, among 10,000 of one tenant; the peer is a lookup of equal calls.

    In one figure nothing comparable was asked, in the other a near-equal question was: both texts are embedded then.
    """
    stack.enter_as_demo()
    service = tool_cache_pb2.DESCRIPTOR.services_by_name["ToolCacheService"]
    async with connect(stack.address("tool_cache"), service) as channel:
        stub = tool_cache_pb2_grpc.ToolCacheServiceStub(channel)
        for start in range(0, _QUESTIONS, _BATCH):
            asked = [_entry(_question(number)) for number in range(start, start + _BATCH)]
            await stub.BatchPut(tool_cache_pb2.BatchPutRequest(entries=asked), timeout=10)
        await asyncio.sleep(1)  # texts are filed in the background
        turn, exact_turn, numbers = _turns(), _turns(), iter(range(10**9))

        async def look(text: str, hit: bool | None) -> None:
            request = tool_cache_pb2.BatchGetRequest(calls=[_call(text)])
            found = (await stub.BatchGet(request, timeout=5)).lookups[0]
            if hit is not None and found.hit != hit:
                raise NotMeasured(f"`{text}` was {'found' if found.hit else 'not found'}")

        async def unknown() -> None:
            await look(f"¿quién firmó el acuerdo marco {_QUESTIONS + next(numbers)} con la fábrica?", False)

        async def near() -> None:
            await look(f"dime, por favor, {_question(next(turn))[1:]}", None)

        async def equal() -> None:
            await look(_question(next(exact_turn)), True)

        peer = Peer("equal call", equal)
        figures = [await measure("semantic_lookup_10k", unknown, rounds=300, peer=peer, seconds=6)]
        figures.append(await measure("semantic_lookup_10k_near", near, rounds=200, peer=peer, seconds=8))
    return [figure.fields() for figure in figures]


def _turns() -> Iterator[int]:
    return itertools.cycle(range(0, _QUESTIONS, 7))


def _question(number: int) -> str:
    return f"¿qué penalización tiene el contrato CT-2025-{number:05d} por retraso en la entrega?"


def _call(text: str) -> tool_cache_pb2.Call:
    arguments = json.dumps({"query": text})
    return tool_cache_pb2.Call(
        tool="vector_search",
        arguments_json=arguments,
        version="bench",
        semantic_argument="query",
        min_similarity=0.9,
    )


def _entry(text: str) -> tool_cache_pb2.Entry:
    entry = tool_cache_pb2.Entry(call=_call(text), value=b'{"passages": []}')
    entry.ttl.FromSeconds(600)
    return entry


async def web_fetch(stack: OwnStack) -> list[dict[str, Any]]:
    """One page read as text through the web tool's guard and its extraction process; the peer only downloads it."""
    stack.enter_as_demo()
    url = f"http://{stack.address('web_fixture')}{_PAGE}"
    service = web_tool_pb2.DESCRIPTOR.services_by_name["WebToolService"]
    async with connect(stack.address("web_tool"), service) as channel, httpx2.AsyncClient(trust_env=False) as http:
        stub = web_tool_pb2_grpc.WebToolServiceStub(channel)

        async def fetch() -> None:
            page = await stub.Fetch(web_tool_pb2.FetchRequest(url=url), timeout=10)
            if not page.text:
                raise NotMeasured("the page has no text")

        async def download() -> None:
            (await http.get(url)).raise_for_status()

        figure = await measure("web_fetch", fetch, rounds=100, peer=Peer("httpx2", download), seconds=8)
    return [figure.fields()]
