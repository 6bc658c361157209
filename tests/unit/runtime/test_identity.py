import time

import jwt
import pytest

from services.runtime.context import Identity
from services.runtime.errors import Unauthenticated
from services.runtime.identity import Signer

SECRET = "s" * 32
WHO = Identity("acme", "key-1", ("agent", "search"))


def test_what_was_signed_is_verified():
    signer = Signer(SECRET)
    assert signer.verify(signer.sign(WHO)) == WHO


def test_a_short_secret_is_refused():
    with pytest.raises(ValueError, match="SABUESO_IDENTITY_SECRET"):
        Signer("short")


def forged(**claims):
    good = {"aud": "sabueso", "sub": "acme", "exp": int(time.time() + 60)}
    return jwt.encode({**good, **claims}, SECRET, algorithm="HS256")


@pytest.mark.parametrize(
    "token",
    [
        "",
        "x.y.z",
        Signer("t" * 32).sign(WHO),
        Signer(SECRET).sign(WHO, ttl_seconds=-1),
        forged(aud="elsewhere"),
        jwt.encode({"aud": "sabueso", "exp": 2**33}, SECRET, algorithm="HS256"),
        jwt.encode({"aud": "sabueso", "sub": "acme", "exp": 2**33}, "", algorithm="none"),
    ],
    ids=["empty", "noise", "other secret", "expired", "other audience", "no tenant", "unsigned"],
)
def test_a_wrong_token_is_refused(token):
    with pytest.raises(Unauthenticated):
        Signer(SECRET).verify(token)


def test_a_token_verified_before_still_expires():
    signer = Signer(SECRET)
    token = signer.sign(WHO, ttl_seconds=1.9)
    signer.verify(token)
    time.sleep(2)
    with pytest.raises(Unauthenticated):
        signer.verify(token)


def test_while_a_secret_is_replaced_old_and_new_pods_believe_each_other():
    old, new = "o" * 32, "n" * 32
    ready, swapped = Signer(old, f"{new}\n"), Signer(new, old)
    assert ready.verify(swapped.sign(WHO)) == swapped.verify(ready.sign(WHO)) == WHO
    with pytest.raises(Unauthenticated):
        Signer(new).verify(ready.sign(WHO))
    with pytest.raises(Unauthenticated):
        swapped.verify(swapped.sign(WHO, ttl_seconds=-1))


def test_a_short_fallback_is_refused():
    with pytest.raises(ValueError, match="SABUESO_IDENTITY_SECRET_FALLBACKS"):
        Signer(SECRET, "short")
