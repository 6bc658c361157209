"""Public keys of an identity provider (JWKS, RFC 7517): fetched when needed, kept when the provider is away."""

import asyncio
import ipaddress
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import urlsplit

import httpx2
import orjson
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from jwt import PyJWK
from jwt.exceptions import PyJWTError

log = logging.getLogger(__name__)

# A token may name a key that is new; but anybody can make up names of keys.
_NEW_KEYS_SECONDS = 30.0
_FRESH_SECONDS = 600.0
# While nothing is known at all, every request would have to be refused.
_FIRST_SECONDS = 1.0
_TIMEOUT_SECONDS = 5.0
_MOST_BYTES = 256 * 1024
_MOST_KEYS = 100
_RSA_BITS = range(2048, 8193)

_RSA = ("RS256", "RS384", "RS512", "PS256")
# By type and curve; symmetric keys (`oct`) are not here: a published secret signs nothing.
_ALGORITHMS: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("RSA", ""): _RSA,
    ("EC", "P-256"): ("ES256",),
    ("EC", "P-384"): ("ES384",),
    ("OKP", "Ed25519"): ("EdDSA",),
}


class ProviderLost(Exception):
    """The provider has never told its keys; the message says why."""


@dataclass(frozen=True)
class PublicKey:
    """A key of the provider, ready for each algorithm that fits it."""

    kid: str
    by_algorithm: Mapping[str, PyJWK]


class ProviderHttp:
    """Connections to providers, made when the first one is asked: most installations have none."""

    def __init__(self) -> None:
        self._clients: dict[str, httpx2.AsyncClient] = {}

    def client(self, url: str) -> httpx2.AsyncClient:
        """The client for an address. Raises ValueError for one that could be listened to on the way."""
        if not _is_safe(url):
            raise ValueError("keys are only read by https, or from this machine")
        is_outside = url.startswith("https")
        scheme = "https" if is_outside else "http"
        if scheme not in self._clients:
            # Proxies and certificates outside are those of the environment; plain HTTP stays on this machine.
            self._clients[scheme] = httpx2.AsyncClient(
                timeout=_TIMEOUT_SECONDS, trust_env=is_outside, verify=is_outside
            )
        return self._clients[scheme]

    async def close(self) -> None:
        """Closes all connections."""
        for client in self._clients.values():
            await client.aclose()


class ProviderKeys:
    """The keys of one provider."""

    def __init__(
        self,
        http: ProviderHttp,
        issuer: str,
        jwks_url: str = "",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`jwks_url`: empty, where the provider's discovery document says it. `clock` in seconds."""
        self._http = http
        self._issuer = issuer
        self._jwks_url = jwks_url
        self._clock = clock
        self._keys: Sequence[PublicKey] | None = None
        self._asked_at = self._read_at = float("-inf")
        self._asking = asyncio.Lock()
        self._refreshing: asyncio.Task[None] | None = None
        # Another one after each change: what was verified with keys that are gone is verified again.
        self.generation = 0

    async def find(self, kid: str | None, algorithm: str) -> Sequence[PyJWK]:
        """Keys that may have signed a token. Raises ProviderLost."""
        if self._keys is None:
            await self._ask(_FIRST_SECONDS)
        if self._keys is None:
            raise ProviderLost(self._issuer)
        self.keep_fresh()
        found = self._matching(kid, algorithm)
        if not found:
            await self._ask(_NEW_KEYS_SECONDS)
            found = self._matching(kid, algorithm)
        return found

    def keep_fresh(self) -> None:
        """Reads keys that are old again, in the background: a key that the provider gave up opens nothing for long."""
        if self._clock() - max(self._read_at, self._asked_at) > _FRESH_SECONDS and not self._asking.locked():
            self._refreshing = asyncio.create_task(self._ask(_NEW_KEYS_SECONDS))

    def _matching(self, kid: str | None, algorithm: str) -> Sequence[PyJWK]:
        return [
            key.by_algorithm[algorithm]
            for key in self._keys or ()
            if (kid is None or key.kid == kid) and algorithm in key.by_algorithm
        ]

    async def _ask(self, seconds: float) -> None:
        """Reads the keys, unless that was tried within the last `seconds`."""
        async with self._asking:
            if self._clock() - self._asked_at < seconds:
                return
            self._asked_at = self._clock()
            try:
                async with asyncio.timeout(_TIMEOUT_SECONDS):
                    keys = await self._read()
            except (httpx2.HTTPError, httpx2.InvalidURL, TimeoutError, ValueError, TypeError, KeyError) as error:
                log.warning(
                    "keys of an issuer cannot be read", extra={"issuer": self._issuer, "reason": _reason(error)}
                )
                return
            if [key.kid for key in keys] != [key.kid for key in self._keys or ()] or self._changed(keys):
                self.generation += 1
            self._keys, self._read_at = keys, self._clock()

    def _changed(self, keys: Sequence[PublicKey]) -> bool:
        return _numbers(keys) != _numbers(self._keys or ())

    async def _read(self) -> Sequence[PublicKey]:
        url = self._jwks_url
        if not url:
            found = await self._get(f"{self._issuer.rstrip('/')}/.well-known/openid-configuration")
            if found.get("issuer") != self._issuer:
                raise ValueError("the discovery document names another issuer")
            url = str(found["jwks_uri"])
        listed = (await self._get(url))["keys"]
        if not isinstance(listed, list):
            raise ValueError("`keys` is not a list")
        keys = [key for one in cast(list[Any], listed)[:_MOST_KEYS] if (key := _public_key(one)) is not None]
        if not keys:
            raise ValueError("there is no key that can be used")
        return keys

    async def _get(self, url: str) -> dict[str, Any]:
        content = b""
        async with self._http.client(url).stream("GET", url, headers={"accept": "application/json"}) as response:
            if response.status_code != 200:
                raise ValueError(f"status {response.status_code}")
            async for piece in response.aiter_bytes():
                content += piece
                if len(content) > _MOST_BYTES:
                    raise ValueError(f"more than {_MOST_BYTES} bytes")
        found: Any = orjson.loads(content)
        if not isinstance(found, dict):
            raise ValueError("it is no JSON object")
        return cast(dict[str, Any], found)


def _public_key(jwk: Any) -> PublicKey | None:
    """What a JWK is good for; None for what is not for checking signatures, or too weak."""
    if not isinstance(jwk, dict):
        return None
    fields = cast(dict[str, Any], jwk)
    kind, curve, kid = fields.get("kty"), fields.get("crv", ""), fields.get("kid", "")
    if not (isinstance(kind, str) and isinstance(curve, str) and isinstance(kid, str)):
        return None
    operations = fields.get("key_ops", ["verify"])
    if fields.get("use", "sig") != "sig" or "verify" not in operations or "d" in fields:
        return None
    fitting = [one for one in _ALGORITHMS.get((kind, curve), ()) if fields.get("alg", one) == one]
    try:
        by_algorithm = {algorithm: PyJWK(fields, algorithm) for algorithm in fitting}
    except (PyJWTError, ValueError, TypeError):
        return None
    for key in by_algorithm.values():
        if isinstance(key.key, RSAPublicKey) and key.key.key_size not in _RSA_BITS:
            return None
    return PublicKey(kid, by_algorithm) if by_algorithm else None


def _numbers(keys: Sequence[PublicKey]) -> list[object]:
    return [[one.key for one in key.by_algorithm.values()] for key in keys]


def _is_safe(url: str) -> bool:
    parts = urlsplit(url)
    if parts.scheme == "https":
        return True
    host = parts.hostname or ""
    try:
        return parts.scheme == "http" and (host == "localhost" or ipaddress.ip_address(host).is_loopback)
    except ValueError:
        return False


def _reason(error: Exception) -> str:
    return str(error) if type(error) is ValueError else type(error).__name__
