"""/v1/admin: tenants, keys and limits, for those whose key has the scope `admin`."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, cast

from fastapi import Query
from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from services.gateway.access.admin_requests import KeyChanges, LimitsRequest, NewKeyRequest, RotateRequest
from services.gateway.access.administration import Admin, Administration
from services.gateway.access.callers import Caller
from services.gateway.access.grants import NEVER, seconds_of
from services.gateway.access.issuing import Issuing, Rights
from services.gateway.access.overriding import Overriding
from services.gateway.access.views import (
    FilesView,
    KeyList,
    KeyView,
    LimitsView,
    NewKeyView,
    TenantDetails,
    TenantList,
    TenantUse,
    TenantView,
)
from services.gateway.limits.decision import Limiter
from services.gateway.limits.usage import usage_of
from services.runtime.api_keys import NewKey
from services.runtime.tenants import BadTenantFile, Ceilings, Tenant, TenantDirectory, load

_SECRETS = {"keys": {"__all__": {"sha256"}}, "sql": {"__all__": {"dsn_secret", "replica_dsn_secrets"}}}


class AdminApi:
    """The endpoints."""

    def __init__(
        self,
        administration: Administration,
        tenants: TenantDirectory,
        tenants_dir: Path,
        limiter: Limiter,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`tenants_dir`: whose files are looked at when somebody asks whether they are right. `clock`: Unix seconds."""
        self.administration = self._admin = administration
        self._tenants = tenants
        self._tenants_dir = tenants_dir
        self._limiter = limiter
        self._clock = clock
        self._issuing = Issuing(administration)
        self._overriding = Overriding(administration, tenants)

    async def list_tenants(self, request: Request) -> Response:
        """The tenants that the key manages, and whether their files can be used."""
        admin, now = self._admin.admin(_caller(request)), self._clock()
        names = sorted(name for name in self._tenants.all() if admin.manages(name))
        files = await asyncio.to_thread(self._files) if admin.everywhere else None
        data = [self._tenant_view(self._admin.tenant(admin, name, now)) for name in names]
        return _answer(TenantList(data=data, files=files))

    async def get_tenant(self, request: Request, tenant: str) -> Response:
        """All that a tenant's file says, without secrets, with the limits in force."""
        _, found = self._tenant(request, tenant)
        shown = found.model_dump(mode="json", by_alias=True, exclude=_SECRETS)
        return _answer(TenantDetails(**shown))

    async def list_keys(
        self,
        request: Request,
        tenant: str,
        limit: Annotated[int, Query(ge=1, le=1000)] = 1000,
        after: Annotated[str, Query(max_length=64)] = "",
    ) -> Response:
        """Keys by id, a page at a time, with expired and revoked ones."""
        _, found = self._tenant(request, tenant)
        await self._admin.look()
        keys = [key for key in self._issuing.keys_of(found, self._clock()) if key.id > after]
        has_more = len(keys) > limit
        return _answer(KeyList(data=keys[:limit], has_more=has_more, after=keys[limit - 1].id if has_more else None))

    async def get_key(self, request: Request, tenant: str, key: str) -> Response:
        """One key."""
        _, found = self._tenant(request, tenant)
        await self._admin.look()
        return _answer(self._issuing.key(found, key, self._clock()))

    async def create_key(self, request: Request, tenant: str, asked: NewKeyRequest) -> Response:
        """Makes a key. The answer holds its secret, which is never shown again."""
        admin, found = self._tenant(request, tenant)
        rights = Rights(
            asked.id, asked.description, asked.scopes, asked.models, asked.labels, asked.limits.ceilings(),
            NEVER if asked.expires_at is None else seconds_of(asked.expires_at),
        )  # fmt: skip
        new = await self._issuing.create(admin, found, rights, self._clock())
        return self._with_secret(found, asked.id, new, 201)

    async def update_key(self, request: Request, tenant: str, key: str, asked: KeyChanges) -> Response:
        """Changes a key that was made here; its secret stays."""
        admin, found = self._tenant(request, tenant)
        changes = asked.model_dump(exclude_unset=True)
        if "limits" in changes:
            changes["limits"] = asked.limits.ceilings()
        await self._issuing.update(admin, found, key, changes, self._clock())
        return _answer(self._issuing.key(found, key, self._clock()))

    async def rotate_key(self, request: Request, tenant: str, key: str, asked: RotateRequest) -> Response:
        """Gives a key another secret; both open it until the overlap ends."""
        admin, found = self._tenant(request, tenant)
        new = await self._issuing.rotate(admin, found, key, asked.overlap_seconds, self._clock())
        return self._with_secret(found, key, new, 200)

    async def revoke_key(self, request: Request, tenant: str, key: str) -> Response:
        """Revokes a key, of a file or made here. In force everywhere within seconds; it cannot be taken back."""
        admin, found = self._tenant(request, tenant)
        await self._issuing.revoke(admin, found, key, self._clock())
        return _answer(self._issuing.key(found, key, self._clock()))

    async def get_limits(self, request: Request, tenant: str, key: str | None = None) -> Response:
        """Limits as declared, as replaced, and as in force."""
        self._tenant(request, tenant)
        await self._admin.look()
        return self._limits(request, tenant, key)

    async def put_limits(self, request: Request, tenant: str, asked: LimitsRequest, key: str | None = None) -> Response:
        """Replaces limits, for a while or until they are cleared."""
        admin, found = self._tenant(request, tenant)
        fields = asked.model_dump(exclude_none=True)
        await self._overriding.put(admin, found, key, fields, self._clock())
        return self._limits(request, tenant, key)

    async def delete_limits(self, request: Request, tenant: str, key: str | None = None) -> Response:
        """The declared limits hold again."""
        admin, found = self._tenant(request, tenant)
        await self._overriding.clear(admin, found, key)
        return self._limits(request, tenant, key)

    async def get_usage(self, request: Request, tenant: str, key: str | None = None) -> Response:
        """What is used of the limits of a tenant, and of one of its keys."""
        _, found = self._tenant(request, tenant)
        limits = Ceilings() if key is None else self._overriding.show(found, key, self._clock()).effective
        used = await usage_of(self._limiter, found, key or "", cast(Ceilings, limits))
        if key is None:
            del used["key"], used["key_limits"]
        return _answer(TenantUse(**used))

    def _limits(self, request: Request, tenant: str, key: str | None) -> Response:
        _, found = self._tenant(request, tenant)
        return _answer(self._overriding.show(found, key, self._clock()))

    def _with_secret(self, tenant: Tenant, key: str, new: NewKey, status: int) -> Response:
        view = self._issuing.key(tenant, key, self._clock())
        return _answer(NewKeyView(key=new.text, **dict(view)), status)

    def _tenant(self, request: Request, tenant: str) -> tuple[Admin, Tenant]:
        admin = self._admin.admin(_caller(request))
        return admin, self._admin.tenant(admin, tenant, self._clock())

    def _tenant_view(self, tenant: Tenant) -> TenantView:
        return TenantView(
            id=tenant.id,
            priority=tenant.priority,
            models=tenant.models,
            declared_key_count=len(tenant.keys),
            issued_key_count=self._admin.snapshot.count_of(tenant.id),
            issuers=[entry.issuer for entry in tenant.oidc],
            limits=tenant.limits,
        )

    def _files(self) -> FilesView:
        reason = None
        try:
            load(self._tenants_dir)
        except BadTenantFile as error:
            reason = str(error)
        except OSError as error:
            reason = type(error).__name__
        return FilesView(valid=reason is None, reason=reason, failed_reloads=self._tenants.failed_reloads)


def routes(api: AdminApi) -> list[APIRoute]:
    """The addresses."""
    tenant, keys, limits = "/v1/admin/tenants/{tenant}", "/v1/admin/keys/{tenant}", "/v1/admin/limits/{tenant}"
    return [
        _route("GET", "/v1/admin/tenants", api.list_tenants, TenantList),
        _route("GET", tenant, api.get_tenant, TenantDetails),
        *(
            _route("GET", path, api.get_usage, TenantUse)
            for path in ("/v1/admin/usage/{tenant}", "/v1/admin/usage/{tenant}/{key}")
        ),
        _route("GET", keys, api.list_keys, KeyList),
        _route("POST", keys, api.create_key, NewKeyView, 201),
        _route("GET", f"{keys}/{{key}}", api.get_key, KeyView),
        _route("PATCH", f"{keys}/{{key}}", api.update_key, KeyView),
        _route("DELETE", f"{keys}/{{key}}", api.revoke_key, KeyView),
        _route("POST", f"{keys}/{{key}}/rotate", api.rotate_key, NewKeyView),
        *(
            _route(method, path, endpoint, LimitsView)
            for path in (limits, f"{limits}/{{key}}")
            for method, endpoint in (("GET", api.get_limits), ("PUT", api.put_limits), ("DELETE", api.delete_limits))
        ),
    ]


def _route(method: str, path: str, endpoint: Any, view: type[BaseModel], status: int = 200) -> APIRoute:
    responses: dict[int | str, dict[str, Any]] = {status: {"model": view}}
    return APIRoute(path, endpoint, methods=[method], response_model=None, status_code=status, responses=responses)


def _caller(request: Request) -> Caller:
    return request.state.caller


def _answer(view: BaseModel, status: int = 200) -> JSONResponse:
    return JSONResponse(view.model_dump(mode="json"), status, headers={"cache-control": "no-store"})
