"""The router with the default embedding model over gRPC, on the demo company's questions."""

import json
from datetime import date
from pathlib import Path

from services.embedding.config import Settings
from services.embedding.server import build
from services.orchestrator.clients import EmbeddingClient
from services.orchestrator.routing.embedding_router import EmbeddingRouter
from services.orchestrator.routing.router import Asked
from services.orchestrator.trials.router_cases import tools_of
from services.runtime.tenants import TenantDirectory
from services.runtime.testing import SECRET, act_as, listening

DEMO = Path(__file__).parents[2] / "demo" / "tenant_files"
FLAGSHIP = (
    "¿Cuántos contratos de más de 100k€ firmamos en 2025 con proveedores de la UE, y qué condiciones especiales se "
    "repiten?"
)
SIGNED = {"signed_from": "2025-01-01", "signed_before": "2026-01-01", "regions": ["EU"], "above_eur": 100000}


async def test_the_default_model_routes_the_demo_companys_questions():
    act_as("demo")
    tenants = TenantDirectory(DEMO)
    tools = tools_of(tenants.all()["demo"])
    async with listening(build(Settings(identity_secret=SECRET))) as address:
        client = EmbeddingClient(address)
        router = EmbeddingRouter(client, tenants, today=lambda: date(2026, 7, 15))

        async def route(question, history=()):
            return await router.route(Asked("demo", question, tools, history), 100)

        flagship = await route(FLAGSHIP)
        assert [(call.name, json.loads(call.arguments_json)) for call in flagship.calls] == [
            ("contracts_signed", SIGNED),
            ("vector_search", {"query": FLAGSHIP, "top_k": 20}),
        ]
        late = await route("How many payments are late, and what do they add up to?")
        assert [(call.name, json.loads(call.arguments_json)) for call in late.calls] == [
            ("payments_by_status", {"status": "late"})
        ]
        assert (await route("What is the price of copper today?")).tools == ("web_search",)
        assert (await route("What does the gifts policy say?")).tools == ("vector_search",)
        largest = await route("Which is the largest contract that we signed in 2025?")
        assert largest.abstained
        assert largest.tools == ("sql_query",)
        thanks = await route("¡Muchas gracias por todo!")
        assert (thanks.abstained, thanks.calls) == (False, ())
        await router.close()
        await client.channel.close()


async def test_without_the_embedding_service_the_router_abstains_and_says_so():
    act_as("demo")
    tenants = TenantDirectory(DEMO)
    client = EmbeddingClient("127.0.0.1:1")
    router = EmbeddingRouter(client, tenants)
    found = await router.route(Asked("demo", FLAGSHIP, tools_of(tenants.all()["demo"])), 30)
    await router.close()
    await client.channel.close()
    assert found.abstained
    assert found.degraded
