"""Looks at a stack before, during and after a fault, under load, and brings the verdict."""

import asyncio
import json
import os
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractContextManager, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.chaos.asking import CANARY, COLLECTION, canary, kinds
from tests.chaos.offering import PATIENCE_SECONDS, Kind, Offering, offered
from tests.chaos.stack import TENANTS, ChaosStack
from tests.chaos.verdict import RECOVERY_SECONDS, Fault, Verdict, judge, lost_documents, wrong_tokens

BEFORE_SECONDS = 0.7
CALM_SECONDS = 2.5
# After a fault's begin, so that it is met for sure.
_MEETING_SECONDS = 0.6
_WARM_SECONDS = 180.0
_SETTLED_SECONDS = 60.0
_DOCUMENTS_SECONDS = 90.0


async def prepare(stack: ChaosStack) -> None:
    """Gives both tenants their word, and asks everything once."""
    async with _clients(stack) as offering:
        for tenant in TENANTS:
            headers = offering.headers(tenant)
            put = await offering.http.put(f"/v1/collections/{COLLECTION}", json={}, headers=headers)
            assert put.status_code in (200, 201), put.text
            body = {"collection": COLLECTION, "document_id": CANARY, "title": "Archive", "text": canary(tenant)}
            posted = await offering.http.post("/v1/documents", json=body, headers=headers)
            assert posted.status_code == 202, posted.text
            offering.ledger.documents[f"{CANARY}"] = tenant, canary(tenant).split()[-1].rstrip(".")
            await _until_found(offering)
        await _until_limits_are_read(offering)
        took = await _until_all_whole(offering)
    # Half of what it did one after the other, and never more than planned.
    stack.pace = min(1.0, 0.5 * len(took) / sum(took) / sum(kind.per_second for kind in kinds()))


async def until_whole(stack: ChaosStack) -> None:
    """Asks everything once, as often as it takes."""
    async with _clients(stack) as offering:
        await _until_all_whole(offering)


async def _until_all_whole(offering: Offering) -> list[float]:
    return [await _until_whole(offering, kind, tenant) for kind in kinds() for tenant in kind.tenants]


async def _until_whole(offering: Offering, kind: Kind, tenant: str) -> float:
    """Seconds that it took; the first ones load what is loaded once, and may be late."""
    deadline = time.monotonic() + _WARM_SECONDS
    while True:
        sample = await offering.one(kind, tenant)
        if sample.is_whole:
            return sample.ended - sample.sent
        assert time.monotonic() < deadline, f"{sample}: {sample.text[:300]}"


async def survived(
    stack: ChaosStack,
    service: str,
    how: str,
    breaking: Callable[[], AbstractContextManager[None]],
    seconds: float,
    seed: int,
    *,
    streams_go_on: bool = False,
) -> Verdict:
    """Breaks something for `seconds` under load. `breaking` ends the fault at its own end."""
    before = await _charged(stack)
    pids = stack.pids()
    async with offered(stack.url, stack.keys, kinds(), stack.pace, seed) as offering:
        await asyncio.sleep(BEFORE_SECONDS)
        meeting = asyncio.create_task(_meet(offering, service))
        fault = await asyncio.to_thread(_break, service, how, breaking, seconds)
        await meeting
        await _until_calm(offering, fault)
    verdict = judge(fault, offering.samples, {kind.name: kind.needs for kind in kinds()})
    broken = list(verdict.broken)
    broken += await _wrong_accounts(stack, offering, before, fault if service == "valkey" else None)
    broken += await _lost(stack, offering)
    if streams_go_on:
        broken += [f"{sample}: its stream was cut" for sample in offering.samples if sample.was_cut]
    meant = {service} if how in ("kill", "restart") else set[str]()
    gone = [name for name, pid in stack.pids().items() if pid != pids[name] and name not in meant]
    broken += [f"{name} was restarted too" for name in gone]
    verdict = replace(verdict, broken=broken)
    _note(verdict, len(offering.samples), round(stack.pace, 2))
    return verdict


async def _meet(offering: Offering, service: str) -> None:
    """One request of each kind that needs the service, and a document, whatever the load's dice say."""
    await asyncio.sleep(_MEETING_SECONDS)
    await asyncio.gather(
        *(offering.one(kind, kind.tenants[0]) for kind in kinds() if service in kind.needs or kind.name == "upload")
    )


def _break(service: str, how: str, breaking: Callable[[], AbstractContextManager[None]], seconds: float) -> Fault:
    began = time.monotonic()
    with breaking():
        broken = time.monotonic()
        time.sleep(seconds)
        mending = time.monotonic()
    return Fault(service, how, began, time.monotonic(), broken, mending)


async def _until_calm(offering: Offering, fault: Fault) -> None:
    """Until nothing was wrong for a while; gives up when that is too late anyway."""
    while (now := time.monotonic()) < fault.ended + RECOVERY_SECONDS + 2 * CALM_SECONDS:
        bad = [sample.sent for sample in offering.samples if not sample.is_whole]
        if now - max(bad, default=0.0) > CALM_SECONDS and now - fault.ended > CALM_SECONDS:
            return
        await asyncio.sleep(0.2)


@asynccontextmanager
async def _clients(stack: ChaosStack) -> AsyncIterator[Offering]:
    offering = Offering(stack.url, stack.keys, 0)
    yield offering
    await offering.http.aclose()


async def _usage(offering: Offering, tenant: str) -> dict[str, Any]:
    return (await offering.http.get("/v1/usage", headers=offering.headers(tenant))).json()


async def _charged(stack: ChaosStack) -> dict[str, int]:
    """Tokens of the day, once nothing is under way and the shared store counts."""
    deadline = time.monotonic() + _SETTLED_SECONDS
    async with _clients(stack) as offering:
        while True:
            used = {tenant: await _usage(offering, tenant) for tenant in TENANTS}
            # The question itself is a request too.
            quiet = all(one["concurrent_requests"]["used"] <= 1 and one["exact"] for one in used.values())
            if quiet or time.monotonic() > deadline:
                assert quiet, f"leases are still held, or limits not counted exactly: {used}"
                return {tenant: one["daily_tokens"]["used"] for tenant, one in used.items()}
            await asyncio.sleep(0.2)


async def _wrong_accounts(
    stack: ChaosStack, offering: Offering, before: Mapping[str, int], lost: Fault | None
) -> list[str]:
    after = await _charged(stack)
    return wrong_tokens(offering.samples, {tenant: after[tenant] - before[tenant] for tenant in TENANTS}, lost)


async def _lost(stack: ChaosStack, sent: Offering) -> list[str]:
    async with _clients(stack) as offering:
        offering.ledger = sent.ledger
        return lost_documents(sent.ledger, await _until_found(offering))


async def _until_found(offering: Offering) -> dict[str, str]:
    """What has become of each document of the ledger; waits for those that are under way."""
    states: dict[str, str] = {}
    deadline = time.monotonic() + _DOCUMENTS_SECONDS
    for document_id, (tenant, word) in offering.ledger.documents.items():
        while True:
            states[document_id] = await _state(offering, tenant, document_id, word)
            if states[document_id] in ("found", "failed", "cancelled") or time.monotonic() > deadline:
                break
            await asyncio.sleep(0.1)
    return states


async def _state(offering: Offering, tenant: str, document_id: str, word: str) -> str:
    headers = offering.headers(tenant)
    answer = await offering.http.get(f"/v1/documents/{document_id}", headers=headers)
    if answer.status_code != 200 or answer.json()["status"] != "ready":
        return answer.json().get("status", "not there")
    body = {"query": word, "collections": [COLLECTION], "top_k": 5}
    found = await offering.http.post("/v1/search", json=body, headers=headers)
    return "found" if word in found.text else "stored, and not found"


async def _until_limits_are_read(offering: Offering) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    for tenant in TENANTS:
        while (await _usage(offering, tenant))["daily_tokens"]["limit"] is None:
            assert time.monotonic() < deadline, "the gateway does not read its tenants' files again"
            await asyncio.sleep(0.1)


def _note(verdict: Verdict, asked: int, pace: float) -> None:
    where = os.environ.get("TEST_CHAOS", "")
    if not where:
        return
    fault = verdict.fault
    line = {
        "service": fault.service,
        "fault": fault.how,
        "fault_seconds": round(fault.ended - fault.began, 1),
        "recovery_seconds": round(verdict.recovery_seconds, 1),
        "requests": asked,
        "pace": pace,
        "met_it": verdict.seen,
        "broken": list(verdict.broken),
    }
    path = Path(where)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as out:
        out.write(json.dumps(line, ensure_ascii=False) + "\n")
