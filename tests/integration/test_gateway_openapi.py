"""The description of the API against the API: generated requests, right and wrong ones, and what they are answered."""

import asyncio
import contextlib
import copy
import warnings
from collections import Counter

import pytest
import pytest_asyncio

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import schemathesis
    from schemathesis import GenerationMode
    from schemathesis.checks import not_a_server_error
    from schemathesis.specs.openapi.checks import (
        content_type_conformance,
        ignored_auth,
        response_headers_conformance,
        response_schema_conformance,
        status_code_conformance,
    )

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable

from tests.integration.gateway_stack import gateway_stack, key_of

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    # The gateway runs in the same process, and draws random numbers while requests are made up.
    pytest.mark.filterwarnings("ignore:Do not use the `random` module inside strategies"),
]

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
    response_headers_conformance,
    ignored_auth,
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stack(tmp_path_factory):
    async with gateway_stack(tmp_path_factory.mktemp("tenants"), tmp_path_factory.mktemp("web")) as stack:
        yield stack


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def document(stack):
    return (await stack.http.get("/openapi.json")).json()


def strict(document):
    """The description with every answer closed: what is not described may not be answered."""
    closed = copy.deepcopy(document)
    for schema in closed["components"]["schemas"].values():
        if "properties" in schema:
            schema.setdefault("additionalProperties", False)
    return closed


# Names of things that there are, so that not all is "not found".
KNOWN = {
    "document_id": "legal/contract:7",
    "name": "legal",
    "tenant": "demo",
    "key": "hr",
    "response_id": "resp_1",
    "conversation_id": "conv_1",
}
MODELS = {"/v1/embeddings": "small", "/v1/rerank": "length", "/v1/completions": "mini-1"}


def exercise(url, document, examples, mode):
    """Sends `examples` generated requests of `mode` to every operation. Returns the statuses of each."""
    statuses = {}
    for result in schemathesis.openapi.from_dict(document).get_all_operations():
        operation = result.ok()
        statuses[operation.label] = Counter()
        exercise_one(operation, url, examples, mode, statuses[operation.label])
    return statuses


def exercise_one(operation, url, examples, mode, statuses):
    path = operation.label.partition(" ")[2]
    by_key = {"GET /v1/feedback": "chief", "POST /v1/data-loads": "loader"}
    key = key_of("demo", "chief" if "/admin/" in path else by_key.get(operation.label, "all"))

    def named(case):
        known = KNOWN | ({"name": "mini-1"} if "models" in path else {})
        case.path_parameters.update({name: known[name] for name in case.path_parameters})
        if path in MODELS:
            case.body["model"] = MODELS[path]
        if operation.label == "POST /v1/feedback":
            case.body["answer_id"] = "ans-1"
        return case

    generated = operation.as_strategy(generation_mode=mode)
    right = mode is GenerationMode.POSITIVE

    @settings(
        max_examples=examples, database=None, derandomize=True, deadline=None, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(case=generated | generated.map(named) if right else generated)
    def send(case):
        headers = {"Authorization": f"Bearer {key}"}
        response = case.call_and_validate(base_url=url, headers=headers, checks=CHECKS, timeout=60)
        statuses[response.status_code] += 1

    with contextlib.suppress(Unsatisfiable):  # nothing can be wrong with a request that has no parameters
        send()


async def check(stack, document, examples, mode):
    await stack.ask("¿Cuántos contratos?", store=True)  # for feedback on it
    asked = {"model": "sabueso", "input": "¿Cuántos contratos?"}
    await stack.http.post("/v1/responses", json=asked, headers=stack.headers())  # to be read again, with its input
    stack.agent.kept |= {(*whose, "ans_1"): kept for (*whose, _), kept in stack.agent.kept.items()}
    await stack.http.put("/v1/collections/legal", json={}, headers=stack.headers())
    statuses = await asyncio.to_thread(exercise, stack.url, strict(document), examples, mode)
    assert len(statuses) > 35
    return statuses


@pytest.mark.slow
async def test_generated_requests_are_answered_as_described(stack, document):
    statuses = await check(stack, document, 4, GenerationMode.POSITIVE)
    unseen = [label for label, seen in statuses.items() if label.startswith("GET ") and 200 not in seen]
    assert unseen == []


@pytest.mark.slow
async def test_generated_wrong_requests_are_refused_as_described(stack, document):
    await check(stack, document, 3, GenerationMode.NEGATIVE)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("mode", list(GenerationMode))
async def test_many_generated_requests_are_answered_as_described(stack, document, mode):
    await check(stack, document, 25, mode)


# The description itself


def refs_of(node):
    if isinstance(node, dict):
        if isinstance(node.get("$ref"), str):
            yield node["$ref"]
        for value in node.values():
            yield from refs_of(value)
    elif isinstance(node, list):
        for value in node:
            yield from refs_of(value)


async def test_the_description_is_a_valid_one_and_every_reference_leads_somewhere(document):
    schemathesis.openapi.from_dict(document).validate()
    for ref in refs_of(document):
        node = document
        for part in ref.removeprefix("#/").split("/"):
            node = node[part]


async def test_every_address_is_described_with_its_answers_and_errors(document):
    for path, methods in document["paths"].items():
        for method, described in methods.items():
            name = f"{method} {path}"
            answers = described["responses"]
            assert described["summary"], name
            assert "422" not in answers, name
            (first,) = [status for status in answers if int(status) < 300]
            assert first == "204" or answers[first]["content"], name
            assert "x-request-id" in answers[first]["headers"], name
            if path.startswith("/v1/"):
                assert described["security"] == [{"key": []}], name
                assert {"400", "401", "403", "404", "413", "429", "500", "503"} <= set(answers), name
            if method in ("post", "put", "patch") and first != "204" and "{" not in path:
                assert described["requestBody"]["content"], name


async def test_a_request_of_the_agent_says_what_it_does_not_offer(document):
    schemas = document["components"]["schemas"]
    chat, response = schemas["AgentRequest"], schemas["ResponsesRequest"]
    assert chat["additionalProperties"] is response["additionalProperties"] is False
    assert chat["properties"]["tools"]["enum"] == [[], None]
    assert response["properties"]["background"]["enum"] == [False, None]
