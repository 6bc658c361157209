import pytest

from services.gateway.access.feed import Feed
from services.gateway.access.key_ring import REFUSED, KeyRing
from services.gateway.access.records import Override, Revocation
from services.gateway.errors import ApiError
from services.runtime import api_keys
from services.runtime.context import Identity
from services.runtime.identity import Signer
from services.runtime.tenants import SCOPES, Ceilings, TenantDirectory
from services.runtime.testing import SECRET, SIGNER
from tests.unit.gateway.access.records_made import (
    ISSUED,
    NOW,
    LosableStore,
    ManualClock,
    in_hours,
    issued,
    keep,
    secret,
    write_tenant,
)


@pytest.fixture
def tenants(tmp_path):
    write_tenant(tmp_path, "acme", "secret-a", "secret-b", "sk-of-a-file")
    return TenantDirectory(tmp_path)


@pytest.fixture
def store():
    return LosableStore()


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def feed(store):
    return Feed(store)


@pytest.fixture
def ring(tenants, feed, clock):
    return KeyRing(tenants, SIGNER, feed, clock=clock)


def request(key=None, path="/v1/models", query=b"", headers=()):
    sent = [(b"authorization", f"Bearer {key}".encode("latin-1"))] if key else []
    return {"type": "http", "path": path, "query_string": query, "headers": [*sent, *headers]}


async def refusal_of(ring, scope):
    with pytest.raises(ApiError) as caught:
        await ring.identify(scope)
    return caught.value


def test_a_key_names_its_tenant_and_signs_for_it(ring):
    caller = ring.owner_of("secret-b")
    assert caller.identity == Identity("acme", "k1", SCOPES)
    assert SIGNER.verify(caller.token) == caller.identity


@pytest.mark.parametrize("key", ["", "secret", "SECRET-A", "secret-a ", "ñ\udcff", ISSUED])
def test_another_key_belongs_to_nobody(ring, key):
    assert ring.owner_of(key) is None


def test_keys_follow_the_files(ring, tenants, tmp_path):
    assert ring.owner_of("secret-a")
    write_tenant(tmp_path, "acme", "secret-c", scopes=["search"])
    tenants.reload()
    assert ring.owner_of("secret-a") is None
    caller = ring.owner_of("secret-c")
    assert SIGNER.verify(caller.token).scopes == ("search",)
    caller.require("search")
    with pytest.raises(ApiError) as caught:
        caller.require("agent")
    assert caught.value.status_code == 403


class CountingSigner(Signer):
    signed = 0

    def sign(self, identity, ttl_seconds=900):
        self.signed += 1
        return super().sign(identity, ttl_seconds)


def test_a_clock_that_jumps_leaves_no_expired_identity_in_use(tenants, feed, clock):
    signer = CountingSigner(SECRET)
    ring = KeyRing(tenants, signer, feed, clock=clock)
    for _ in range(3):
        ring.owner_of("secret-a")
    assert signer.signed == 1
    clock.now += 1000  # a machine that slept: its monotonic clock stood still
    ring.owner_of("secret-a")
    assert signer.signed == 2
    clock.now -= 5000
    ring.owner_of("secret-a")
    assert signer.signed == 3


def test_a_signed_identity_speaks_for_a_tenant_that_exists(ring):
    assert ring.bearer_of(SIGNER.sign(Identity("acme"))).internal
    assert ring.bearer_of(SIGNER.sign(Identity("nobody"))) is None
    assert ring.bearer_of(SIGNER.sign(Identity("acme"), ttl_seconds=-1)) is None
    assert ring.bearer_of("secret-a") is None


async def test_a_signed_identity_opens_only_the_addresses_of_model_turns(ring):
    token = SIGNER.sign(Identity("acme", "k0"))
    assert (await ring.identify(request(token, "/v1/chat/completions"))).internal
    assert (await refusal_of(ring, request(token, "/v1/documents"))).status_code == 401


async def test_a_model_turn_counts_against_the_key_that_it_was_made_for(ring, tenants, tmp_path, store, feed):
    write_tenant(tmp_path, "acme", "secret-a", limits={}, models=["mini"])
    tenants.reload()
    await keep(
        store,
        issued(id="app", limits=Ceilings(daily_tokens=9)),
        ("acme/k0", Override(requests_per_minute=3)),
    )
    await feed.look()
    assert ring.bearer_of(SIGNER.sign(Identity("acme", "k0"))).key_limits == Ceilings(requests_per_minute=3)
    assert ring.bearer_of(SIGNER.sign(Identity("acme", "app"))).key_limits == Ceilings(daily_tokens=9)
    assert ring.bearer_of(SIGNER.sign(Identity("acme", "gone"))).key_limits == Ceilings()


async def test_an_expired_key_says_so_from_that_second_on(tenants, tmp_path, ring, clock):
    write_tenant(tmp_path, "acme", "secret-a", expires_at=in_hours(1).isoformat())
    tenants.reload()
    assert await ring.identify(request("secret-a"))
    clock.now = in_hours(1).timestamp()
    refusal = await refusal_of(ring, request("secret-a"))
    assert (refusal.status_code, refusal.code) == (401, "invalid_api_key")
    assert "expired" in refusal.detail
    assert "secret-a" not in refusal.detail


async def test_an_issued_key_is_found_at_its_first_use_without_waiting_for_the_next_look(ring, store, feed):
    await feed.look()
    await keep(store, issued(scopes=("search",), labels=("hr",), limits=Ceilings(concurrent_requests=2)))
    caller = await ring.identify(request(ISSUED))
    assert caller.identity == Identity("acme", "ci", ("search",), ("hr",))
    assert caller.key_limits.concurrent_requests == 2


async def test_an_issued_key_of_a_tenant_that_is_gone_opens_nothing(ring, store):
    await keep(store, issued(tenant="gone"))
    assert (await refusal_of(ring, request(ISSUED))).status_code == 401


async def test_a_revoked_key_opens_nothing_whether_of_a_file_or_issued(ring, store, feed, clock):
    await keep(
        store,
        issued(revoked_at=NOW),
        ("secret-a", Revocation(tenant="acme", key="k0", since=in_hours(1))),
    )
    await feed.look()
    refusal = await refusal_of(ring, request(ISSUED))
    assert (refusal.status_code, refusal.code) == (401, "invalid_api_key")
    assert "revoked" in refusal.detail
    assert ring.owner_of("secret-a")
    clock.now = in_hours(1).timestamp()
    assert "revoked" in (await refusal_of(ring, request("secret-a"))).detail
    assert ring.owner_of("secret-b")


async def test_both_secrets_open_a_key_until_the_overlap_ends(ring, store, clock):
    new = ISSUED[:-4] + "next"
    old_and_new = (secret(ISSUED, expires_at=in_hours(1)), secret(new))
    await keep(store, issued(secrets=old_and_new))
    assert (await ring.identify(request(ISSUED))).identity == (await ring.identify(request(new))).identity
    clock.now = in_hours(1).timestamp()
    assert (await refusal_of(ring, request(ISSUED))).status_code == 401
    assert await ring.identify(request(new))


async def test_a_further_secret_of_a_declared_key_opens_what_the_file_says_and_no_more(ring, store, tenants, tmp_path):
    await keep(store, issued(id="k0", declared=True, scopes=("admin",)))
    assert (await ring.identify(request(ISSUED))).identity.scopes == SCOPES
    write_tenant(tmp_path, "acme")
    tenants.reload()
    assert (await refusal_of(ring, request(ISSUED))).status_code == 401


async def test_overrides_hold_until_they_end(ring, store, feed, clock):
    await keep(
        store,
        ("acme", Override(requests_per_minute=7, models={"mini": Ceilings(daily_tokens=5)}, expires_at=in_hours(1))),
        ("acme/k0", Override(tokens_per_minute=70, expires_at=in_hours(2))),
    )
    await feed.look()
    caller = ring.owner_of("secret-a")
    assert (caller.tenant.limits.requests_per_minute, caller.tenant.limits.concurrent_requests) == (7, 32)
    assert caller.tenant.limits.models == {"mini": Ceilings(daily_tokens=5)}
    assert caller.key_limits == Ceilings(tokens_per_minute=70)
    assert ring.owner_of("secret-b").key_limits == Ceilings()
    clock.now = in_hours(1).timestamp()
    assert ring.owner_of("secret-a").tenant.limits.requests_per_minute == 600
    assert ring.owner_of("secret-a").key_limits == Ceilings(tokens_per_minute=70)
    clock.now = in_hours(2).timestamp()
    assert ring.owner_of("secret-a").key_limits == Ceilings()


async def test_while_keys_cannot_be_looked_up_an_unknown_one_may_be_valid(ring, store):
    store.lost = True
    refusal = await refusal_of(ring, request(ISSUED))
    assert (refusal.status_code, refusal.code) == (503, "keys_unavailable")
    assert refusal.headers["Retry-After"]
    assert await ring.identify(request("secret-a"))
    assert (await refusal_of(ring, request("sk-of-another-form"))).status_code == 401
    store.lost = False
    assert (await refusal_of(ring, request(ISSUED))).status_code == 401


async def test_what_was_known_stays_known_while_the_store_is_lost(ring, store, feed):
    revoked = ISSUED[:-4] + "gone"
    await keep(store, issued(), issued(id="old", secrets=(secret(revoked),), revoked_at=NOW))
    await feed.look()
    store.lost = True
    assert not await feed.look()
    assert await ring.identify(request(ISSUED))
    assert (await refusal_of(ring, request(revoked))).status_code == 401


async def test_known_keys_and_nonsense_cost_no_look_at_the_store(ring, store):
    await keep(store, issued())
    await ring.identify(request(ISSUED))
    asked = store.asked
    for key in (ISSUED, "secret-a"):
        await ring.identify(request(key))
    for key in ("nonsense", "sk-sabueso-", "Bearer x", "eyJ.a.b"):
        assert (await refusal_of(ring, request(key))).status_code == 401
    assert store.asked == asked


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [(b"authorization", b"Basic c2VjcmV0LWE=")],
        [(b"authorization", b"Bearer")],
        [(b"authorization", b"Bearer   ")],
        [(b"x-api-key", b"secret-a")],
        [(b"authorization", b"Bearer secret-a"), (b"authorization", b"Bearer secret-b")],
        [(b"authorization", b"Bearer " + b"a" * 20_000)],
        [(b"authorization", b"Bearer \xff\xfe")],
        [(b"authorization", b"Bearer secret-a secret-b")],
    ],
)
async def test_everything_else_is_a_401_that_says_how_to_send_a_key(ring, headers):
    refusal = await refusal_of(ring, request(headers=headers))
    assert (refusal.status_code, refusal.code) == (401, "invalid_api_key")
    assert refusal.headers == {"WWW-Authenticate": "Bearer"}


@pytest.mark.parametrize("scheme", ["bearer", "BEARER", "Bearer "])
async def test_the_scheme_is_read_as_http_says(ring, scheme):
    assert await ring.identify(request(headers=[(b"authorization", f"{scheme} secret-a".encode())]))


@pytest.mark.parametrize(
    ("path", "query"),
    [
        ("/v1/models", "api_key=secret-a"),
        ("/v1/models", "API_KEY=whatever"),
        ("/v1/models", "access_token=x&limit=1"),
        ("/v1/models", "after=secret-a"),
        ("/v1/models", f"x={ISSUED}"),
        ("/v1/models", f"x={ISSUED.replace('-', '%2d')}"),
        ("/v1/models", ISSUED),
        (f"/v1/models/{ISSUED}", ""),
        (f"/v1/documents/x-{ISSUED}/chunks", ""),
        ("/v1/documents/sk-of-a-file/chunks", ""),
    ],
)
async def test_a_key_in_the_url_is_refused_without_being_repeated(ring, path, query):
    refusal = await refusal_of(ring, request("secret-b", path, query.encode()))
    assert (refusal.status_code, refusal.code) == (400, "key_in_url")
    assert "secret-a" not in refusal.detail
    assert ISSUED[12:] not in refusal.detail


@pytest.mark.parametrize(
    "query", ["", "limit=10&after=legal%2Fcontract:7", "after=task-force-plan-2025", "%ff%00=&&=;"]
)
async def test_an_ordinary_query_is_none_of_our_business(ring, query):
    assert await ring.identify(request("secret-a", "/v1/documents/sk-bratislava-contract", query.encode()))


async def test_what_clients_claim_of_themselves_is_taken_out(ring):
    claims = [
        (b"x-tenant-id", b"other"),
        (b"x-priority", b"high"),
        (b"x-requests-limit", b"1000000"),
        (b"x-forwarded-for", b"10.0.0.1"),
        (b"x-sabueso-identity", b"eyJ"),
    ]
    kept = [(b"content-type", b"application/json"), (b"x-request-id", b"abcdefgh"), (b"x-session-id", b"s")]
    scope = request("secret-a", headers=[*claims, *kept])
    await ring.identify(scope)
    assert scope["headers"] == [(b"authorization", b"Bearer secret-a"), *kept]


def test_a_caller_may_call_what_both_its_tenant_and_its_key_name(tmp_path):
    write_tenant(tmp_path, "acme", "secret-a", models=["mini*", "large-2"])
    caller = KeyRing(TenantDirectory(tmp_path), SIGNER).owner_of("secret-a")
    assert [name for name in ("mini-1", "large-2", "large-1") if caller.may_call(name)] == ["mini-1", "large-2"]


async def test_a_caller_shows_no_token_when_it_is_printed(ring):
    caller = ring.owner_of("secret-a")
    assert caller.token not in repr(caller)


async def test_a_new_key_that_was_made_elsewhere_is_known_by_its_text(ring, store):
    new = api_keys.mint()
    await keep(store, issued(secrets=(secret(new.text),)))
    assert (await ring.identify(request(new.text))).identity.principal == "ci"


async def test_who_is_not_let_in_is_counted_by_reason(ring, store, feed):
    def counted(reason):
        return REFUSED.labels(reason).collect()[0].samples[0].value

    await keep(store, issued(revoked_at=NOW))
    before = {reason: counted(reason) for reason in ("missing", "unknown", "revoked", "key_in_url", "keys_unavailable")}
    for scope in (request(), request("nobody"), request(ISSUED), request("secret-a", query=b"key=x")):
        await refusal_of(ring, scope)
    store.lost = True
    await refusal_of(ring, request(ISSUED[:-4] + "none"))
    assert {reason: counted(reason) - count for reason, count in before.items()} == dict.fromkeys(before, 1)
