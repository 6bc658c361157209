"""Puts together who may come in: the tenants' files, the store of issued keys, identity providers, the admin API."""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from services.gateway.access.admin import AdminApi
from services.gateway.access.administration import Administration
from services.gateway.access.feed import Feed
from services.gateway.access.jwks import ProviderHttp
from services.gateway.access.key_ring import KeyRing
from services.gateway.access.oidc import TokenVerifier
from services.gateway.access.store import AccessStore
from services.gateway.limits.decision import Limiter
from services.runtime.identity import Signer
from services.runtime.settings import WrongSetting
from services.runtime.tenants import TenantDirectory


@dataclass(frozen=True)
class Door:
    """Finds out who asks, and lets admins say who may."""

    keys: KeyRing
    admin: AdminApi


@asynccontextmanager
async def open_door(
    tenants: TenantDirectory,
    tenants_dir: Path,
    signer: Signer,
    store: AccessStore,
    limiter: Limiter,
    *,
    admin_tenant: str = "",
    look_seconds: float = 1.0,
) -> AsyncGenerator[Door]:
    """A door that follows `store` every `look_seconds`, until the end of the block. Raises WrongSetting."""
    if admin_tenant and tenants.get(admin_tenant) is None:
        raise WrongSetting(f"there is no tenant `{admin_tenant}`", "SABUESO_ADMIN_TENANT")
    async with AsyncExitStack() as stack:
        feed = Feed(store, look_seconds=look_seconds)
        providers = ProviderHttp()
        stack.push_async_callback(providers.close)
        tokens = TokenVerifier(tenants, providers)
        keys = KeyRing(tenants, signer, feed, tokens)
        administration = Administration(store, feed, keys.grants, admin_tenant=admin_tenant)
        # Before the first request, so that a revoked key does not get in once more after each restart.
        await feed.look()
        feed.watch()
        stack.push_async_callback(feed.close)
        yield Door(keys, AdminApi(administration, tenants, tenants_dir, limiter))
