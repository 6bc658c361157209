"""Asking a gateway over HTTP."""

from contextlib import asynccontextmanager

from services.evaluation.runs.gateway_asker import GatewayAsker, Stack
from services.evaluation.runs.record import Evidence
from services.evaluation.runs.variant import Variant
from tests.unit.evaluation.runs.gateway_server import KEY, GatewayServer, agent_body, listening, refusal
from tests.unit.evaluation.runs.world import CANTEEN, ITEMS, WARRANTY


@asynccontextmanager
async def asking(server, **options):
    async with listening(server) as url:
        asker = GatewayAsker(lambda variant: Stack(url, variant.key_variable or KEY), noise_of=ITEMS, **options)
        try:
            yield asker
        finally:
            await asker.close()


async def test_the_agent_is_asked_with_its_settings_without_cache_and_tells_what_it_was_shown():
    server = GatewayServer()
    async with asking(server) as asker:
        found = await asker.ask(WARRANTY, Variant.parse("r: strategy=rag temperature=0.2"))
    assert found.answered.answer == "24 months [1]."
    assert found.evidence is Evidence.SHOWN
    assert found.cited == ("warranty",)
    assert [call.tool for call in found.answered.calls] == ["vector_search"]
    (body,) = server.bodies
    assert body["temperature"] == 0.2
    assert body["sabueso"] == {"cache": "off", "include_steps": True, "include_evidence": True, "strategy": "rag"}


async def test_a_stack_that_does_not_tell_its_evidence_is_asked_without_and_the_record_says_so():
    server = GatewayServer(lambda question, options: agent_body("24 months [1].") | {"sabueso": _without_evidence()})
    server.knows_evidence = False
    async with asking(server) as asker:
        records = [await asker.ask(item, Variant("agent")) for item in (WARRANTY, CANTEEN)]
    assert [one.evidence for one in records] == [Evidence.QUOTES] * 2
    assert records[0].answered.passages[0].text == "24 months"
    assert ["include_evidence" in body["sabueso"] for body in server.bodies] == [True, False, False]


def _without_evidence():
    summary = agent_body("24 months [1].")["sabueso"]
    return {name: value for name, value in summary.items() if name != "evidence"}


async def test_a_refusal_for_now_is_asked_again_after_as_long_as_it_says():
    server = GatewayServer(first=[refusal(429, "rate_limit", **{"retry-after-ms": "1"}) for _ in range(3)])
    async with asking(server) as asker:
        found = await asker.ask(WARRANTY, Variant("agent"))
    assert found.answered is not None
    assert len(server.bodies) == 4


async def test_a_limit_that_is_used_up_for_long_is_waited_for_and_at_the_end_is_a_record():
    full = [refusal(429, "tokens_limit_exceeded", "used up", **{"retry-after-ms": "1"}) for _ in range(12)]
    server = GatewayServer(first=full)
    async with asking(server, retries=1) as asker:
        found = await asker.ask(WARRANTY, Variant("agent"))
    assert found.answered is not None
    server = GatewayServer(first=full)
    async with asking(server, retries=1, patience_seconds=0) as asker:
        found = await asker.ask(WARRANTY, Variant("agent"))
    assert found.failure == "tokens_limit_exceeded: used up"


async def test_what_is_refused_for_good_is_a_record_with_the_gateways_reason():
    server = GatewayServer(lambda question, options: refusal(422, "no_such_tool", "There is no tool `x`."))
    async with asking(server) as asker:
        found = await asker.ask(WARRANTY, Variant("agent"))
        other = await asker.ask(WARRANTY, Variant("agent", key_variable="sk-wrong"))
    assert (found.answered, found.failure) == (None, "no_such_tool: There is no tool `x`.")
    assert other.failure == "invalid_api_key: no"


async def test_an_answer_in_another_form_and_no_answer_at_all_are_records_too():
    server = GatewayServer(lambda question, options: {"choices": []})
    async with asking(server) as asker:
        unreadable = await asker.ask(WARRANTY, Variant("agent"))
    assert unreadable.failure.startswith("unreadable: ")
    asker = GatewayAsker(lambda _: Stack("http://127.0.0.1:1", KEY), retries=0)
    unreachable = await asker.ask(WARRANTY, Variant("agent"))
    await asker.close()
    assert unreachable.failure.startswith("unreachable: ")


async def test_a_search_takes_its_own_settings():
    server = GatewayServer()
    async with asking(server) as asker:
        found = await asker.ask(WARRANTY, Variant.parse("d: kind=search mode=dense top_k=3"))
    assert server.searches == [{"query": WARRANTY.question, "mode": "dense", "top_k": 3}]
    assert [one.source for one in found.answered.passages] == ["warranty"]


async def test_a_model_alone_is_the_first_of_the_pool_and_its_words_say_whether_it_refuses():
    server = GatewayServer()
    async with asking(server) as asker:
        found = await asker.ask(WARRANTY, Variant.parse("alone: kind=model"))
    assert (found.answered.model, found.answered.finish) == ("big", "refused")
    assert "sabueso" not in server.bodies[0]


async def test_the_agent_is_asked_to_answer_by_a_model_of_its_stack_and_an_older_gateway_refuses_that_aloud():
    server = GatewayServer()
    async with asking(server) as asker:
        found = await asker.ask(WARRANTY, Variant.parse("b: strategy=rag model=big"))
        usual = await asker.ask(WARRANTY, Variant("agent"))
    assert [body["sabueso"].get("model") for body in server.bodies] == ["big", None]
    assert (found.answered.model, usual.answered.model) == ("big", "sabueso")
    unknown = refusal(400, "invalid_field", "sabueso.model: Extra inputs are not permitted")
    async with asking(GatewayServer(lambda question, options: unknown)) as asker:
        found = await asker.ask(WARRANTY, Variant.parse("b: model=big"))
    assert (found.answered, found.failure.partition(":")[0]) == (None, "invalid_field")


async def test_noise_is_of_other_sources_and_the_same_in_every_run():
    shown = []
    for _ in range(2):
        server = GatewayServer()
        async with asking(server) as asker:
            found = await asker.ask(WARRANTY, Variant.parse("n: kind=given noise=1"))
        shown.append([one.source for one in found.answered.passages])
        assert found.evidence is Evidence.SHOWN
    assert sorted(shown[0]) == ["canteen", "warranty"]
    assert shown[0] == shown[1]


async def test_the_constant_answer_asks_nobody():
    server = GatewayServer()
    async with asking(server, constant="Always this.") as asker:
        found = await asker.ask(WARRANTY, Variant.parse("c: kind=constant"))
    assert found.answered.answer == "Always this."
    assert server.bodies == []


async def test_tools_come_with_the_descriptions_that_the_model_sees():
    server = GatewayServer()
    async with listening(server) as url:
        asker = GatewayAsker(lambda _: Stack(url, KEY), retries=0)
        assert [one.description for one in await asker.tools(Stack(url, KEY))] == ["Searches documents."]
        assert await asker.tools(Stack("http://127.0.0.1:1", KEY)) == []
        await asker.close()
