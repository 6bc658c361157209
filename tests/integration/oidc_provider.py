"""A small OpenID Connect provider on a loopback port: it publishes keys, signs tokens, and does as a test says."""

import base64
import json
import time
from contextlib import asynccontextmanager

from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt import PyJWS
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm
from starlette.applications import Starlette
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tests.integration.gateway_stack import serving

# Making them takes a while; every test may use the same.
RSA = [rsa.generate_private_key(public_exponent=65537, key_size=2048) for _ in range(2)]
WEAK_RSA = rsa.generate_private_key(public_exponent=65537, key_size=1024)
EC = ec.generate_private_key(ec.SECP256R1())
ED = ed25519.Ed25519PrivateKey.generate()


def jwk_of(private, kid, **fields):
    """The public half as the provider publishes it."""
    public = private.public_key()
    if isinstance(private, rsa.RSAPrivateKey):
        published = RSAAlgorithm.to_jwk(public, as_dict=True)
    elif isinstance(private, ec.EllipticCurvePrivateKey):
        published = ECAlgorithm.to_jwk(public, as_dict=True)
    else:
        published = OKPAlgorithm.to_jwk(public, as_dict=True)
    return {**published, "kid": kid, "use": "sig", **fields}


class Provider:
    """What it publishes, and how often it was asked."""

    def __init__(self):
        self.issuer = ""
        self.begin_anew()
        self.app = Starlette(
            routes=[
                Route("/.well-known/openid-configuration", self._discover),
                Route("/keys", self._keys),
                Route("/elsewhere", self._keys),
            ]
        )

    def begin_anew(self):
        """As it was at the start."""
        self.jwks = {"keys": [jwk_of(RSA[0], "one")]}
        self.discovery = {}
        self.asked = []
        self.answer = None

    async def _discover(self, request):
        self.asked.append("discovery")
        return JSONResponse({"issuer": self.issuer, "jwks_uri": f"{self.issuer}/keys", **self.discovery})

    async def _keys(self, request):
        self.asked.append(request.url.path.strip("/"))
        if self.answer is not None:
            return self.answer
        return Response(json.dumps(self.jwks), media_type="application/json")

    def entry(self, **fields):
        """What a tenant's file says of it."""
        return {"issuer": self.issuer, "audience": "sabueso", **fields}

    def claims(self, **claims):
        now = int(time.time())
        named = {"iss": self.issuer, "aud": "sabueso", "sub": "ana@acme.example", "tenant": "acme", "exp": now + 600}
        return {name: value for name, value in {**named, "iat": now, **claims}.items() if value is not None}

    def token(self, private=RSA[0], kid="one", algorithm="RS256", headers=None, **claims):
        named = {"kid": kid, **(headers or {})} if kid else headers
        # As bytes: the library does not sign claims that are wrong.
        payload = json.dumps(self.claims(**claims)).encode()
        return PyJWS().encode(payload, private, algorithm=algorithm, headers=named)


def forged(header, claims, signature=b""):
    """A token put together by hand."""
    parts = [json.dumps(header).encode(), json.dumps(claims).encode(), signature]
    return ".".join(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts)


@asynccontextmanager
async def provider_on_loopback():
    provider = Provider()
    async with serving(provider.app) as url:
        provider.issuer = url
        yield provider
