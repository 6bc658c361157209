import hashlib

import pytest
import yaml

from services.gateway.errors import ApiError
from services.gateway.keys import KeyRing
from services.runtime.context import Identity
from services.runtime.tenants import TenantDirectory
from services.runtime.testing import SIGNER


def write(folder, tenant, *keys, **fields):
    listed = [
        {"id": f"k{n}", "sha256": hashlib.sha256(key.encode()).hexdigest(), **fields} for n, key in enumerate(keys)
    ]
    (folder / f"{tenant}.yaml").write_text(yaml.safe_dump({"id": tenant, "keys": listed}))


@pytest.fixture
def tenants(tmp_path):
    write(tmp_path, "acme", "secret-a", "secret-b")
    return TenantDirectory(tmp_path)


def test_a_key_names_its_tenant_and_signs_for_it(tenants):
    caller = KeyRing(tenants, SIGNER).owner_of("secret-b")
    assert caller.identity == Identity("acme", "k1", ("agent", "models", "search", "documents"))
    assert SIGNER.verify(caller.token) == caller.identity


@pytest.mark.parametrize("key", ["", "secret", "SECRET-A", "secret-a ", "ñ\udcff"])
def test_another_key_belongs_to_nobody(tenants, key):
    assert KeyRing(tenants, SIGNER).owner_of(key) is None


def test_keys_follow_the_files(tenants, tmp_path):
    ring = KeyRing(tenants, SIGNER)
    assert ring.owner_of("secret-a")
    write(tmp_path, "acme", "secret-c", scopes=["search"])
    tenants.reload()
    assert ring.owner_of("secret-a") is None
    caller = ring.owner_of("secret-c")
    assert SIGNER.verify(caller.token).scopes == ("search",)
    caller.require("search")
    with pytest.raises(ApiError) as caught:
        caller.require("agent")
    assert caught.value.status_code == 403


def test_a_signed_identity_speaks_for_a_tenant_that_exists(tenants):
    ring = KeyRing(tenants, SIGNER)
    assert ring.bearer_of(SIGNER.sign(Identity("acme"))).internal
    assert ring.bearer_of(SIGNER.sign(Identity("nobody"))) is None
    assert ring.bearer_of(SIGNER.sign(Identity("acme"), ttl_seconds=-1)) is None
    assert ring.bearer_of("secret-a") is None
