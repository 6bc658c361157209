"""Signs and verifies the identity that travels in metadata, so that no service believes a bare tenant name."""

import time
from contextlib import suppress
from functools import lru_cache
from typing import Any

import jwt

from services.runtime.context import Identity
from services.runtime.errors import Unauthenticated

METADATA_KEY = "x-sabueso-identity"
_AUDIENCE = "sabueso"
_ALGORITHM = "HS256"
_SECRET_BYTES = 32


class Signer:
    """Makes and checks identity tokens (JWT, HS256) with one shared secret."""

    def __init__(self, secret: str, fallbacks: str = "") -> None:
        """`secret` signs: at least 32 bytes, the same for all services of an installation.

        `fallbacks`: further secrets that are believed, one a line, while one is replaced by another.
        """
        others = fallbacks.split()
        if len(secret.encode()) < _SECRET_BYTES:
            raise ValueError(f"SABUESO_IDENTITY_SECRET is shorter than {_SECRET_BYTES} bytes")
        if any(len(one.encode()) < _SECRET_BYTES for one in others):
            raise ValueError(f"SABUESO_IDENTITY_SECRET_FALLBACKS has a secret shorter than {_SECRET_BYTES} bytes")
        self._secret = secret
        self._believed = (secret, *others)
        # Checking a signature costs some 20 µs; one answer asks for it about ten times with the same token.
        self._decode = lru_cache(maxsize=4096)(self._decode_once)

    def sign(self, identity: Identity, ttl_seconds: float = 900) -> str:
        """A token for `identity`, valid for `ttl_seconds`."""
        claims = {
            "aud": _AUDIENCE,
            "sub": identity.tenant,
            "prn": identity.principal,
            "scp": list(identity.scopes),
            "lbl": list(identity.labels),
            "exp": int(time.time() + ttl_seconds),
        }
        return jwt.encode(claims, self._secret, algorithm=_ALGORITHM)

    def verify(self, token: str) -> Identity:
        """The identity in `token`. Raises Unauthenticated when it is forged, malformed or expired."""
        identity, expires = self._decode(token)
        if expires <= time.time():
            raise Unauthenticated("The call's identity has expired.")
        return identity

    def _decode_once(self, token: str) -> tuple[Identity, float]:
        try:
            claims = self._claims(token)
            lists = (tuple(claims.get(name, ())) for name in ("scp", "lbl"))
            identity = Identity(claims["sub"], claims.get("prn", ""), *lists)
            return identity, float(claims["exp"])
        except (jwt.PyJWTError, KeyError, TypeError, ValueError):
            raise Unauthenticated("The call's identity is not valid.") from None

    def _claims(self, token: str) -> dict[str, Any]:
        *others, last = self._believed
        for secret in others:
            with suppress(jwt.InvalidSignatureError):
                return jwt.decode(token, secret, algorithms=[_ALGORITHM], audience=_AUDIENCE)
        return jwt.decode(token, last, algorithms=[_ALGORITHM], audience=_AUDIENCE)
