"""Who is asking: API keys of files and issued ones, tokens of identity providers, our own signed identities."""

import hmac
import time
from collections.abc import Callable
from urllib.parse import parse_qsl, unquote

from prometheus_client import Counter, Gauge
from starlette.types import Scope

from services.gateway.access import headers
from services.gateway.access.callers import REUSE_SECONDS, VALID_SECONDS, Caller
from services.gateway.access.feed import Feed
from services.gateway.access.grants import Grants
from services.gateway.access.jwks import ProviderLost
from services.gateway.access.oidc import BadToken, TokenVerifier, looks_like_token
from services.gateway.access.snapshot import Snapshot
from services.gateway.errors import ApiError, retry_after
from services.runtime.api_keys import digest_of, holds_key, may_be_issued
from services.runtime.context import Identity
from services.runtime.errors import Unauthenticated
from services.runtime.identity import Signer
from services.runtime.tenants import TenantDirectory

# Where our own services come in with a signed identity in place of a key: the agent's model turns.
_INTERNAL = ("/v1/chat/completions", "/v1/embeddings")
_LONGEST_CREDENTIAL = 16 * 1024
_MOST_SIGNED = 20_000
_NAMES_OF_KEYS = frozenset(
    {"access_token", "api-key", "api_key", "apikey", "authorization", "bearer", "key", "token", "x-api-key"}
)


# Many of one kind are an attack, an expired key in somebody's program, or a store that is away.
REFUSED = Counter("sabueso_gateway_refused_credentials_total", "Requests whose sender was not let in.", ["reason"])

NEXT_EXPIRY = Gauge(
    "sabueso_gateway_next_key_expiry_timestamp_seconds", "When the next API key of a tenant expires; 0: none will."
)


class KeyRing:
    """Finds out who asks. Follows the tenants' files, and what the admin API changes."""

    def __init__(
        self,
        tenants: TenantDirectory,
        signer: Signer,
        feed: Feed | None = None,
        tokens: TokenVerifier | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Without a `feed` only the keys of the files exist; without `tokens` there are none. `clock`: Unix seconds."""
        self._signer = signer
        self._feed = feed
        self._tokens = tokens
        self._clock = clock
        self._signed: dict[Identity, tuple[float, str]] = {}
        self.grants = Grants(tenants, Snapshot() if feed is None else feed.snapshot)
        NEXT_EXPIRY.set_function(lambda: self.grants.next_end(self._clock()))

    async def identify(self, scope: Scope) -> Caller:
        """Who sends an HTTP request. What clients claim of themselves is taken out of its headers.

        Raises ApiError: 400 a key in the URL, 401, or 503 when nobody can tell just now.
        """
        self._refuse_keys_in_url(scope)
        credential = _credential_of(scope)
        headers.strip(scope)
        caller = self.owner_of(credential)
        if caller is None and looks_like_token(credential):
            caller = self.bearer_of(credential) if scope["path"] in _INTERNAL else None
            caller = caller or await self._person(credential)
        elif caller is None and may_be_issued(credential):
            caller = await self._new_owner_of(credential)
        if caller is None:
            raise unauthorized("The API key is not valid.", "unknown")
        return caller

    def owner_of(self, key: str) -> Caller | None:
        """Whose key it is, or None. Raises a 401 when it was one."""
        now = self._clock()
        digest = digest_of(key)
        grant = self.grants.find(digest, now)
        # The look-up is by digest, so its timing says nothing of the key; the comparison is the belt to those braces.
        if grant is None or not hmac.compare_digest(grant.sha256, digest):
            return None
        if grant.revoked_at <= now:
            raise unauthorized("The API key has been revoked.", "revoked")
        if grant.expires_at <= now:
            raise unauthorized("The API key has expired.", "expired")
        token = self._sign(grant.identity)
        return Caller(grant.tenant, grant.identity, token, self._signer, key_limits=grant.limits, models=grant.models)

    def bearer_of(self, token: str) -> Caller | None:
        """Who a signed identity speaks for, or None. One of our services sends it, such as the orchestrator."""
        try:
            identity = self._signer.verify(token)
        except Unauthenticated:
            return None
        now = self._clock()
        tenant = self.grants.tenant(identity.tenant, now)
        if tenant is None:
            return None
        limits = self.grants.limits_of(tenant, identity.principal, now)
        return Caller(tenant, identity, token, self._signer, internal=True, key_limits=limits)

    async def _new_owner_of(self, key: str) -> Caller | None:
        """Whose key it is that was made since this process last looked. Raises a 503 when it cannot look."""
        if self._feed is None:
            return None
        is_current = await self._feed.look(sparingly=True)
        caller = self.owner_of(key)
        if caller is None and not is_current:
            REFUSED.labels("keys_unavailable").inc()
            message = "Keys cannot be looked up just now; this one may be valid. Try again."
            raise ApiError(503, message, code="keys_unavailable", headers=retry_after(1))
        return caller

    async def _person(self, token: str) -> Caller | None:
        if self._tokens is None:
            return None
        try:
            person = await self._tokens.verify(token)
        except BadToken as error:
            raise unauthorized(str(error), "bad_token") from None
        except ProviderLost:
            REFUSED.labels("provider_unavailable").inc()
            message = (
                "The identity provider does not tell its keys just now, so that no token can be checked. Try again."
            )
            raise ApiError(503, message, code="identity_provider_unavailable", headers=retry_after(1)) from None
        identity, entry, now = person.identity, person.entry, self._clock()
        tenant = self.grants.tenant(identity.tenant, now)
        if tenant is None:
            return None
        limits = self.grants.in_force(tenant.id, identity.principal, entry.limits, now)
        return Caller(tenant, identity, self._sign(identity), self._signer, key_limits=limits, models=entry.models)

    def _sign(self, identity: Identity) -> str:
        # By the clock that its end is checked by: that jumps, as after a machine's sleep, and others do not.
        now = self._clock()
        reuse_until, token = self._signed.get(identity, (0.0, ""))
        if not now < reuse_until <= now + REUSE_SECONDS:
            token = self._signer.sign(identity, VALID_SECONDS)
            if len(self._signed) >= _MOST_SIGNED:
                self._signed.clear()
            self._signed[identity] = now + REUSE_SECONDS, token
        return token

    def _refuse_keys_in_url(self, scope: Scope) -> None:
        query: bytes = scope["query_string"]
        path: str = scope["path"]
        # Keys of files may have any form; most begin like this.
        in_path = "sk-" in path and (holds_key(path) or any(map(self._is_known, path.split("/"))))
        if in_path or (query and self._holds_key(query.decode("latin-1"))):
            REFUSED.labels("key_in_url").inc()
            message = "An API key must not be in the URL, where it ends up in logs: revoke it, and send its successor"
            raise ApiError(400, f"{message} as `Authorization: Bearer <key>`.", code="key_in_url")

    def _holds_key(self, query: str) -> bool:
        if holds_key(unquote(query)):
            return True
        pairs = parse_qsl(query, keep_blank_values=True)
        return any(name.lower() in _NAMES_OF_KEYS or self._is_known(value) for name, value in pairs)

    def _is_known(self, text: str) -> bool:
        return self.grants.find(digest_of(text), self._clock()) is not None


def unauthorized(message: str, reason: str) -> ApiError:
    """A 401 in the form that OpenAI's clients know; `reason` is for our metrics."""
    REFUSED.labels(reason).inc()
    return ApiError(401, message, code="invalid_api_key", headers={"WWW-Authenticate": "Bearer"})


def _credential_of(scope: Scope) -> str:
    sent = [value for name, value in scope["headers"] if name == b"authorization"]
    scheme, _, credential = sent[0].decode("latin-1").partition(" ") if sent else ("", "", "")
    credential = credential.strip()
    if scheme.lower() != "bearer" or not credential:
        raise unauthorized("No API key was sent. Send it as `Authorization: Bearer <key>`.", "missing")
    if len(sent) > 1 or len(credential) > _LONGEST_CREDENTIAL:
        raise unauthorized("The API key is not valid.", "unknown")
    return credential
