"""Starts the orchestrator: the only file that makes concrete things."""

import logging
from collections.abc import Sequence

from sabueso.orchestrator.v1 import orchestrator_pb2, orchestrator_pb2_grpc
from services.orchestrator.agent import Agent
from services.orchestrator.clients import CacheClient, RetrievalClient, SqlClient, WebClient
from services.orchestrator.config import Settings
from services.orchestrator.openai_model import OpenAIModel
from services.orchestrator.query_transform import SearchPolicy, Transform
from services.orchestrator.result_cache import ResultCache
from services.orchestrator.run import Limits
from services.orchestrator.service import Ceilings, OrchestratorServicer
from services.orchestrator.tool_calls import ToolCalls
from services.orchestrator.tool_maker import ToolTimeouts
from services.orchestrator.toolbox import Toolbox
from services.runtime import context
from services.runtime.server import Served, run
from services.runtime.tenants import TenantDirectory


def build(settings: Settings) -> Served:
    """The service, wired. Needs a running event loop. Raises BadTenantFile when the tenants' files are wrong."""
    # The model's HTTP client names URLs at INFO; which one it is depends on the version of the openai package.
    for name in ("httpx", "httpx2"):
        logging.getLogger(name).setLevel(logging.WARNING)
    tenants = TenantDirectory(settings.tenants_dir)
    retrieval = RetrievalClient(settings.retrieval_address)
    sql = SqlClient(settings.sql_tool_address)
    web = WebClient(settings.web_tool_address)
    store = CacheClient(settings.tool_cache_address)
    cache = ResultCache(store)
    model = OpenAIModel(settings.model_url, settings.model_name, lambda: _model_key(settings))
    timeouts = ToolTimeouts(
        settings.vector_search_timeout_seconds,
        settings.sql_query_timeout_seconds,
        settings.web_search_timeout_seconds,
    )
    search = SearchPolicy(
        Transform(settings.query_transform),
        rewrite=settings.rewrite_follow_ups,
        route=settings.collection_routing,
        search_seconds=settings.vector_search_timeout_seconds,
        model_seconds=settings.query_transform_timeout_seconds,
    )
    limits = Limits(
        run_tokens=settings.run_tokens,
        history_tokens=settings.history_tokens,
        observation_chars=settings.observation_chars,
        reserve_seconds=settings.reserve_seconds,
    )
    toolbox = Toolbox(tenants, retrieval, sql, web, model=model, timeouts=timeouts, search=search)
    servicer = OrchestratorServicer(
        Agent(model, limits),
        toolbox,
        cache,
        ToolCalls(toolbox, cache, observation_chars=settings.observation_chars),
        Ceilings(settings.deadline_seconds, settings.max_calls_per_turn, settings.max_runs, settings.max_tool_calls),
    )
    tenants.watch()

    async def close() -> None:
        await tenants.close()
        await cache.close()
        await model.close()
        for client in (retrieval, sql, web, store):
            await client.channel.close()

    descriptor = orchestrator_pb2.DESCRIPTOR.services_by_name["OrchestratorService"]
    add = orchestrator_pb2_grpc.add_OrchestratorServiceServicer_to_server
    return Served(servicer, add, descriptor, close=close)


def _model_key(settings: Settings) -> str:
    """The model's route is the gateway, which knows our callers by their signed identity."""
    call = context.current()
    return settings.model_api_key.get_secret_value() or (call.token if call else "")


def main() -> None:
    """Runs the service until it is told to stop."""
    settings = Settings.read()

    async def make() -> Sequence[Served]:
        return [build(settings)]

    run("orchestrator", settings, make)


if __name__ == "__main__":
    main()
