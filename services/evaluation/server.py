"""Puts the evaluation service together and runs it."""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence

from sabueso.evaluation.v1 import evaluation_pb2, evaluation_pb2_grpc
from services.evaluation.config import Settings
from services.evaluation.gauges import RunGauges
from services.evaluation.judge.cached import CachedJudge, MemoryCache
from services.evaluation.judge.judge import Judge
from services.evaluation.judge.openai_judge import OpenAIJudge
from services.evaluation.judge.prompts import Prompts
from services.evaluation.metrics.catalogue import METRICS
from services.evaluation.metrics.centred import CentredEmbedder
from services.evaluation.metrics.clients import EmbeddingClient
from services.evaluation.metrics.noise_sensitivity import NAME as NOISE
from services.evaluation.online import build as online
from services.evaluation.online.feedback import GatewayFeedback
from services.evaluation.online.offers import Offers
from services.evaluation.online.postgres_references import PostgresReferences
from services.evaluation.online.postgres_scores import PostgresScoreStore
from services.evaluation.online.references import MemoryReferences
from services.evaluation.online.store import MemoryScoreStore
from services.evaluation.runs import deterministic
from services.evaluation.runs.background import BackgroundRuns
from services.evaluation.runs.command import MODEL, NO_JUDGE, JudgeChoice
from services.evaluation.runs.postgres_store import PostgresRunStore
from services.evaluation.runs.queue import RunQueue
from services.evaluation.runs.store import MemoryRunStore, Run, RunStore
from services.evaluation.service import EvaluationServicer
from services.runtime import context, server, tasks
from services.runtime.errors import ServiceError
from services.runtime.identity import Identity, Signer

log = logging.getLogger(__name__)
DESCRIPTOR = evaluation_pb2.DESCRIPTOR.services_by_name["EvaluationService"]
_MEMORY = "memory:"
_SPARE_SECONDS = 60
# A run shows that it is alive every ten seconds.
_SILENT_SECONDS = 60.0
_LOOK_SECONDS = 30.0
_METRICS = (
    *(one.name for one in METRICS),
    *(one.name for one in deterministic.METRICS),
    *(NOISE, deterministic.TOOLS, deterministic.ARGUMENTS, deterministic.NO_TOOL),
)


class Watch:
    """Looks at the store now and then: fails what was abandoned, and shows the newest runs, whoever made them."""

    def __init__(self, store: RunStore, gauges: RunGauges, *, seconds: float = _LOOK_SECONDS) -> None:
        self._store = store
        self._gauges = gauges
        self._seconds = seconds
        self._task: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Begins to look."""
        await self.look()
        self._task = asyncio.create_task(self._look_for_ever())

    async def close(self) -> None:
        """Stops."""
        await tasks.end(self._task)

    async def look(self) -> None:
        """Once. Raises DependencyFailed."""
        if count := await self._store.fail_abandoned(_SILENT_SECONDS):
            log.warning("runs were abandoned", extra={"count": count})
        for run in await self._store.latest():
            await self.show(run)

    async def show(self, run: Run) -> None:
        """A run that is over."""
        self._gauges.show(run, await self._store.measurements(run.run_id))

    async def _look_for_ever(self) -> None:
        while True:
            await asyncio.sleep(self._seconds)
            with contextlib.suppress(ServiceError):
                await self.look()


def build(settings: Settings, gauges: RunGauges | None = None) -> server.Served:
    """The servicer with its store, its queue, and what measures live traffic."""
    dsn = settings.results_dsn.get_secret_value()
    store: RunStore = MemoryRunStore() if dsn == _MEMORY else PostgresRunStore(dsn)
    tenants = [name.strip() for name in settings.run_gauge_tenants.split(",") if name.strip()]
    watch = Watch(store, gauges or RunGauges(tenants=tenants))
    runs = BackgroundRuns(
        settings.golden_dir,
        settings.runs_dir,
        settings.gateway_url,
        settings.gateway_keys_dir,
        _judge_of_runs(settings),
        settings.evaluation_concurrency,
    )
    queue = RunQueue(
        store,
        runs.run,
        max_waiting=settings.max_waiting_runs,
        max_seconds=settings.max_run_seconds,
        finished=watch.show,
    )
    judge = _judge_of_traffic(settings)
    embedding = EmbeddingClient(settings.embedding_address)
    offers = _offers(settings, judge, embedding, dsn)

    async def open_all() -> None:
        await store.open()
        await watch.open()
        await offers.open()

    async def close_all() -> None:
        await queue.close()
        await offers.close()
        await watch.close()
        await store.close()
        await embedding.channel.close()
        if judge is not None:
            await judge.close()

    servicer = EvaluationServicer(queue, store, runs.sets, _METRICS, offers)
    add = evaluation_pb2_grpc.add_EvaluationServiceServicer_to_server
    return server.Served(servicer, add, DESCRIPTOR, warm_up=open_all, close=close_all)


def _judge_of_runs(settings: Settings) -> JudgeChoice:
    return JudgeChoice(
        MODEL if settings.judge_url and settings.judge_name else NO_JUDGE,
        settings.judge_url,
        settings.judge_name,
        settings.judge_api_key.get_secret_value(),
        settings.judge_calls_per_run or None,
        concurrency=settings.judge_concurrency,
        cache="" if (dsn := settings.results_dsn.get_secret_value()) == _MEMORY else dsn,
    )


def _judge_of_traffic(settings: Settings) -> OpenAIJudge | None:
    if not settings.judge_url or not settings.judge_name:
        return None
    return OpenAIJudge(
        settings.judge_url,
        settings.judge_name,
        Prompts.shipped(),
        api_key=settings.judge_api_key.get_secret_value(),
        budget=online.traffic_budget(settings),
        concurrency=settings.judge_concurrency,
    )


def _offers(settings: Settings, judge: OpenAIJudge | None, embedding: EmbeddingClient, dsn: str) -> Offers:
    cached: Judge | None = CachedJudge(judge, MemoryCache()) if judge is not None else None
    scores = MemoryScoreStore() if dsn == _MEMORY else PostgresScoreStore(dsn)
    references = MemoryReferences() if dsn == _MEMORY else PostgresReferences(dsn)
    feedback = GatewayFeedback(settings.gateway_url, settings.gateway_keys_dir)
    embedder = CentredEmbedder(embedding)
    return online.offers(settings, cached, embedder, scores, references, _acting(settings), feedback)


def _acting(settings: Settings) -> Callable[[str], None]:
    signer = Signer(settings.identity_secret.get_secret_value())
    # The question is embedded, then the answer is judged; each may take all of its time.
    seconds = 2 * settings.online_answer_seconds + _SPARE_SECONDS

    def act_for(tenant: str) -> None:
        identity = Identity(tenant, "evaluation")
        context.enter(context.CallContext(identity, signer.sign(identity, seconds)))

    return act_for


def main() -> None:
    """Runs the service until it is told to stop."""
    settings = Settings.read()

    async def make() -> Sequence[server.Served]:
        return [build(settings)]

    server.run("evaluation", settings, make)


if __name__ == "__main__":
    main()
