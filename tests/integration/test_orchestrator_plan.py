"""Plans on real loopback servers: the stand-in model plans, specialists search and count, the answer is cited."""

import json

import pytest

from sabueso.orchestrator.v1 import orchestrator_pb2 as pb
from tests.integration.test_orchestrator import of, saying, searched, stand_in, text_of, world

SHELF = {
    "acme": "The warranty of Acme covers all pumps for three years from delivery.",
    "borealis": "The warranty of Borealis covers all pumps for two years from delivery.",
    "plazos": "La política de plazos exige un preaviso de treinta días para resolver el contrato.",
    "menu": "La cafetería abre a las ocho. The cafeteria opens at eight.",
}


@pytest.mark.parametrize(
    ("question", "sources", "says"),
    [
        ("Compare the warranty of Acme and Borealis", {"acme", "borealis"}, ("three years", "two years")),
        ("¿Cuántos contratos hay y qué preaviso exige la política de plazos?", {"plazos"}, ("treinta",)),
    ],
)
async def test_the_stand_in_plans_and_answers_from_what_its_specialists_found(tmp_path, question, sources, says):
    async with stand_in() as url, world(tmp_path, model_url=url) as it:
        it.tools.shelf = SHELF
        responses = await it.ask(question, strategy="plan")
    (plan,) = of(responses, "plan")
    assert [step.id for step in plan.steps] == ["s1", "s2"]
    assert {one.step_id for one in of(responses, "tool_call_started")} == {"s1", "s2"}
    assert sources <= {one.document.document_id for one in of(responses, "citation")}
    assert all(each in text_of(responses) for each in says)
    end = responses[-1].finished
    assert (end.finish, end.strategy) == (pb.FINISH_ANSWERED, "plan")
    assert end.usage.completion_tokens > 0


async def test_one_thing_is_answered_without_steps(tmp_path):
    async with stand_in() as url, world(tmp_path, model_url=url) as it:
        it.tools.shelf = SHELF
        responses = await it.ask("What does the warranty of Acme cover?", strategy="plan")
    assert [one.strategy for one in of(responses, "chosen")] == ["plan", "react"]
    assert of(responses, "plan") == []
    assert "three years" in text_of(responses)
    assert len(searched(it)) == 1


async def test_a_step_that_finds_nothing_is_looked_for_once_more_and_the_answer_goes_on_without_it(tmp_path):
    shelf = {name: SHELF[name] for name in ("acme", "menu")}
    async with stand_in() as url, world(tmp_path, model_url=url) as it:
        it.tools.shelf = shelf
        responses = await it.ask("What warranty does Acme give, and what salary does Zephyr pay?", strategy="plan")
    first, second = of(responses, "plan")
    assert (first.revision, second.revision) == (1, 2)
    assert [step.id for step in second.steps] == ["s3"]
    assert "three years" in text_of(responses)
    assert {one.document.document_id for one in of(responses, "citation")} == {"acme"}


async def test_planner_and_specialists_may_be_other_models_under_the_same_address(tmp_path):
    async with world(tmp_path, planner_model_name="planner", specialist_model_name="small") as it:
        it.model.replies = [503, 503]
        with pytest.raises(Exception, match="model"):
            await it.ask(strategy="plan")
        assert [one["model"] for one in it.model.requests][:2] == ["planner", "planner"]


async def test_each_specialist_may_be_a_model_of_its_own(tmp_path):
    names = {"documents_specialist_model_name": "papers", "sql_specialist_model_name": "tables"}
    steps = [
        {"id": "a", "question": "Which penalty?", "specialist": "documents", "depends_on": []},
        {"id": "b", "question": "How many?", "specialist": "sql", "depends_on": []},
        {"id": "c", "question": "Which law?", "specialist": "web", "depends_on": []},
    ]
    async with world(tmp_path, specialist_model_name="small", **names) as it:
        it.model.replies = [saying(json.dumps({"steps": steps})), *[saying("I found nothing.")] * 8]
        await it.ask(strategy="plan")
        asked = {one["messages"][-1]["content"]: one["model"] for one in it.model.requests}
    assert [asked[step["question"]] for step in steps] == ["papers", "tables", "small"]
    assert it.model.requests[0]["model"] == it.model.requests[-1]["model"] == "llama"
