"""POST and GET /v1/feedback on the answers of the agent."""

import json

import pytest
import pytest_asyncio

from tests.integration.gateway_stack import gateway_stack

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stack(tmp_path_factory):
    async with gateway_stack(tmp_path_factory.mktemp("tenants"), tmp_path_factory.mktemp("web")) as stack:
        yield stack


@pytest_asyncio.fixture(loop_scope="module")
async def answer_id(stack):
    return (await stack.ask("¿Cuántos contratos?")).json()["sabueso"]["answer_id"]


async def post(stack, tenant="demo", key="all", **body):
    return await stack.http.post("/v1/feedback", json=body, headers=stack.headers(tenant, key))


async def test_a_thumb_and_a_comment_are_kept(stack, answer_id):
    said = {"comment": "Exact.", "tags": ["clear", "clear"], "metadata": {"case": "7"}, "user": "ana"}
    response = await post(stack, answer_id=answer_id, rating="up", **said)
    assert response.status_code == 201
    kept = response.json()
    assert (kept["object"], kept["score"], kept["rating"], kept["comment"]) == ("feedback", 1.0, "up", "Exact.")
    assert (kept["tags"], kept["metadata"], kept["user"], kept["key"]) == (["clear"], {"case": "7"}, "ana", "all")
    assert (kept["answer"]["strategy"], kept["answer"]["finish"]) == ("react", "answered")


@pytest.mark.parametrize(("path", "field"), [("chat/completions", "messages"), ("responses", "input")])
@pytest.mark.parametrize("stream", [False, True])
async def test_answers_of_every_form_can_be_judged(stack, path, field, stream):
    id_ = f"ans-{field}-{stream}"
    assert (await post(stack, answer_id=id_, rating="up")).status_code == 404
    question = [{"role": "user", "content": f"call it {id_}"}]
    body = {"model": "sabueso", field: question, "stream": stream}
    assert id_ in (await stack.http.post(f"/v1/{path}", json=body, headers=stack.headers())).text
    assert (await post(stack, answer_id=id_, rating="up")).status_code == 201


async def test_another_tenants_answer_is_not_found(stack, answer_id):
    response = await post(stack, "sixty", answer_id=answer_id, rating="down")
    assert (response.status_code, response.json()["error"]["code"]) == (404, "not_found")


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, "body"),
        ({"rating": "up", "score": 1}, "body"),
        ({"rating": "sideways"}, "rating"),
        ({"score": 1.01}, "score"),
        ({"score": "NaN"}, "score"),
        ({"rating": "up", "comment": "x" * 4001}, "comment"),
        ({"rating": "up", "tags": [""]}, "tags.0"),
        ({"rating": "up", "answer_id": "a b"}, "answer_id"),
        ({"rating": "up", "labels": ["hr"]}, "labels"),
    ],
)
async def test_feedback_that_says_nothing_clear_is_refused_by_name(stack, answer_id, body, param):
    response = await post(stack, **{"answer_id": answer_id, **body})
    assert response.status_code == 400
    error = response.json()["error"]
    assert (error["code"], error["param"]) == ("invalid_field", None if param == "body" else param)


async def test_the_tenants_feedback_is_read_in_pages_or_as_lines(stack, answer_id):
    for number in range(3):
        await post(stack, answer_id=answer_id, score=number / 4, user=f"reader-{number}")
    page = (await stack.get("/v1/feedback?limit=2", key="chief")).json()
    assert (len(page["data"]), page["has_more"]) == (2, True)
    rest = (await stack.get(f"/v1/feedback?after={page['after']}&limit=1000", key="chief")).json()
    assert (rest["has_more"], rest["after"]) == (False, None)
    lines = await stack.get("/v1/feedback?format=jsonl", key="chief")
    assert lines.headers["content-type"].startswith("application/jsonl")
    assert [json.loads(line) for line in lines.text.splitlines()] == page["data"] + rest["data"]
    assert [one["user"] for one in rest["data"]][-3:] == ["reader-0", "reader-1", "reader-2"]


async def test_only_an_admin_reads_what_others_said(stack):
    response = await stack.get("/v1/feedback")
    assert (response.status_code, response.json()["error"]["code"]) == (403, "insufficient_scope")
    refused = await post(stack, key="reader", answer_id="ans-1", rating="up")
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "insufficient_scope")
    assert (await stack.get("/v1/feedback?after=x", key="chief")).status_code == 400
