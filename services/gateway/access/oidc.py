"""Tokens of identity providers (OpenID Connect, JWT): whose they are, and what they open."""

import hashlib
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

import jwt
from jwt.exceptions import ExpiredSignatureError, PyJWTError
from pydantic import TypeAdapter, ValidationError

from services.gateway.access.jwks import ProviderHttp, ProviderKeys
from services.runtime.context import ALL_LABELS, Identity
from services.runtime.tenants import Label, Oidc, TenantDirectory

_LEEWAY_SECONDS = 30
_MOST_VERIFIED = 4096
_MOST_KEYS_TRIED = 4
_MOST_LABELS = 200
# Everything that decoding raises for bytes that somebody made up.
_MALFORMED = (PyJWTError, ValueError, TypeError, KeyError, OverflowError, RecursionError)
_label: Final[TypeAdapter[str]] = TypeAdapter(Label)


class BadToken(Exception):
    """The token opens nothing here; the message is for its owner and says no more than that one may know."""


@dataclass(frozen=True)
class Person:
    """Who a token speaks for, at which tenant."""

    identity: Identity
    entry: Oidc
    expires_at: float


@dataclass(frozen=True)
class _Verified:
    person: Person
    provider: ProviderKeys
    generation: int


class TokenVerifier:
    """Checks tokens against the providers that tenants' files name. Nothing is fetched for any other."""

    def __init__(
        self,
        tenants: TenantDirectory,
        http: ProviderHttp,
        clock: Callable[[], float] = time.time,
        elapsed: Callable[[], float] = time.monotonic,
    ) -> None:
        """`clock`: Unix seconds. `elapsed`: seconds since whenever, for the age of providers' keys."""
        self._tenants = tenants
        self._http = http
        self._clock = clock
        self._elapsed = elapsed
        self._version = ""
        self._entries: dict[str, list[tuple[str, Oidc]]] = {}
        self._providers: dict[tuple[str, str], ProviderKeys] = {}
        self._verified: OrderedDict[bytes, _Verified] = OrderedDict()

    async def verify(self, token: str) -> Person:
        """Whose token it is. Raises BadToken and ProviderLost."""
        self._follow()
        digest = hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()
        known = self._verified.get(digest)
        if known is not None and known.generation == known.provider.generation:
            known.provider.keep_fresh()
            if self._clock() < known.person.expires_at:
                return known.person
            raise BadToken("The token has expired.")
        verified = await self._verify(token)
        self._verified[digest] = verified
        if len(self._verified) > _MOST_VERIFIED:
            self._verified.popitem(last=False)
        return verified.person

    async def _verify(self, token: str) -> _Verified:
        try:
            # Not believed yet: it only says whom to ask.
            peeked = jwt.decode_complete(token, options={"verify_signature": False})
        except _MALFORMED:
            raise BadToken("The token is malformed.") from None
        header, claims = peeked["header"], peeked["payload"]
        kid, algorithm, issuer = header.get("kid"), header.get("alg"), claims.get("iss")
        entries = self._entries.get(issuer, []) if isinstance(issuer, str) else []
        found: dict[str, _Verified] = {}
        reason = "The token is of an issuer, or for a tenant, that is not known here."
        for tenant_id, entry in entries:
            if tenant_id in found or algorithm not in entry.algorithms or not _names(claims, entry, tenant_id):
                continue
            provider = self._provider(entry)
            keys = await provider.find(kid, algorithm)
            try:
                proven = _proven(token, entry, algorithm, keys[:_MOST_KEYS_TRIED])
                found[tenant_id] = _Verified(_person(proven, tenant_id, entry), provider, provider.generation)
            except BadToken as error:
                reason = str(error)
        if len(found) != 1:
            raise BadToken("The token names more than one tenant." if found else reason)
        return next(iter(found.values()))

    def _provider(self, entry: Oidc) -> ProviderKeys:
        where = entry.issuer, entry.jwks_url
        if where not in self._providers:
            self._providers[where] = ProviderKeys(self._http, *where, clock=self._elapsed)
        return self._providers[where]

    def _follow(self) -> None:
        if self._version == self._tenants.version:
            return
        self._version = self._tenants.version
        self._verified.clear()
        self._entries = {}
        for tenant in self._tenants.all().values():
            for entry in tenant.oidc:
                self._entries.setdefault(entry.issuer, []).append((tenant.id, entry))
        used = {(entry.issuer, entry.jwks_url) for entries in self._entries.values() for _, entry in entries}
        self._providers = {where: provider for where, provider in self._providers.items() if where in used}


def entry_of(principal: str, entries: Sequence[Oidc]) -> Oidc | None:
    """The entry of a tenant's file that let in the person whose principal it is."""
    return next((entry for entry in entries if principal.startswith(f"oidc:{_tag(entry)}-")), None)


def looks_like_token(credential: str) -> bool:
    """Whether it has the form of a signed JWT."""
    return credential.startswith("eyJ") and credential.count(".") == 2


def _proven(token: str, entry: Oidc, algorithm: str, keys: Sequence[jwt.PyJWK]) -> dict[str, Any]:
    """The claims, when one of the keys has signed them and they hold now. Raises BadToken."""
    for key in keys:
        try:
            return jwt.decode(
                token,
                key,
                algorithms=[algorithm],
                audience=entry.audience,
                issuer=entry.issuer,
                leeway=_LEEWAY_SECONDS,
                options={"require": ["exp", "iss", "aud", "sub"], "enforce_minimum_key_length": True},
            )
        except jwt.InvalidSignatureError:
            continue  # keys may share an id
        except ExpiredSignatureError:
            raise BadToken("The token has expired.") from None
        except _MALFORMED:
            break
    raise BadToken("The token is not valid: signature, audience or times are wrong.")


def _person(claims: dict[str, Any], tenant_id: str, entry: Oidc) -> Person:
    subject = claims["sub"]
    if not isinstance(subject, str) or not subject:
        raise BadToken("The token has no `sub`.")
    # Names and addresses of persons stay out of logs and keys of counters.
    digest = hashlib.sha256(f"{entry.issuer}\n{subject}".encode()).hexdigest()[:24]
    scopes = entry.scopes
    if entry.scope_claim:
        asked = _texts(_claim(claims, entry.scope_claim))
        scopes = tuple(scope for scope in entry.scopes if scope in asked)
    labels = tuple(dict.fromkeys(filter(_is_label, _texts(_claim(claims, entry.labels_claim)))))[:_MOST_LABELS]
    identity = Identity(tenant_id, f"oidc:{_tag(entry)}-{digest}", scopes, labels)
    return Person(identity, entry, float(claims["exp"]) + _LEEWAY_SECONDS)


def _names(claims: dict[str, Any], entry: Oidc, tenant_id: str) -> bool:
    said, wanted = _claim(claims, entry.tenant_claim), entry.tenant_value or tenant_id
    return said == wanted or (isinstance(said, list) and wanted in said)


def _claim(claims: dict[str, Any], name: str) -> Any:
    """A claim by its name, or by a path such as `realm_access.roles`."""
    if not name or name in claims:
        return claims.get(name)
    value: Any = claims
    for part in name.split("."):
        value = cast(dict[str, Any], value).get(part) if isinstance(value, dict) else None
    return value


def _texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return value.split()
    return [one for one in cast(list[Any], value) if isinstance(one, str)] if isinstance(value, list) else []


def _is_label(text: str) -> bool:
    """`*` opens everything, which only an operator's file may say."""
    try:
        return _label.validate_python(text) != ALL_LABELS
    except ValidationError:
        return False


def _tag(entry: Oidc) -> str:
    named = "\n".join((entry.issuer, entry.audience, entry.tenant_claim, entry.tenant_value))
    return hashlib.sha256(named.encode()).hexdigest()[:8]
