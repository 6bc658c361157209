"""The admin API: keys are made, changed, rotated and revoked, limits replaced, and each admin stays at home."""

import asyncio
import json
import logging
import time
import uuid
from datetime import UTC, datetime, timedelta

import pytest
import pytest_asyncio
from typer.testing import CliRunner

from services.cli.main import app
from services.gateway.access.store import MemoryAccessStore, StoreLost
from tests.integration.gateway_stack import gateway_stack, key_of

# One gateway for all: starting it takes longer than most tests. Each test makes keys of its own.
pytestmark = pytest.mark.asyncio(loop_scope="module")
CHIEF = ("demo", "chief")


class Losable(MemoryAccessStore):
    """Can be lost."""

    lost = False

    async def changes(self, since):
        if self.lost:
            raise StoreLost("test")
        return await super().changes(since)

    async def write(self, *arguments, **options):
        if self.lost:
            raise StoreLost("test")
        return await super().write(*arguments, **options)


class Desk:
    """Calls the admin API as `chief` of the tenant `demo`."""

    def __init__(self, stack, store, folder):
        self.stack, self.store, self.folder = stack, store, folder

    async def call(self, method, path, body=None, *, status=200, who=CHIEF):
        answer = await self.stack.http.request(method, f"/v1/admin{path}", json=body, headers=self.stack.headers(*who))
        assert answer.status_code == status, answer.text
        assert answer.headers["x-request-id"]
        return answer.json() if status < 400 else answer.json()["error"]

    async def get(self, key, path="/v1/usage"):
        return await self.stack.http.get(path, headers={"authorization": f"Bearer {key}"})

    async def opens(self, key):
        return (await self.get(key)).status_code == 200


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def desk(tmp_path_factory):
    folder, store = tmp_path_factory.mktemp("tenants"), Losable()
    async with gateway_stack(folder, folder, access=store, admin_tenant="demo") as stack:
        yield Desk(stack, store, folder)


@pytest_asyncio.fixture(loop_scope="module")
async def home(tmp_path):
    """As `desk`, where no tenant's admins manage all."""
    async with gateway_stack(tmp_path, tmp_path) as stack:
        yield Desk(stack, None, tmp_path)


@pytest.fixture
def new():
    """A name for a key that no other test uses."""
    return f"ci-{uuid.uuid4().hex[:12]}"


def in_hours(hours):
    return (datetime.now(UTC) + timedelta(hours=hours)).isoformat()


async def test_a_key_is_shown_once_and_opens_what_was_asked_for(desk, new):
    asked = {
        "id": new,
        "description": "builds",
        "scopes": ["search"],
        "models": ["mini*"],
        "labels": ["hr"],
        "limits": {"requests_per_minute": 50},
        "expires_at": in_hours(1),
    }
    made = await desk.call("POST", "/keys/demo", asked, status=201)
    key = made.pop("key")
    assert key.startswith(made["secrets"][0]["prefix"] + "-")
    assert (made["source"], made["state"], made["created_by"]) == ("issued", "active", "demo/chief")
    usage = (await desk.get(key)).json()
    assert (usage["key"], usage["scopes"]) == (new, ["search"])
    assert usage["key_limits"]["requests_per_minute"]["limit"] == 50
    assert (await desk.get(key, "/v1/documents")).status_code == 403
    assert await desk.call("GET", f"/keys/demo/{new}") == made
    listed = (await desk.call("GET", "/keys/demo"))["data"]
    assert made in listed
    assert {one["id"]: one["source"] for one in listed}["chief"] == "file"
    assert key not in json.dumps(listed)
    assert "sha256" not in json.dumps(listed)


async def test_what_is_wrong_with_a_key_is_named(desk, new):
    async def refusal(body, status=400):
        return await desk.call("POST", "/keys/demo", body, status=status)

    wrong = {
        "id": {"id": "Not A Name"},
        "scopes.0": {"scopes": ["everything"]},
        "scopes": {"scopes": []},
        "models.0": {"models": [""]},
        "labels.0": {"labels": ["\n"]},
        "limits.requests_per_minute": {"limits": {"requests_per_minute": -1}},
        "limits.tokens_per_minute": {"limits": {"tokens_per_minute": 10**13}},
        "limits.per_second": {"limits": {"per_second": 1}},
        "expires_at": {"expires_at": "2030-01-01T00:00:00"},
        "colour": {"colour": "red"},
    }
    for param, fields in wrong.items():
        error = await refusal({"id": new, **fields})
        assert (error["code"], error["param"]) == ("invalid_field", param)
    past = await refusal({"id": new, "expires_at": in_hours(-1)})
    assert past["param"] == "expires_at"
    assert (await desk.call("POST", "/keys/demo", {}, status=400))["param"] == "id"
    other = await desk.call("POST", "/keys/narrow", {"id": new, "models": ["big-1"]}, status=400)
    assert other["param"] == "models"
    taken = await refusal({"id": "chief"}, 409)
    assert (taken["code"], taken["param"]) == ("already_exists", "id")
    await desk.call("POST", "/keys/demo", {"id": new}, status=201)
    assert (await refusal({"id": new}, 409))["code"] == "already_exists"


async def test_a_key_that_was_made_here_can_be_changed(desk, new):
    key = (await desk.call("POST", "/keys/demo", {"id": new, "labels": ["hr"]}, status=201))["key"]
    changes = {"scopes": ["search"], "limits": {"daily_tokens": 9}, "expires_at": in_hours(1)}
    changed = await desk.call("PATCH", f"/keys/demo/{new}", changes)
    assert (changed["scopes"], changed["labels"]) == (["search"], ["hr"])
    assert changed["limits"]["daily_tokens"] == 9
    assert (await desk.get(key)).json()["scopes"] == ["search"]
    assert (await desk.call("PATCH", f"/keys/demo/{new}", {"expires_at": None}))["expires_at"] is None
    assert (await desk.call("PATCH", f"/keys/demo/{new}", {"scopes": None}, status=400))["param"] == "scopes"
    expired = await desk.call("PATCH", f"/keys/demo/{new}", {"expires_at": in_hours(-1)})
    assert expired["state"] == "expired"
    assert "expired" in (await desk.get(key)).json()["error"]["message"]
    await desk.call("POST", f"/keys/demo/{new}/rotate", {}, status=409)
    declared = await desk.call("PATCH", "/keys/demo/chief", {"scopes": ["search"]}, status=409)
    assert declared["code"] == "declared_in_file"
    await desk.call("PATCH", "/keys/demo/nobody", {"scopes": ["search"]}, status=404)


@pytest.mark.parametrize("declared", [False, True])
async def test_rotation_leaves_the_old_secret_for_a_while_and_names_both(desk, new, declared):
    key_id = "reader" if declared else new
    if not declared:
        old = (await desk.call("POST", "/keys/demo", {"id": new}, status=201))["key"]
    else:
        old = key_of("demo", "reader")
    rotated = await desk.call("POST", f"/keys/demo/{key_id}/rotate", {"overlap_seconds": 3600})
    new = rotated.pop("key")
    assert new != old
    assert await desk.opens(old)
    assert await desk.opens(new)
    assert (await desk.get(old)).json()["scopes"] == (await desk.get(new)).json()["scopes"]
    assert [one["state"] for one in rotated["secrets"]] == ["active", "active"]
    ends = datetime.fromisoformat(rotated["secrets"][0]["expires_at"]).timestamp()
    assert 3000 < ends - time.time() <= 3600
    assert rotated["secrets"][1]["expires_at"] is None
    shown = next(one for one in (await desk.call("GET", "/keys/demo"))["data"] if one["id"] == key_id)
    assert shown == rotated
    newest = await desk.call("POST", f"/keys/demo/{key_id}/rotate", {"overlap_seconds": 0})
    assert not await desk.opens(old)
    assert not await desk.opens(new)
    assert await desk.opens(newest["key"])
    assert newest["state"] == "active"


@pytest.mark.parametrize("declared", [False, True])
async def test_a_revoked_key_opens_nothing_from_then_on(desk, new, declared):
    key_id = "hr" if declared else new
    if not declared:
        key = (await desk.call("POST", "/keys/demo", {"id": new}, status=201))["key"]
    else:
        key = key_of("demo", "hr")
    second = (await desk.call("POST", f"/keys/demo/{key_id}/rotate", {}))["key"]
    revoked = await desk.call("DELETE", f"/keys/demo/{key_id}")
    assert revoked["state"] == "revoked"
    assert revoked["revoked_at"]
    assert {one["state"] for one in revoked["secrets"]} == {"revoked"}
    for secret in (key, second):
        refused = await desk.get(secret)
        assert refused.status_code == 401
        assert "revoked" in refused.json()["error"]["message"]
    assert (await desk.call("DELETE", f"/keys/demo/{key_id}"))["revoked_at"] == revoked["revoked_at"]
    assert (await desk.call("POST", f"/keys/demo/{key_id}/rotate", {}, status=409))["code"] == "key_revoked"
    await desk.call("DELETE", "/keys/demo/nobody", status=404)


async def test_only_so_many_secrets_of_a_key_work_at_once(desk, new):
    await desk.call("POST", "/keys/demo", {"id": new}, status=201)
    for _ in range(3):
        await desk.call("POST", f"/keys/demo/{new}/rotate", {"overlap_seconds": 100})
    error = await desk.call("POST", f"/keys/demo/{new}/rotate", {"overlap_seconds": 100}, status=409)
    assert error["code"] == "too_many_secrets"
    for overlap in (-1, 10**9, "soon"):
        refused = await desk.call("POST", f"/keys/demo/{new}/rotate", {"overlap_seconds": overlap}, status=400)
        assert refused["param"] == "overlap_seconds"


async def test_keys_come_in_pages(desk):
    for n in range(5):
        await desk.call("POST", "/keys/sixty", {"id": f"k{n}"}, status=201)
    ids, after = [], ""
    while after is not None:
        page = await desk.call("GET", f"/keys/sixty?limit=2&after={after}")
        assert len(page["data"]) <= 2
        ids += [one["id"] for one in page["data"]]
        after = page["after"]
    assert ids == ["all", "k0", "k1", "k2", "k3", "k4"]


async def test_limits_are_replaced_until_they_are_cleared(desk):
    before = await desk.call("GET", "/limits/sixty")
    assert before["override"] is None
    assert before["declared"] == before["effective"]
    asked = {"requests_per_minute": 5, "models": {"mini-1": {"daily_tokens": 7}}, "expires_at": in_hours(1)}
    put = await desk.call("PUT", "/limits/sixty", asked)
    assert put["effective"]["requests_per_minute"] == 5
    assert put["effective"]["models"]["mini-1"]["daily_tokens"] == 7
    assert put["effective"]["concurrent_requests"] == put["declared"]["concurrent_requests"]
    assert (put["declared"]["requests_per_minute"], put["override"]["set_by"]) == (60, "demo/chief")
    assert (await desk.get(key_of("sixty"))).headers["x-ratelimit-limit-requests"] == "5"
    await desk.call("PUT", "/limits/sixty/all", {"requests_per_minute": 3})
    shown = await desk.call("GET", "/limits/sixty/all")
    assert (shown["declared"]["requests_per_minute"], shown["effective"]["requests_per_minute"]) == (0, 3)
    assert (await desk.call("GET", "/limits/sixty"))["keys_with_overrides"] == ["all"]
    assert (await desk.get(key_of("sixty"))).headers["x-ratelimit-limit-requests"] == "3"
    await desk.call("DELETE", "/limits/sixty/all")
    cleared = await desk.call("DELETE", "/limits/sixty")
    assert cleared == before
    assert (await desk.get(key_of("sixty"))).headers["x-ratelimit-limit-requests"] == "60"
    assert (await desk.call("GET", "/keys/sixty/all"))["limits"]["requests_per_minute"] == 0


async def test_what_is_wrong_with_limits_is_named(desk):
    for path, body, param in [
        ("/limits/sixty", {}, None),
        ("/limits/sixty", {"requests_per_minute": -1}, "requests_per_minute"),
        ("/limits/sixty", {"requests_per_second": 1}, "requests_per_second"),
        ("/limits/sixty", {"requests_per_minute": 1, "expires_at": in_hours(-1)}, "expires_at"),
        ("/limits/narrow", {"models": {"big-1": {"daily_tokens": 1}}}, "models"),
        ("/limits/sixty/all", {"body_bytes": 7}, "body_bytes"),
        ("/limits/sixty/all", {"models": {"mini-1": {}}}, "models"),
    ]:
        error = await desk.call("PUT", path, body, status=400)
        assert (error["code"], error["param"]) == ("invalid_field", param)
    for method in ("GET", "PUT", "DELETE"):
        body = {"requests_per_minute": 1} if method == "PUT" else None
        await desk.call(method, "/limits/sixty/nobody", body, status=404)


async def test_usage_of_a_tenant_is_shown_without_using_any(desk):
    # One a minute: none comes back while the test runs.
    await desk.call("PUT", "/limits/small", {"requests_per_minute": 1})
    await desk.get(key_of("small"))
    for _ in range(2):
        used = (await desk.call("GET", "/usage/small"))["requests_per_minute"]
        assert (used["limit"], used["used"], used["remaining"]) == (1, 1, 0)
    assert (await desk.call("GET", "/usage/small/all"))["key"] == "all"
    await desk.call("GET", "/usage/small/nobody", status=404)


async def test_tenants_are_shown_without_secrets_and_with_what_is_wrong_with_their_files(desk):
    listed = await desk.call("GET", "/tenants")
    assert [one["id"] for one in listed["data"]] == ["demo", "narrow", "single", "sixty", "small"]
    assert listed["files"]["valid"]
    shown = await desk.call("GET", "/tenants/demo")
    assert [one["id"] for one in shown["keys"]] == ["all", "reader", "hr", "loader", "asker", "chief"]
    text = json.dumps(shown)
    assert "sha256" not in text
    assert "dsn_secret" not in text
    (desk.folder / "bad.yaml").write_text("id: Bad Name\n")
    files = (await desk.call("GET", "/tenants"))["files"]
    (desk.folder / "bad.yaml").unlink()
    assert not files["valid"]
    assert "bad.yaml: id:" in files["reason"]
    await desk.call("GET", "/tenants/nobody", status=404)


async def test_admins_manage_their_own_tenant_and_no_other(home, new):
    """Whether another tenant exists is none of their business."""
    assert [one["id"] for one in (await home.call("GET", "/tenants"))["data"]] == ["demo"]
    assert (await home.call("GET", "/tenants"))["files"] is None
    for tenant in ("sixty", "nobody"):
        for method, path, body in [
            ("GET", f"/tenants/{tenant}", None),
            ("GET", f"/keys/{tenant}", None),
            ("POST", f"/keys/{tenant}", {"id": new}),
            ("GET", f"/keys/{tenant}/all", None),
            ("PATCH", f"/keys/{tenant}/all", {"scopes": ["search"]}),
            ("DELETE", f"/keys/{tenant}/all", None),
            ("POST", f"/keys/{tenant}/all/rotate", {}),
            ("GET", f"/limits/{tenant}", None),
            ("PUT", f"/limits/{tenant}", {"requests_per_minute": 0}),
            ("DELETE", f"/limits/{tenant}/all", None),
            ("GET", f"/usage/{tenant}", None),
        ]:
            error = await home.call(method, path, body, status=403)
            assert (error["code"], tenant in error["message"]) == ("not_permitted", False)
    await home.call("POST", "/keys/demo", {"id": new, "scopes": ["admin"]}, status=201)
    await home.call("PUT", "/limits/demo/reader", {"requests_per_minute": 5})
    own = await home.call("PUT", "/limits/demo", {"requests_per_minute": 0}, status=403)
    assert own["code"] == "not_permitted"
    await home.call("DELETE", "/limits/demo", status=403)


async def test_without_the_scope_nothing_of_it_is_open(desk):
    for who in (("demo", "all"), ("demo", "loader"), ("sixty", "all")):
        for method, path in [("GET", "/tenants"), ("GET", "/keys/demo"), ("DELETE", "/keys/demo/all")]:
            assert (await desk.call(method, path, status=403, who=who))["code"] == "insufficient_scope"
    assert (await desk.stack.http.get("/v1/admin/tenants")).status_code == 401


async def test_while_the_store_is_lost_nothing_is_changed_and_keys_go_on(desk, new):
    key = (await desk.call("POST", "/keys/demo", {"id": new}, status=201))["key"]
    desk.store.lost = True
    for method, path, body in [
        ("GET", "/keys/demo", None),
        ("POST", "/keys/demo", {"id": "other"}),
        ("DELETE", f"/keys/demo/{new}", None),
        ("PUT", "/limits/demo", {"requests_per_minute": 5}),
    ]:
        assert (await desk.call(method, path, body, status=503))["code"] == "access_store_unavailable"
    assert await desk.opens(key)
    desk.store.lost = False
    await desk.call("DELETE", f"/keys/demo/{new}")
    assert not await desk.opens(key)


async def test_every_change_is_in_the_audit_log_and_no_secret_is(desk, new, caplog):
    with caplog.at_level(logging.DEBUG):
        secrets = [(await desk.call("POST", "/keys/demo", {"id": new}, status=201))["key"]]
        await desk.call("PATCH", f"/keys/demo/{new}", {"limits": {"daily_tokens": 1}})
        secrets.append((await desk.call("POST", f"/keys/demo/{new}/rotate", {"overlap_seconds": 5}))["key"])
        await desk.call("DELETE", f"/keys/demo/{new}")
        await desk.call("PUT", "/limits/sixty", {"requests_per_minute": 5})
        await desk.call("DELETE", "/limits/sixty")
    records = [record for record in caplog.records if record.name == "sabueso.audit"]
    assert [(one.action, one.admin, one.tenant) for one in records] == [
        ("key.create", "demo/chief", "demo"),
        ("key.update", "demo/chief", "demo"),
        ("key.rotate", "demo/chief", "demo"),
        ("key.revoke", "demo/chief", "demo"),
        ("limits.set", "demo/chief", "sixty"),
        ("limits.clear", "demo/chief", "sixty"),
    ]
    assert records[0].prefix in secrets[0]
    written = "\n".join(str(record.__dict__) for record in caplog.records)
    for secret in secrets:
        assert secret.split("-", 3)[3] not in written


async def test_answers_with_a_secret_are_kept_by_no_cache(desk, new):
    answer = await desk.stack.http.post("/v1/admin/keys/demo", json={"id": new}, headers=desk.stack.headers(*CHIEF))
    assert answer.headers["cache-control"] == "no-store"


async def test_the_commands_speak_to_a_real_gateway(desk, new):
    def sabueso(*words, who=CHIEF):
        environment = {"SABUESO_URL": desk.stack.url, "SABUESO_API_KEY": key_of(*who)}
        return CliRunner().invoke(app, [*words, "--json"], env=environment)

    async def run(*words):
        done = await asyncio.to_thread(sabueso, *words)
        assert done.exit_code == 0, done.output or done.exception
        return json.loads(done.stdout)

    made = await run("keys", "create", new, "-t", "sixty", "--scope", "search", "--expires-in", "1h")
    assert await desk.opens(made["key"])
    rotated = await run("keys", "rotate", new, "-t", "sixty", "--overlap", "0s")
    assert not await desk.opens(made["key"])
    assert await desk.opens(rotated["key"])
    assert new in [key["id"] for key in (await run("keys", "list", "-t", "sixty"))["data"]]
    put = await run("limits", "set", "-t", "sixty", "-k", new, "--daily-tokens", "5", "--expires-in", "1d")
    assert put["effective"]["daily_tokens"] == 5
    assert (await run("limits", "show", "-t", "sixty"))["keys_with_overrides"] == [new]
    assert (await run("limits", "clear", "-t", "sixty", "-k", new))["override"] is None
    await run("keys", "revoke", new, "-t", "sixty", "--yes")
    assert not await desk.opens(rotated["key"])
    assert "demo" in [tenant["id"] for tenant in (await run("tenants", "list"))["data"]]
    assert (await run("tenants", "show"))["id"] == "demo"
    refused = await asyncio.to_thread(sabueso, "keys", "list", who=("sixty", "all"))
    assert refused.exit_code == 1
