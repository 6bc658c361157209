"""Makes tenants' files, issued keys and stores for tests of access."""

import hashlib
from datetime import UTC, datetime, timedelta

import yaml

from services.gateway.access.records import IssuedKey, Override, Revocation, Secret
from services.gateway.access.store import MemoryAccessStore, StoreLost

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
ISSUED = "sk-sabueso-abcdefghij-" + "s" * 43


def sha256(key):
    return hashlib.sha256(key.encode()).hexdigest()


def write_tenant(folder, tenant="acme", *keys, oidc=(), limits=None, **fields):
    listed = [{"id": f"k{n}", "sha256": sha256(key), **fields} for n, key in enumerate(keys)]
    content = {"id": tenant, "keys": listed, "oidc": list(oidc), "limits": limits or {}}
    (folder / f"{tenant}.yaml").write_text(yaml.safe_dump(content))


def secret(key=ISSUED, **fields):
    return Secret(sha256=sha256(key), prefix=key[:21], created_at=NOW, **fields)


def issued(id="ci", tenant="acme", secrets=None, **fields):
    return IssuedKey(tenant=tenant, id=id, secrets=secrets or (secret(),), created_at=NOW, **fields)


def in_hours(hours):
    return NOW + timedelta(hours=hours)


async def keep(store, *records):
    for record in records:
        match record:
            case IssuedKey():
                await store.write("keys", record.field, record.to_bytes())
            case (key, Revocation()):
                await store.write("revoked", sha256(key), record[1].to_bytes())
            case (field, Override()):
                await store.write("limits", field, record[1].to_bytes())


class ManualClock:
    """Shows the time that a test sets."""

    def __init__(self, now=None):
        self.now = NOW.timestamp() if now is None else now

    def __call__(self):
        return self.now


class LosableStore(MemoryAccessStore):
    """Can be lost, and counts how often it was asked."""

    def __init__(self, **bounds):
        super().__init__(**bounds)
        self.lost = False
        self.asked = 0

    async def changes(self, since):
        self.asked += 1
        if self.lost:
            raise StoreLost("test")
        return await super().changes(since)
