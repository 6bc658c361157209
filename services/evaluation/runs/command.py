"""Runs a golden set against a stack and keeps, shows, compares and judges what comes of it: behind `sabueso evals`."""

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

import asyncpg
import httpx2

from services.evaluation.golden import lock, sets
from services.evaluation.golden.item import DEV
from services.evaluation.golden.sets import GoldenSet
from services.evaluation.judge.budget import Budget
from services.evaluation.judge.cached import AnswerCache, CachedJudge, DiskCache
from services.evaluation.judge.judge import Judge
from services.evaluation.judge.lexical import LexicalJudge
from services.evaluation.judge.openai_judge import OpenAIJudge
from services.evaluation.judge.postgres_cache import PostgresCache
from services.evaluation.judge.prompts import Prompts
from services.evaluation.metrics.centred import CentredEmbedder
from services.evaluation.runs import baselines
from services.evaluation.runs.embedder import GatewayEmbedder
from services.evaluation.runs.folder import RunFolder
from services.evaluation.runs.gateway_asker import GatewayAsker, OfferedTool, Stack, StackFailed
from services.evaluation.runs.postgres_store import PostgresRunStore
from services.evaluation.runs.run import Finished, Order, Told, execute, read_finished, silent, start
from services.evaluation.runs.scoring import Judging
from services.evaluation.runs.store import Run, RunStatus, RunStore, measurements_of
from services.evaluation.runs.variant import Kind, Variant
from services.evaluation.tools.assignment import Assigner
from services.evaluation.tools.postgres import connected
from services.evaluation.tools.statements import StatementFailed

NO_JUDGE, LEXICAL, MODEL = "none", "lexical", "model"
JUDGES = (NO_JUDGE, LEXICAL, MODEL)
_CACHE = "judge-cache"
_POSTGRES = ("postgresql://", "postgres://")
# The last three: an address that is none.
_NOT_CONNECTED = (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, ValueError, OverflowError)


class WrongOrder(ValueError):
    """What was asked for cannot be run. The message says why."""


@dataclass(frozen=True)
class JudgeChoice:
    """Who judges. `kind`: none, lexical (a stand-in that compares words) or model."""

    kind: str = NO_JUDGE
    url: str = ""
    name: str = ""
    api_key: str = "none"
    max_calls: int | None = None
    max_tokens: int | None = None
    concurrency: int = 4
    # Folder or PostgreSQL (`postgresql://…`) where answers are kept from run to run; empty: beside the run's folder.
    cache: str = ""


@dataclass(frozen=True)
class Wanted:
    """A run as a person, a CronJob or the service asks for it.

    `noise`: passages of other questions to mix in, for noise sensitivity; 0: not measured. `database`: DSN on which
    expected SQL is compared by its rows; `store`: DSN where results are kept besides the folder.
    """

    golden: Path
    folder: Path
    stack: Stack
    variants: Sequence[Variant] = ()
    half: str = DEV
    reason: str = ""
    reader: str = ""
    with_baselines: bool = True
    noise: int = 0
    metrics: Sequence[str] = ()
    judge: JudgeChoice = field(default_factory=JudgeChoice)
    limit: int = 0
    seed: int = 7
    concurrency: int = 4
    database: str = ""
    command: str = ""
    run_id: str = ""
    # Keys of variants that name another one; the process's environment.
    keys: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))

    def all_variants(self) -> tuple[Variant, ...]:
        """Those that were named (or the agent as it is), the noisy pair, the baselines."""
        chosen = tuple(self.variants) or (Variant("agent"),)
        noisy = _noisy_pair(self.noise) if self.noise else ()
        return (*chosen, *noisy, *(baselines.BASELINES if self.with_baselines else ()))


def read_set(folder: Path, half: str = DEV, reason: str = "", reader: str = "") -> GoldenSet:
    """A half of a set; the test half is noted as read. Raises BrokenSet, ReadingRefused."""
    if half == DEV:
        return sets.read(folder)
    return lock.open_test(folder, lock.Reading(reason, reader))


async def run(wanted: Wanted, told: Told = silent, started: Callable[[RunFolder], None] = lambda _: None) -> Finished:
    """The whole of it.

    Raises BrokenSet, ReadingRefused, WrongVariant, WrongOrder, BrokenRun, StackFailed, DependencyFailed, OSError.
    """
    golden = read_set(wanted.golden, wanted.half, wanted.reason, wanted.reader)
    variants = wanted.all_variants()
    order = Order(golden, wanted.half, variants, wanted.seed, wanted.limit, wanted.concurrency, wanted.command)
    if not order.items:
        raise WrongOrder(f"{wanted.golden}: the {wanted.half} half has no items")
    folder = start(wanted.folder, order, wanted.run_id)
    started(folder)
    asker = GatewayAsker(
        lambda variant: _stack(wanted, variant),
        constant=baselines.constant_answer(order.items),
        noise_of=order.items,
        seed=wanted.seed,
    )
    async with AsyncExitStack() as closing:
        closing.push_async_callback(asker.close)
        for variant in variants:
            _stack(wanted, variant)
        # A stack that cannot be asked at all is no run of failed questions.
        embedding = await asker.models(wanted.stack, "embedding")
        tools = await asker.tools(wanted.stack)
        judging = await _judging(wanted, embedding, closing)
        assigner = await _assigner(wanted, tools, closing)
        described = replace(order, descriptions={one.name: one.description for one in tools})
        try:
            return await execute(described, folder, asker, judging, assigner, told)
        except StatementFailed as error:
            raise WrongOrder(f"{wanted.golden}: an expected statement fails on the database: {error}") from None


async def keep(store: RunStore, tenant: str, finished: Finished) -> None:
    """Puts a run that was made elsewhere into a store; of one that went on, what it came to now."""
    manifest = finished.folder.manifest
    created = datetime.fromisoformat(manifest.created_at)
    wanted = len(finished.records)
    done = sum(one.answered is not None for one in finished.records)
    name = str(manifest.plan["golden_set"])
    if await store.get(tenant, manifest.run_id) is None:
        await store.create(Run(manifest.run_id, tenant, name, created, RunStatus.RUNNING, "", done, wanted))
    await store.set_progress(manifest.run_id, done, wanted)
    facts = {"plan": dict(manifest.plan), "facts": dict(manifest.facts), "scoring": dict(manifest.scoring)}
    await store.put_results(manifest.run_id, facts, measurements_of(finished.summary), finished.scored)
    await store.set_status(manifest.run_id, RunStatus.DONE)


def keep_at(dsn: str, tenant: str, finished: Finished) -> None:
    """`keep`, in a database. Raises DependencyFailed."""

    async def kept() -> None:
        store = PostgresRunStore(dsn)
        await store.open()
        try:
            await keep(store, tenant, finished)
        finally:
            await store.close()

    asyncio.run(kept())


def opened(folder: Path, golden: Path) -> Finished:
    """A run of the development half from its folder. Raises BrokenRun, BrokenSet, WrongOrder."""
    kept = RunFolder.open(folder)
    half = str(kept.manifest.plan["half"])
    # What was asked is in the records; the items say what was expected, and those of a test half stay closed.
    found = sets.read_half(golden, half)
    if found.fingerprint != kept.manifest.plan["fingerprint"]:
        raise WrongOrder(f"{golden} is not what {folder} was run on: its items have changed")
    return read_finished(folder, found.items)


def _noisy_pair(noise: int) -> tuple[Variant, Variant]:
    return Variant("given", Kind.GIVEN), Variant("given, noise", Kind.GIVEN, noise=noise)


def _stack(wanted: Wanted, variant: Variant) -> Stack:
    """Where a variant is asked. Raises WrongOrder."""
    key = wanted.stack.api_key
    if variant.key_variable:
        if not (key := wanted.keys.get(variant.key_variable, "")):
            raise WrongOrder(f"{variant.name}: the environment has no {variant.key_variable}")
    return Stack(variant.url or wanted.stack.url, key)


async def _judging(wanted: Wanted, embedding: Sequence[str], closing: AsyncExitStack) -> Judging:
    chosen, names = wanted.judge, frozenset(wanted.metrics)
    if chosen.kind == NO_JUDGE:
        return Judging(names=names)
    embedder = None
    if embedding:
        client = GatewayEmbedder(wanted.stack, embedding[0])
        closing.push_async_callback(client.close)
        embedder = CentredEmbedder(client)
    judge = judge_of(chosen, closing)
    return Judging(CachedJudge(judge, await _cache(wanted, closing)), embedder, names)


async def _cache(wanted: Wanted, closing: AsyncExitStack) -> AnswerCache:
    place = wanted.judge.cache
    # What a stand-in says changes with its code, which no key names: it is kept in the run and for the run.
    if wanted.judge.kind == LEXICAL:
        place = str(wanted.folder / _CACHE)
    if place.startswith(_POSTGRES):
        kept = PostgresCache(place)
        await kept.open()
        closing.push_async_callback(kept.close)
        return kept
    disk = DiskCache(Path(place) if place else wanted.folder.parent / _CACHE)
    closing.callback(disk.close)
    return disk


def judge_of(chosen: JudgeChoice, closing: AsyncExitStack) -> Judge:
    """A judge without a memory; `closing` lets go of it. Raises WrongOrder."""
    if chosen.kind == LEXICAL:
        return LexicalJudge()
    if not chosen.url or not chosen.name:
        raise WrongOrder("a model that judges needs SABUESO_JUDGE_URL and SABUESO_JUDGE_NAME")
    try:
        judge = OpenAIJudge(
            chosen.url,
            chosen.name,
            Prompts.shipped(),
            api_key=chosen.api_key,
            budget=Budget(chosen.max_calls, chosen.max_tokens),
            concurrency=chosen.concurrency,
        )
    except httpx2.InvalidURL as error:
        raise WrongOrder(f"{chosen.url} is no URL: {error}") from None
    closing.push_async_callback(judge.close)
    return judge


async def _assigner(wanted: Wanted, tools: Sequence[OfferedTool], closing: AsyncExitStack) -> Assigner:
    """Raises StackFailed."""
    parameters = {one.name: one.parameters for one in tools}
    if not wanted.database:
        return Assigner(parameters)
    try:
        return Assigner(parameters, await closing.enter_async_context(connected(wanted.database)))
    except _NOT_CONNECTED as error:
        # Without its text, which may quote the address.
        raise StackFailed(f"the database cannot be asked ({type(error).__name__})") from None
