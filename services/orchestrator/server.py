"""Starts the orchestrator: the only file that makes concrete things."""

import logging
from collections.abc import Callable, Sequence

from sabueso.orchestrator.v1 import orchestrator_pb2, orchestrator_pb2_grpc
from services.orchestrator.agent import Agent
from services.orchestrator.calculator.tool import calculator
from services.orchestrator.calling.profiles import profile_of
from services.orchestrator.calling.ways import Way, calling_model
from services.orchestrator.citing.judge import ModelJudge
from services.orchestrator.citing.meaning import Meaning
from services.orchestrator.citing.reviewer import EvidenceReviewer
from services.orchestrator.clients import CacheClient, EmbeddingClient, RetrievalClient, SqlClient, WebClient
from services.orchestrator.config import Settings
from services.orchestrator.conversation.history import Conversation, Summarised, Windowed
from services.orchestrator.evidence import EvidenceBudgets
from services.orchestrator.external.servers import McpOpening, Servers
from services.orchestrator.first_calls import Remembering
from services.orchestrator.model import Model
from services.orchestrator.named_model import NamedModel
from services.orchestrator.openai_model import OpenAIModel
from services.orchestrator.planning.planner import Planner
from services.orchestrator.query_transform import SearchPolicy, Transform
from services.orchestrator.reflecting.model_reflection import ModelReflection
from services.orchestrator.reflecting.reflection import Reflecting
from services.orchestrator.result_cache import ResultCache
from services.orchestrator.routing.embedding_router import EmbeddingRouter
from services.orchestrator.routing.encoder import RememberedVectors
from services.orchestrator.routing.router import AskTheModel
from services.orchestrator.sampling.clients import EvaluationClient
from services.orchestrator.sampling.outbox import Outbox
from services.orchestrator.sampling.sampler import Sampler
from services.orchestrator.service import Ceilings, OrchestratorServicer
from services.orchestrator.sessions.conversation import Bounds, ConversationStore, MemoryConversations
from services.orchestrator.sessions.sessions import Sessions
from services.orchestrator.sessions.valkey_conversations import valkey_conversations
from services.orchestrator.shield.tenant_shield import Shields
from services.orchestrator.strategies.auto import Auto
from services.orchestrator.strategies.plan import Plan, PlanPolicy
from services.orchestrator.strategies.registry import strategies
from services.orchestrator.task import Limits
from services.orchestrator.timed import TimedEncoder, TimedModel
from services.orchestrator.tool_calls import ToolCalls
from services.orchestrator.tool_maker import ToolTimeouts
from services.orchestrator.toolbox import Toolbox
from services.runtime import context
from services.runtime.context import CallContext, Identity
from services.runtime.identity import Signer
from services.runtime.recognition.injections.classifier import classifier_of
from services.runtime.recognition.injections.detector import Detector
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
    connections: list[OpenAIModel] = []
    model = _named(settings, connections)
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
        evidence=EvidenceBudgets(
            settings.run_document_tokens, settings.run_row_tokens, settings.run_web_tokens, settings.run_reply_tokens
        ),
    )
    servers = Servers(
        McpOpening(settings.secrets_dir, settings.mcp_stdio, settings.mcp_max_response_bytes),
        list_seconds=settings.mcp_list_seconds,
        calls_per_server=settings.mcp_calls_per_server,
    )
    toolbox = Toolbox(
        tenants,
        retrieval,
        sql,
        web,
        model=model,
        timeouts=timeouts,
        search=search,
        remote=servers,
        calculator=calculator,
    )
    conversations = _conversations(settings)
    embedding = EmbeddingClient(settings.embedding_address) if settings.embedding_address else None
    known = RememberedVectors(embedding) if embedding is not None else None
    router = AskTheModel()
    if known is not None:
        router = EmbeddingRouter(known, tenants, min_confidence=settings.router_min_confidence)
        router.begin(_acting(Signer(settings.identity_secret.get_secret_value())))
    planner, specialist, judge = (
        _model(settings, name, connections) if name else model
        for name in (settings.planner_model_name, settings.specialist_model_name, settings.citation_judge_model_name)
    )
    detector = Detector(classifier_of(settings.injection_model))
    shields = Shields(tenants, detector, settings.identity_secret.get_secret_value().encode())
    reviewer = EvidenceReviewer(
        Meaning(TimedEncoder(known)) if known is not None else None,
        ModelJudge(TimedModel(judge)) if settings.citation_judge != "off" else None,
        settings.citation_check_seconds,
        judges_all=settings.citation_judge == "all",
    )
    reviewer.warm()
    servicer = OrchestratorServicer(
        Agent(
            strategies(
                model,
                router,
                _plan(settings, model, planner, specialist, connections),
                Remembering(settings.first_calls_seconds, settings.model_name),
            ),
            limits,
            auto=Auto(router, settings.auto_plan_seconds, settings.auto_rag_seconds),
            conversation=_conversation(settings, model),
            reviewer=reviewer,
            reflection=ModelReflection(judge),
        ),
        toolbox,
        cache,
        ToolCalls(toolbox, cache, observation_chars=settings.observation_chars, shields=shields),
        Ceilings(
            settings.deadline_seconds,
            settings.max_calls_per_turn,
            settings.max_runs,
            settings.max_tool_calls,
            settings.max_calls_per_answer,
            reflecting=Reflecting(settings.reflection),
        ),
        Sessions(conversations),
        shields,
        sampler := _sampler(settings, tenants),
    )
    tenants.watch()

    async def close() -> None:
        await tenants.close()
        await sampler.close()
        await servers.close()
        await router.close()
        if embedding is not None:
            await embedding.channel.close()
        if conversations is not None:
            await conversations.close()
        await cache.close()
        for each in connections:
            await each.close()
        for client in (retrieval, sql, web, store):
            await client.channel.close()

    descriptor = orchestrator_pb2.DESCRIPTOR.services_by_name["OrchestratorService"]
    add = orchestrator_pb2_grpc.add_OrchestratorServiceServicer_to_server
    return Served(servicer, add, descriptor, close=close)


def _acting(signer: Signer) -> Callable[[str], None]:
    """Makes a tenant the one for whom this task calls other services."""

    def act_for(tenant: str) -> None:
        identity = Identity(tenant)
        context.enter(CallContext(identity, signer.sign(identity)))

    return act_for


def _sampler(settings: Settings, tenants: TenantDirectory) -> Sampler:
    """What offers answers to evaluation, where there is one."""
    outbox = None
    if settings.evaluation_address:
        act_for = _acting(Signer(settings.identity_secret.get_secret_value()))
        outbox = Outbox(EvaluationClient(settings.evaluation_address), act_for)
    return Sampler(tenants, settings.model_name, outbox)


def _conversations(settings: Settings) -> ConversationStore | None:
    """Where conversations are kept, if they are."""
    if not settings.session_ttl_seconds:
        return None
    bounds = Bounds(settings.session_ttl_seconds, settings.session_max_turns, settings.session_max_bytes)
    if settings.valkey_url == "memory:":
        return MemoryConversations(bounds)
    return valkey_conversations(
        settings.valkey_url, bounds, timeout_seconds=settings.session_timeout_seconds, cluster=settings.valkey_cluster
    )


def _conversation(settings: Settings, model: Model) -> Conversation:
    """What of a conversation is read."""
    return Summarised(model, settings.history_summary_timeout_seconds) if settings.history_summaries else Windowed()


def _model(settings: Settings, name: str, connections: list[OpenAIModel]) -> Model:
    """The model that is served under `name`, as its family needs to be spoken to. `connections` are to be closed."""
    profile = profile_of(settings.model_profile, name)
    connections.append(OpenAIModel(settings.model_url, name, lambda: _model_key(settings), profile=profile))
    return calling_model(connections[-1], name, profile, Way(settings.tool_calls))


def _named(settings: Settings, connections: list[OpenAIModel]) -> Model:
    """The model that answers: of the settings, or of the request, over the same connections."""
    usual, server = _model(settings, settings.model_name, connections), connections[-1]

    def made(name: str) -> Model:
        profile = profile_of(settings.model_profile, name)
        return calling_model(server.named(name, profile), name, profile, Way(settings.tool_calls))

    return NamedModel(usual, made)


def _plan(settings: Settings, model: Model, planner: Model, specialist: Model, connections: list[OpenAIModel]) -> Plan:
    names = {
        "documents": settings.documents_specialist_model_name,
        "sql": settings.sql_specialist_model_name,
        "web": settings.web_specialist_model_name,
    }
    return Plan(
        Planner(planner, settings.plan_timeout_seconds, settings.plan_max_steps),
        specialist,
        model,
        PlanPolicy(settings.plan_parallel_steps, settings.plan_step_iterations),
        specialists={who: _model(settings, name, connections) for who, name in names.items() if name},
    )


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
