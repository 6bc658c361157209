"""GET and DELETE /v1/responses/{id} with the stock client: what was stored is told again, to its caller alone."""

import openai
import pytest
import pytest_asyncio
from openai.types.responses import Response

from tests.integration.gateway_stack import events_of, gateway_stack, key_of

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stack(tmp_path_factory):
    async with gateway_stack(tmp_path_factory.mktemp("tenants"), tmp_path_factory.mktemp("web")) as stack:
        yield stack


@pytest_asyncio.fixture(loop_scope="module")
async def client(stack):
    async with openai.AsyncOpenAI(base_url=f"{stack.url}/v1", api_key=key_of("demo"), max_retries=0) as client:
        yield client


async def refused(asking):
    with pytest.raises(openai.NotFoundError) as error:
        await asking
    return error.value.body


def kept_of(told):
    """What of a response, an event or the extras can be told again: not how long the first reader waited."""
    if not isinstance(told, dict):
        return told
    return {name: kept_of(value) for name, value in told.items() if name != "gateway"}


async def test_a_response_is_told_again_to_the_last_field(client):
    asked = {"instructions": "Be brief.", "metadata": {"case": "7"}, "max_output_tokens": 500}
    first = await client.responses.create(model="sabueso", input="plan it", **asked)
    again = await client.responses.retrieve(first.id)
    assert isinstance(again, Response)
    assert again.to_dict() == kept_of(first.to_dict()) != first.to_dict()
    assert (again.instructions, again.metadata, again.store) == ("Be brief.", {"case": "7"}, True)


async def test_a_response_that_was_streamed_can_be_read_whole_and_streamed_again(client):
    extras = {"extra_body": {"sabueso": {"include_steps": True}}}
    created = client.responses.create(model="sabueso", input="plan it", stream=True, **extras)
    events = [kept_of(event.to_dict()) async for event in await created]
    response_id = events[0]["response"]["id"]
    assert (await client.responses.retrieve(response_id)).to_dict() == events[-1]["response"]
    again = await client.responses.retrieve(response_id, stream=True)
    assert [event.to_dict() async for event in again] == events
    known = events[4]["sequence_number"]
    rest = await client.responses.retrieve(response_id, stream=True, starting_after=known)
    assert [event.to_dict() async for event in rest] == events[5:]


async def test_what_a_response_was_asked_with_is_listed_page_by_page(client):
    turns = [{"role": "user", "content": "Hola"}, {"role": "assistant", "content": "Dígame."}]
    given = [*turns, {"role": "user", "content": "plan it"}]
    response = await client.responses.create(model="sabueso", input=given)
    found = await client.responses.input_items.list(response.id, order="asc")
    assert [(one.role, one.content[0].text) for one in found.data] == [(one["role"], one["content"]) for one in given]
    paged = [one.id async for one in client.responses.input_items.list(response.id, limit=1)]
    assert paged == [one.id for one in reversed(found.data)]
    body = await refused(client.responses.input_items.list("resp_nowhere"))
    assert body["code"] == "response_not_found"


async def test_the_input_of_a_chat_answer_is_not_kept_as_items(stack, client):
    told = (await stack.ask("¿Cuántos?", store=True)).json()
    gone = await refused(client.responses.input_items.list(told["id"].replace("chatcmpl-", "resp_")))
    assert gone["code"] == "input_not_kept"


async def test_a_stored_chat_answer_can_be_read_as_a_response(stack, client):
    told = (await stack.ask("¿Cuántos?", store=True)).json()
    response_id = told["id"].replace("chatcmpl-", "resp_")
    response = await client.responses.retrieve(response_id)
    assert response.output_text == told["choices"][0]["message"]["content"]
    assert (response.created_at, response.sabueso) == (told["created"], kept_of(told["sabueso"]))
    assert response.instructions is None


async def test_what_was_not_stored_is_not_found_in_openais_words(stack, client):
    response = await client.responses.create(model="sabueso", input="x", store=False)
    error = {"type": "invalid_request_error", "param": "response_id", "code": "response_not_found"}
    for asking, name in ((client.responses.retrieve, response.id), (client.responses.delete, "resp_nowhere")):
        problem = f"There is no response `{name}`: it was not stored, or is kept no more."
        assert await refused(asking(name)) == {"message": problem, **error}
    assert stack.agent.kept.keys() == {one for one in stack.agent.kept if one[2] != response.id}
    plain = (await stack.ask("¿Cuántos?")).json()
    await refused(client.responses.retrieve(plain["id"].replace("chatcmpl-", "resp_")))


async def test_another_key_or_tenant_does_not_see_it(stack, client):
    mine = (await client.responses.create(model="sabueso", input="x")).id
    for tenant, key in (("demo", "hr"), ("sixty", "all")):
        other = openai.AsyncOpenAI(base_url=f"{stack.url}/v1", api_key=key_of(tenant, key), max_retries=0)
        async with other:
            body = await refused(other.responses.retrieve(mine))
            assert body["code"] == "response_not_found"


async def test_an_id_that_is_none_is_refused_before_anybody_is_asked(stack, client):
    before = len(stack.agent.requests)
    with pytest.raises(openai.BadRequestError) as error:
        await client.responses.retrieve("a b")
    assert error.value.param == "response_id"
    assert len(stack.agent.requests) == before


@pytest.mark.parametrize("name", ["instructions", "user"])
async def test_what_is_too_long_to_be_noted_down_is_not_told_again(client, name):
    # In JSON a control character is six.
    told = {"metadata": {f"{n}": "\x01" * 512 for n in range(16)}, name: "\x01" * 20_000}
    long = await client.responses.create(model="sabueso", input="x", **told)
    again = await client.responses.retrieve(long.id)
    assert (getattr(again, name), again.output_text) == (None, long.output_text)
    assert again.metadata == told["metadata"]


async def test_where_to_go_on_is_a_number_and_may_be_beyond_the_end(stack, client):
    response = await client.responses.create(model="sabueso", input="x")
    path = f"/v1/responses/{response.id}?stream=true&starting_after="
    assert events_of((await stack.get(path + "100000")).text) == []
    for number in ("-2", "1.5", "x", ""):
        refusal = await stack.get(path + number)
        assert (refusal.status_code, refusal.json()["error"]["param"]) == (400, "starting_after"), number


async def test_a_stored_response_is_read_with_get_alone_and_by_who_may_ask(stack, client):
    response = await client.responses.create(model="sabueso", input="x")
    path, headers = f"/v1/responses/{response.id}", stack.headers()
    for method in ("HEAD", "PUT", "PATCH", "POST"):
        assert (await stack.http.request(method, path, headers=headers)).status_code == 405, method
    assert (await stack.get(path, key="reader")).status_code == 403
    assert (await stack.http.get(path)).status_code == 401
