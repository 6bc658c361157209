"""`sabueso doctor` on a real gateway: it reads every answer as the gateway gives it."""

import asyncio

import pytest
import pytest_asyncio

from services.cli.config import Settings
from services.cli.doctor.command import Scope, examine
from services.gateway.app import WEB
from tests.integration.gateway_stack import gateway_stack, key_of


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(tmp_path_factory):
    async with gateway_stack(tmp_path_factory.mktemp("tenants"), WEB) as stack:
        yield stack


async def looked(gateway, key="all", **scope):
    settings = Settings(url=gateway.url, api_key=key_of("demo", key), ca_file="")
    return await asyncio.to_thread(lambda: list(examine(settings, Scope(**scope))))


def said(found, check):
    return [one.what for one in found if one.check == check]


@pytest.mark.asyncio(loop_scope="module")
async def test_every_answer_of_a_gateway_is_read(gateway):
    await gateway.http.put("/v1/collections/travel", json={"description": "Trips."}, headers=gateway.headers())
    found = await looked(gateway)
    assert not [one for one in found if "cannot be read" in one.what or "cannot be looked at" in one.what], found
    assert [one.what for one in found if one.status == "error"] == []
    assert len([what for what in said(found, "services") if what.endswith("serves")]) == 7
    assert said(found, "embedding") == ["`small@1` gives vectors of 3 values"]
    assert said(found, "documents") == ["there is no document that this key may read"]
    assert said(found, "agent") == ["an answer went without reranking: timeout", "answers (react, answered)"]
    assert said(found, "version")[0].endswith("here and there")


@pytest.mark.asyncio(loop_scope="module")
async def test_a_key_with_few_scopes_limits_the_look_and_is_no_error(gateway):
    found = await looked(gateway, "reader")
    assert [one.status for one in found if one.check == "key"] == ["ok", "warning"]
    assert said(found, "agent") == said(found, "models")[1:] == []


@pytest.mark.asyncio(loop_scope="module")
async def test_a_lost_service_is_named(gateway):
    gateway.readiness.draining = True
    try:
        found = await looked(gateway, quick=True)
    finally:
        gateway.readiness.draining = False
    assert "this replica is draining" in said(found, "gateway")


@pytest.mark.asyncio(loop_scope="module")
async def test_a_wrong_key_ends_the_look_behind_it(gateway):
    settings = Settings(url=gateway.url, api_key="sk-nobody", ca_file="")
    found = await asyncio.to_thread(lambda: list(examine(settings, Scope())))
    assert [(one.check, one.status) for one in found][-1] == ("key", "error")
