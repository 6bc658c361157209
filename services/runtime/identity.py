"""Signs and verifies the identity that travels in metadata, so that no service believes a bare tenant name."""

import time
from functools import lru_cache

import jwt

from services.runtime.context import Identity
from services.runtime.errors import Unauthenticated

METADATA_KEY = "x-sabueso-identity"
_AUDIENCE = "sabueso"
_ALGORITHM = "HS256"


class Signer:
    """Makes and checks identity tokens (JWT, HS256) with one shared secret."""

    def __init__(self, secret: str) -> None:
        """`secret`: at least 32 bytes, the same for all services of an installation."""
        if len(secret.encode()) < 32:
            raise ValueError("SABUESO_IDENTITY_SECRET is shorter than 32 bytes")
        self._secret = secret
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
            claims = jwt.decode(token, self._secret, algorithms=[_ALGORITHM], audience=_AUDIENCE)
            lists = (tuple(claims.get(name, ())) for name in ("scp", "lbl"))
            identity = Identity(claims["sub"], claims.get("prn", ""), *lists)
            return identity, float(claims["exp"])
        except (jwt.PyJWTError, KeyError, TypeError, ValueError):
            raise Unauthenticated("The call's identity is not valid.") from None
