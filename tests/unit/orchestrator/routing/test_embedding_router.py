"""The router over an encoder that hashes words: what it calls, when it abstains, and that it never fails."""

import asyncio
import json
from contextlib import asynccontextmanager
from datetime import date
from pathlib import Path

import numpy as np
import yaml

from services.orchestrator.arguments import ForeignForm, TypedForm
from services.orchestrator.model import Message
from services.orchestrator.results import Rows
from services.orchestrator.routing.choice import Calibration
from services.orchestrator.routing.embedding_router import EmbeddingRouter
from services.orchestrator.routing.encoder import Encoded, HashedStems
from services.orchestrator.routing.examples import built_in
from services.orchestrator.routing.head import PLUS
from services.orchestrator.routing.learning import Lessons
from services.orchestrator.routing.router import Asked
from services.orchestrator.tools import SqlQuery, Tool, WebSearch, vector_search_of
from services.runtime.errors import DependencyFailed
from services.runtime.tenants import TenantDirectory

DEMO = Path(__file__).parents[4] / "demo" / "tenant_files"
# Sure of the best label, and of several where the parts have several: nothing hangs on how sure the hashed words are.
SURE = Calibration(
    {"score": 1e4, "none_score": 1e4, "several": -1e7, "part_several": 1e7, "missing": -1e6, "unsaid": -1e6}, 1.0
)
UNSURE = Calibration({}, 0.5)
PATIENCE = 60  # nothing here may fail because the machine is slow
# Enough of them for words to tell kinds apart.
FEW = {label: texts[:70] for label, texts in built_in().items() if PLUS not in label}


async def never(arguments, seconds):
    raise AssertionError("a route calls nothing")


def tool(name, form, origin="", description=""):
    return Tool(name, "none", description, form, Rows, never, 1, origin=origin)


OURS = {
    "vector_search": tool("vector_search", TypedForm(vector_search_of(("contracts", "policies")))),
    "sql_query": tool("sql_query", TypedForm(SqlQuery)),
    "web_search": tool("web_search", TypedForm(WebSearch)),
    "contracts_signed": tool("contracts_signed", ForeignForm({})),
    "payments_by_status": tool("payments_by_status", ForeignForm({})),
}


class Counting(HashedStems):
    """Counts the texts, and can be told to fail, to hang or to be another model."""

    def __init__(self):
        super().__init__()
        self.calls = []
        self.fails = self.hangs = False
        self.model = "one"

    async def encode(self, texts, seconds):
        self.calls.append(list(texts))
        if self.fails:
            raise DependencyFailed("embedding does not answer.", dependency="embedding")
        if self.hangs:
            await asyncio.Event().wait()
        return Encoded(self.model, (await super().encode(texts, seconds)).vectors)


@asynccontextmanager
async def a_router(encoder=None, directory=DEMO, calibration=SURE, **others):
    router = EmbeddingRouter(
        encoder or Counting(),
        TenantDirectory(directory),
        today=lambda: date(2026, 7, 15),
        calibration=calibration,
        examples=FEW,
        **others,
    )
    yield router
    await router.close()


async def route(router, question, tools=OURS, history=(), tenant="demo", seconds=PATIENCE):
    return await router.route(Asked(tenant, question, tools, history), seconds)


def called(route):
    return [(call.name, json.loads(call.arguments_json)) for call in route.calls]


async def test_a_reviewed_query_is_called_with_the_arguments_of_the_question():
    async with a_router() as router:
        found = await route(router, "Please, how many contracts above 100k€ did we sign in 2025 with EU providers?")
    arguments = {"signed_from": "2025-01-01", "signed_before": "2026-01-01", "regions": ["EU"], "above_eur": 100000}
    assert called(found) == [("contracts_signed", arguments)]
    assert not found.abstained


async def test_two_needs_are_two_calls_each_with_its_part():
    question = "¿Cuántos pagos están atrasados y qué dice la política sobre los gastos de viaje?"
    async with a_router() as router:
        found = await route(router, question)
    assert called(found) == [
        ("payments_by_status", {"status": "late"}),
        ("vector_search", {"query": "qué dice la política sobre los gastos de viaje?"}),
    ]
    assert len({call.id for call in found.calls}) == 2


async def test_a_part_that_leans_on_the_other_is_searched_with_the_whole_question():
    question = "How many contracts did we sign in 2024, and what do they say about the penalty?"
    async with a_router() as router:
        found = await route(router, question)
    assert called(found)[-1] == ("vector_search", {"query": question})


async def test_the_web_learns_nothing_of_the_other_part():
    question = "What is the price of copper today, and what do our contracts say about the penalty?"
    async with a_router() as router:
        found = await route(router, question)
    assert ("web_search", {"query": "What is the price of copper today"}) in called(found)


async def test_a_free_statement_is_the_models_to_write():
    async with a_router() as router:
        found = await route(router, "What is the average salary by department?")
    assert found.abstained
    assert found.tools == ("sql_query",)
    assert "model" in found.reason
    assert max(found.scores, key=found.scores.get) == "sql_query"


async def test_what_needs_no_tool_gets_none():
    async with a_router() as router:
        found = await route(router, "Thank you very much!")
    assert (found.abstained, found.calls, found.tools) == (False, (), ())


async def test_below_the_least_confidence_it_abstains():
    async with a_router(calibration=UNSURE) as router:
        found = await route(router, "How many payments are late?")
    assert found.abstained
    assert "not sure" in found.reason
    assert found.confidence == 0.5


async def test_a_question_that_leans_on_the_conversation_is_the_models():
    history = [Message("user", "How many payments are late?"), Message("assistant", "33.")]
    async with a_router() as router:
        found = await route(router, "And how many of those payments are late?", history=history)
        thanks = await route(router, "Thank you very much!", history=history)
    assert found.abstained
    assert "conversation" in found.reason
    assert not thanks.abstained


async def test_a_question_that_varies_the_last_one_is_called_with_its_other_arguments():
    history = [
        Message("user", "How many contracts did we sign in 2025 with EU providers?"),
        Message("assistant", "12."),
    ]
    async with a_router() as router:
        found = await route(router, "And in 2024?", history=history)
    arguments = {"signed_from": "2024-01-01", "signed_before": "2025-01-01", "regions": ["EU"]}
    assert called(found) == [("contracts_signed", arguments)]


async def test_an_answer_to_the_assistants_question_is_the_models():
    history = [Message("user", "What about penalties?"), Message("assistant", "Shall I look in the contracts?")]
    async with a_router() as router:
        found = await route(router, "Yes, please.", history=history)
        alone = await route(router, "Yes, please.")
    assert found.abstained
    assert (alone.abstained, alone.calls) == (False, ())


async def test_a_sum_needs_no_tool_and_no_vector():
    encoder = Counting()
    async with a_router(encoder) as router:
        await route(router, "hello")
        encoder.calls.clear()
        found = await route(router, "Please, what is 17 times 23?")
    assert (found.abstained, found.calls, found.confidence) == (False, (), 1.0)
    assert encoder.calls == []


async def test_a_tool_that_is_not_there_is_not_replaced_by_another():
    without = {name: one for name, one in OURS.items() if name != "web_search"}
    async with a_router() as router:
        found = await route(router, "What is the price of copper today?", without)
    assert found.abstained
    assert "web_search" in found.reason


async def test_a_collection_is_searched_alone_when_it_is_named_as_one():
    async with a_router() as router:
        found = await route(router, "What does the handbook in the collection policies say about sick leave?")
        other = await route(router, "What does our policy say about sick leave?")
    assert called(found)[0][1]["collection"] == "policies"
    assert "collection" not in called(other)[0][1]


async def test_tools_of_others_are_told_by_their_description_and_left_to_the_model():
    weather = tool(
        "sky__forecast", ForeignForm({}), "sky", "Forecast of rainfall, storms and snow for mountain villages"
    )
    async with a_router() as router:
        found = await route(router, "Forecast of rainfall for mountain villages", {**OURS, weather.name: weather})
    assert found.abstained
    assert found.tools == ("sky__forecast",)


async def test_examples_are_encoded_once_and_a_question_costs_one_call():
    encoder = Counting()
    async with a_router(encoder) as router:
        await route(router, "hello")
        encoder.calls.clear()
        await route(router, "How many payments are late, and what does the policy say?")
        await route(router, "hello", tenant="other")  # its own examples are none: the built-in ones are known
    assert [len(texts) for texts in encoder.calls] == [3, 1]


async def test_a_changed_file_is_learned(tmp_path):
    file = {"id": "acme", "tools": {"web_search": {"examples": ["zyx zyx zyx qqq"]}}}
    (tmp_path / "acme.yaml").write_text(yaml.safe_dump(file))
    encoder, directory = Counting(), TenantDirectory(tmp_path)
    router = EmbeddingRouter(encoder, directory, calibration=SURE, examples=FEW)
    before = await route(router, "zyx qqq", tenant="acme")
    file["tools"] = {"vector_search": {"examples": ["zyx zyx zyx qqq", "zyx qqq"]}}
    (tmp_path / "acme.yaml").write_text(yaml.safe_dump(file))
    assert directory.reload()
    after = await route(router, "zyx qqq", tenant="acme")
    await router.close()
    assert (before.tools, after.tools) == (("web_search",), ("vector_search",))


async def test_another_embedding_model_is_learned_anew():
    encoder = Counting()
    async with a_router(encoder) as router:
        await route(router, "hello")
        encoder.model = "two"
        first = await route(router, "How many payments are late, and what does the policy say?")
        second = await route(router, "How many payments are late, and what does the policy say?")
    assert first.abstained  # the vectors do not compare
    assert ("payments_by_status", {"status": "late"}) in called(second)


async def test_a_lost_embedding_service_is_told_and_not_asked_again_at_once():
    encoder = Counting()
    encoder.fails = True
    async with a_router(encoder, retry_seconds=1000) as router:
        lost = await route(router, "How many payments are late?")
        asked = len(encoder.calls)
        again = await route(router, "How many payments are late?")
        assert len(encoder.calls) == asked
    assert lost.abstained
    assert again.abstained
    assert lost.degraded[0].service == "router"
    assert "embedding does not answer" in lost.reason


async def test_a_service_that_is_back_is_asked_again():
    encoder = Counting()
    encoder.fails = True
    async with a_router(encoder, retry_seconds=0) as router:
        await route(router, "How many payments are late?")
        encoder.fails = False
        found = await route(router, "How many payments are late?")
    assert called(found) == [("payments_by_status", {"status": "late"})]


async def test_a_service_that_is_lost_after_the_lesson_is_told_too():
    encoder = Counting()
    async with a_router(encoder) as router:
        await route(router, "hello")
        encoder.fails = True
        lost = await route(router, "What does our policy say about sick leave?")
    assert lost.abstained
    assert lost.degraded


async def test_what_a_reviewed_query_says_word_for_word_needs_no_vector():
    encoder = Counting()
    async with a_router(encoder) as router:
        await route(router, "hello")
        encoder.fails = True
        found = await route(router, "How many payments are late?")
    assert called(found) == [("payments_by_status", {"status": "late"})]


async def test_a_service_that_hangs_costs_no_more_than_the_time_there_is():
    encoder = Counting()
    encoder.hangs = True
    async with a_router(encoder) as router:
        found = await route(router, "How many payments are late?", seconds=0.05)
    assert found.abstained
    assert "in time" in found.reason


async def test_a_first_question_that_gives_up_does_not_end_the_lesson():
    class Gated(Counting):
        open = asyncio.Event()

        async def encode(self, texts, seconds):
            encoded = await super().encode(texts, seconds)
            await self.open.wait()
            return encoded

    encoder = Gated()
    async with a_router(encoder) as router:
        gave_up = await route(router, "How many payments are late?", seconds=0.05)
        encoder.open.set()
        found = await route(router, "How many payments are late?")
    assert gave_up.abstained
    assert called(found) == [("payments_by_status", {"status": "late"})]
    batches = [tuple(texts) for texts in encoder.calls]
    assert len(batches) == len(set(batches))  # nothing was encoded twice


async def test_an_unknown_tenant_and_an_endless_question_are_no_errors():
    async with a_router() as router:
        assert not (await route(router, "Thank you very much!", tenant="nobody")).abstained
        assert (await route(router, "why " * 1000)).abstained
        wordless = await route(router, "¿?")
    assert wordless.abstained
    assert not wordless.degraded


async def test_vectors_that_make_no_sense_are_no_error():
    class Broken(Counting):
        async def encode(self, texts, seconds):
            return Encoded("x", np.full((len(texts), 3), np.nan, np.float32))

    async with a_router(Broken()) as router:
        found = await route(router, "How many orders?")
    assert found.abstained
    assert found.degraded


async def test_every_tenant_is_learned_before_the_first_question_however_often_it_has_to_be_tried(tmp_path):
    (tmp_path / "demo.yaml").write_text("id: demo\n", encoding="utf-8")
    refusals, answered = iter(range(2)), asyncio.Event()

    class Late(HashedStems):
        async def encode(self, texts, seconds):
            if next(refusals, None) is not None:
                raise DependencyFailed("embedding is not ready.", dependency="embedding")
            answered.set()
            return await super().encode(texts, seconds)

    acted_for = []
    lessons = Lessons(Late(), TenantDirectory(tmp_path), retry_seconds=0.01, examples=FEW)
    lessons.begin(acted_for.append)
    async with asyncio.timeout(PATIENCE):
        await answered.wait()
        assert (await lessons.of("demo", {})).reviewed == {}
    assert acted_for == ["demo"]
    await lessons.close()
