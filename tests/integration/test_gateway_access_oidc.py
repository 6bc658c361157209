"""Tokens of a real identity provider on loopback: who gets in with one, and who does not."""

import asyncio
import hmac
import json
import time
from contextlib import asynccontextmanager

import jwt
import pytest
import pytest_asyncio
from cryptography.hazmat.primitives import serialization
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.responses import JSONResponse, RedirectResponse, Response

from services.gateway.access.jwks import ProviderHttp
from services.gateway.access.key_ring import KeyRing
from services.gateway.access.oidc import TokenVerifier, entry_of
from services.gateway.errors import ApiError
from services.runtime.context import Identity
from services.runtime.tenants import SCOPES, Ceilings, TenantDirectory
from services.runtime.testing import SIGNER
from tests.integration.oidc_provider import EC, ED, RSA, WEAK_RSA, forged, jwk_of, provider_on_loopback
from tests.unit.gateway.access.records_made import ManualClock, write_tenant

# One provider for all: starting and ending a server takes longer than most tests.
pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def only_provider():
    async with provider_on_loopback() as provider:
        yield provider


@pytest.fixture
def provider(only_provider):
    only_provider.begin_anew()
    return only_provider


class Gate:
    """A key ring that believes tokens, and the clocks that it reads."""

    def __init__(self, folder, http):
        self.tenants = TenantDirectory(folder)
        self.clock, self.elapsed = ManualClock(time.time()), ManualClock(0.0)
        verifier = TokenVerifier(self.tenants, http, self.clock, self.elapsed)
        self._ring = KeyRing(self.tenants, SIGNER, tokens=verifier, clock=self.clock)

    async def open(self, token, path="/v1/models"):
        headers = [(b"authorization", b"Bearer " + token.encode("latin-1"))]
        return await self._ring.identify({"path": path, "query_string": b"", "headers": headers})

    def bearer_of(self, token):
        return self._ring.bearer_of(token)

    async def refuses(self, token, status=401):
        with pytest.raises(ApiError) as caught:
            await self.open(token)
        assert caught.value.status_code == status, caught.value.detail
        return caught.value


@pytest.fixture
def gate_with(tmp_path):
    """Makes a gate whose tenant has the given entries."""

    @asynccontextmanager
    async def make(*entries, **more):
        write_tenant(tmp_path, "acme", oidc=entries)
        for tenant, entry in more.items():
            write_tenant(tmp_path, tenant, oidc=[entry])
        http = ProviderHttp()
        try:
            yield Gate(tmp_path, http)
        finally:
            await http.close()

    return make


async def test_a_token_opens_the_tenant_that_its_claim_names(provider, gate_with):
    async with gate_with(provider.entry(limits={"tokens_per_minute": 50}, models=["mini*"])) as gate:
        caller = await gate.open(provider.token())
        assert caller.tenant.id == "acme"
        assert (caller.identity.scopes, caller.identity.labels) == (SCOPES, ())
        assert caller.key_limits == Ceilings(tokens_per_minute=50)
        assert caller.may_call("mini-1")
        assert not caller.may_call("large")
        assert caller.identity.principal.startswith("oidc:")
        assert "ana" not in caller.identity.principal
        assert SIGNER.verify(caller.token) == caller.identity
        assert entry_of(caller.identity.principal, gate.tenants.get("acme").oidc).audience == "sabueso"
        # A model turn of an answer counts against the same person.
        assert gate.bearer_of(caller.token).key_limits == Ceilings(tokens_per_minute=50)


async def test_the_same_person_is_the_same_principal_and_another_is_not(provider, gate_with):
    async with gate_with(provider.entry()) as gate:
        ana, again = await gate.open(provider.token()), await gate.open(provider.token(jti="2"))
        other = await gate.open(provider.token(sub="eva@acme.example"))
    assert ana.identity == again.identity
    assert ana.identity.principal != other.identity.principal


async def test_scopes_and_labels_come_from_claims_and_never_exceed_the_entry(provider, gate_with):
    entry = provider.entry(scope_claim="scp", scopes=["agent", "search"], labels_claim="realm_access.roles")
    async with gate_with(entry) as gate:
        roles = {"realm_access": {"roles": ["hr", "*", "staff", "", 7, "hr", "bad\nlabel"]}}
        caller = await gate.open(provider.token(scp="search admin documents", **roles))
        assert caller.identity.scopes == ("search",)
        assert caller.identity.labels == ("hr", "staff")
        assert (await gate.open(provider.token(scp=["agent", "search", 1]))).identity.scopes == ("agent", "search")
        assert (await gate.open(provider.token(scp=None))).identity.scopes == ()
        assert (await gate.open(provider.token(scp={"agent": True}))).identity.scopes == ()


async def test_every_algorithm_that_the_entry_names_is_checked(provider, gate_with):
    pairs = [(RSA[0], "RS256"), (RSA[0], "PS256"), (EC, "ES256"), (ED, "EdDSA"), (RSA[0], "RS512")]
    for private, algorithm in pairs:
        provider.jwks = {"keys": [jwk_of(private, "one")]}
        async with gate_with(provider.entry(algorithms=[algorithm])) as gate:
            assert await gate.open(provider.token(private, algorithm=algorithm))
            if algorithm != "RS256":
                await gate.refuses(provider.token())


WRONG_CLAIMS = [
    {"iss": "https://elsewhere.example"},
    {"iss": None},
    {"iss": ["a"]},
    {"aud": "other"},
    {"aud": None},
    {"aud": ["other", "another"]},
    {"exp": None},
    {"exp": "soon"},
    {"exp": int(time.time()) - 3600},
    {"nbf": int(time.time()) + 3600},
    {"iat": int(time.time()) + 3600},
    {"sub": None},
    {"sub": ""},
    {"sub": 7},
    {"tenant": "other"},
    {"tenant": None},
    {"tenant": {"acme": 1}},
    {"tenant": ["other"]},
]


async def test_a_claim_that_does_not_hold_opens_nothing(provider, gate_with):
    async with gate_with(provider.entry()) as gate:
        for claims in WRONG_CLAIMS:
            assert (await gate.refuses(provider.token(**claims))).code == "invalid_api_key", claims
        assert await gate.open(provider.token())


async def test_clocks_may_differ_by_half_a_minute(provider, gate_with):
    now = int(time.time())
    async with gate_with(provider.entry()) as gate:
        assert await gate.open(provider.token(exp=now - 5))
        assert await gate.open(provider.token(nbf=now + 20))
        assert await gate.open(provider.token(aud=["other", "sabueso"], tenant=["other", "acme"]))


async def test_a_token_that_was_let_in_is_not_when_it_has_expired(provider, gate_with):
    async with gate_with(provider.entry()) as gate:
        token = provider.token()
        assert await gate.open(token)
        gate.clock.now += 629
        assert await gate.open(token)
        gate.clock.now += 2
        assert "expired" in (await gate.refuses(token)).detail


async def test_no_algorithm_is_taken_from_the_token_that_the_key_is_not_for(provider, gate_with):
    public = json.dumps(provider.jwks["keys"][0]).encode()
    pem = RSA[0].public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    async with gate_with(provider.entry(algorithms=["RS256", "ES256"])) as gate:
        claims = provider.claims()
        await gate.refuses(forged({"alg": "none", "kid": "one"}, claims))
        await gate.refuses(forged({"alg": "None", "kid": "one"}, claims))
        await gate.refuses(forged({"kid": "one"}, claims))
        for secret in (pem, public, b""):
            unsigned = forged({"alg": "HS256", "kid": "one"}, claims).rstrip(".")
            signature = hmac.digest(secret, unsigned.encode(), "sha256")
            await gate.refuses(forged({"alg": "HS256", "kid": "one"}, claims, signature))
        await gate.refuses(provider.token(RSA[1]))  # another's key under the known id
        await gate.refuses(provider.token(EC, algorithm="ES256"))
        own_key = {"jwk": jwk_of(RSA[1], "one"), "jku": f"{provider.issuer}/elsewhere"}
        await gate.refuses(provider.token(RSA[1], headers=own_key))
        await gate.refuses(provider.token(headers={"crit": ["exp2"], "exp2": 1}))
        await gate.refuses(provider.token(algorithm="RS512"))  # a good key, but the file does not name it
        head, body, signature = provider.token().split(".")
        other = forged({}, provider.claims(tenant="acme", sub="root")).split(".")[1]
        await gate.refuses(f"{head}.{other}.{signature}")
        assert await gate.open(f"{head}.{body}.{signature}")
    assert "elsewhere" not in provider.asked


async def test_keys_that_are_secret_weak_or_for_something_else_are_not_used(provider, gate_with):
    secret = {"kty": "oct", "kid": "one", "k": "c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0LTMyYg", "alg": "HS256"}
    unusable = [
        secret,
        jwk_of(WEAK_RSA, "weak"),
        jwk_of(RSA[1], "encryption", use="enc"),
        {**jwk_of(RSA[1], "wrapping", key_ops=["wrapKey"])},
        {"kty": "RSA", "kid": "broken", "n": "!", "e": "AQAB"},
        {"kty": "EC", "crv": "P-256", "kid": "half"},
        {"kty": ["RSA"]},
        "no key",
    ]
    provider.jwks = {"keys": [*unusable, jwk_of(RSA[0], "one")]}
    async with gate_with(provider.entry(algorithms=["RS256", "RS384"])) as gate:
        assert await gate.open(provider.token())
        for kid in ("encryption", "wrapping"):
            await gate.refuses(provider.token(RSA[1], kid=kid))
        with pytest.warns(jwt.InsecureKeyLengthWarning):
            weak = provider.token(WEAK_RSA, kid="weak")
        await gate.refuses(weak)


async def test_a_new_key_of_the_provider_is_fetched_once_and_half_a_minute_passes_before_the_next(provider, gate_with):
    async with gate_with(provider.entry()) as gate:
        assert await gate.open(provider.token())
        assert provider.asked == ["discovery", "keys"]
        provider.jwks = {"keys": [jwk_of(RSA[1], "two"), jwk_of(RSA[0], "one")]}
        await gate.refuses(provider.token(RSA[1], kid="two"))  # known only since a moment
        gate.elapsed.now += 31
        opened = await asyncio.gather(*(gate.open(provider.token(RSA[1], kid="two", jti=str(n))) for n in range(20)))
        assert len(opened) == 20
        assert provider.asked == ["discovery", "keys"] * 2


async def test_many_made_up_key_ids_cost_one_look(provider, gate_with):
    async with gate_with(provider.entry()) as gate:
        await gate.open(provider.token())
        gate.elapsed.now += 31
        for number in range(300):
            await gate.refuses(provider.token(kid=f"made-up-{number}"))
        assert provider.asked.count("keys") == 2


async def test_a_key_that_the_provider_gave_up_opens_nothing_even_for_a_token_seen_before(provider, gate_with):
    async with gate_with(provider.entry()) as gate:
        token = provider.token()
        assert await gate.open(token)
        provider.jwks = {"keys": [jwk_of(RSA[1], "two")]}
        gate.elapsed.now += 601
        await gate.open(token)  # starts a look in the background
        async with asyncio.timeout(30):
            while provider.asked.count("keys") < 2:
                await asyncio.sleep(0.01)
            while True:
                try:
                    await gate.open(token)
                except ApiError:
                    break
                await asyncio.sleep(0.01)


async def test_two_keys_may_bear_the_same_id(provider, gate_with):
    provider.jwks = {"keys": [jwk_of(RSA[1], "one"), jwk_of(RSA[0], "one")]}
    async with gate_with(provider.entry()) as gate:
        assert await gate.open(provider.token(RSA[0]))
        assert await gate.open(provider.token(RSA[1]))


async def test_a_token_may_leave_the_key_id_out(provider, gate_with):
    provider.jwks = {"keys": [jwk_of(EC, "e"), jwk_of(RSA[0], "one")]}
    async with gate_with(provider.entry()) as gate:
        assert await gate.open(provider.token(kid=None))
        await gate.refuses(provider.token(RSA[1], kid=None))


async def test_the_same_id_with_another_key_counts_after_the_next_look(provider, gate_with):
    async with gate_with(provider.entry()) as gate:
        await gate.open(provider.token())
        provider.jwks = {"keys": [jwk_of(RSA[1], "one")]}
        await gate.refuses(provider.token(RSA[1]))
        gate.elapsed.now += 601
        gate.elapsed.now += 31
        with pytest.raises(ApiError):
            await gate.open(provider.token(RSA[1]))
        async with asyncio.timeout(30):
            while True:
                try:
                    await gate.open(provider.token(RSA[1]))
                    break
                except ApiError:
                    await asyncio.sleep(0.01)
        await gate.refuses(provider.token(RSA[0], jti="new"))


async def test_while_the_provider_is_down_its_known_keys_go_on_and_unknown_ones_are_a_503(provider, gate_with):
    async with gate_with(provider.entry()) as gate:
        provider.answer = JSONResponse({"error": "x"}, 500)
        refusal = await gate.refuses(provider.token(), 503)
        assert refusal.code == "identity_provider_unavailable"
        provider.answer = None
        gate.elapsed.now += 2
        assert await gate.open(provider.token())
        provider.answer = JSONResponse({"error": "x"}, 500)
        gate.elapsed.now += 4000
        assert await gate.open(provider.token(jti="2"))
        await gate.refuses(provider.token(RSA[1], kid="two"))


NO_KEYS = [
    Response(b"{", media_type="application/json"),
    Response(b"[" * 100_000),
    Response(b'{"keys": ' + b" " * 300_000 + b"[]}"),
    JSONResponse({"keys": {}}),
    JSONResponse({"keys": []}),
    JSONResponse({"jwks": 1}),
    JSONResponse([1]),
    RedirectResponse("/elsewhere"),
    Response(status_code=204),
]


async def test_what_is_no_list_of_keys_is_no_list_of_keys(provider, gate_with):
    async with gate_with(provider.entry()) as gate:
        for answer in NO_KEYS:
            provider.answer = answer
            await gate.refuses(provider.token(), 503)
            gate.elapsed.now += 2
        assert "elsewhere" not in provider.asked
        provider.answer = None
        assert await gate.open(provider.token())


async def test_nothing_is_fetched_for_an_issuer_that_no_file_names(provider, gate_with):
    async with provider_on_loopback() as stranger:
        async with gate_with(provider.entry()) as gate:
            await gate.refuses(stranger.token())
            await gate.refuses(provider.token(tenant="other", iss=stranger.issuer))
        assert stranger.asked == []
    assert provider.asked == []


BAD_ADDRESSES = [
    {"issuer": "https://elsewhere.example"},
    {"jwks_uri": "http://169.254.169.254/keys"},
    {"jwks_uri": "file:///etc/passwd"},
    {"jwks_uri": "http://[::1"},
    {"jwks_uri": None},
]


async def test_keys_come_only_by_https_or_from_this_machine(provider, gate_with):
    async with gate_with(provider.entry()) as gate:
        for discovery in BAD_ADDRESSES:
            provider.discovery = discovery
            await gate.refuses(provider.token(), 503)
            gate.elapsed.now += 2
    assert set(provider.asked) == {"discovery"}


async def test_the_file_may_say_where_the_keys_are(provider, gate_with):
    async with gate_with(provider.entry(jwks_url=f"{provider.issuer}/elsewhere")) as gate:
        assert await gate.open(provider.token())
    assert provider.asked == ["elsewhere"]


async def test_tenants_may_share_an_issuer_and_each_gets_its_own_people(provider, gate_with):
    entry = provider.entry(tenant_claim="groups")
    async with gate_with({**entry, "tenant_value": "team-a"}, other={**entry, "tenant_value": "team-o"}) as gate:
        assert (await gate.open(provider.token(groups=["x", "team-a"]))).tenant.id == "acme"
        assert (await gate.open(provider.token(groups=["team-o"]))).tenant.id == "other"
        assert "more than one" in (await gate.refuses(provider.token(groups=["team-a", "team-o"]))).detail
        await gate.refuses(provider.token(groups="team-x"))
        assert provider.asked.count("keys") == 1


async def test_an_entry_that_leaves_the_file_closes_the_door_for_tokens_seen_before(provider, gate_with, tmp_path):
    async with gate_with(provider.entry()) as gate:
        token = provider.token()
        assert await gate.open(token)
        write_tenant(tmp_path, "acme")
        gate.tenants.reload()
        await gate.refuses(token)


async def test_our_own_signed_identity_is_no_token_of_a_provider(provider, gate_with):
    async with gate_with(provider.entry()) as gate:
        token = SIGNER.sign(Identity("acme", "k0"))
        assert (await gate.open(token, "/v1/chat/completions")).internal
        await gate.refuses(token)


async def test_huge_and_deep_tokens_are_refused_at_once(provider, gate_with):
    async with gate_with(provider.entry()) as gate:
        await gate.refuses("eyJ" + "a" * 100_000 + ".b.c")
        deep = forged({"alg": "RS256"}, {}).split(".")[0]
        nested = "W1tb" * 3000
        await gate.refuses(f"{deep}.{nested}.AA")
        await gate.refuses(provider.token(pad="x" * 20_000))
        await gate.refuses(forged({"alg": "RS256", "kid": "k" * 9000}, provider.claims()))
        await gate.refuses(forged({"alg": "RS256", "kid": 7}, provider.claims(exp=float("1e308"))))
        await gate.refuses(f"{deep}.eyJleHAiOjFlNDAwfQ.AA")  # {"exp":1e400}


_parts = st.text(st.characters(min_codepoint=33, max_codepoint=255), max_size=60)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(head=_parts, body=_parts, signature=_parts)
async def test_no_text_gets_in_or_breaks_anything(gate_with, head, body, signature):
    async with gate_with() as gate:
        await gate.refuses(f"eyJ{head}.{body}.{signature}")
