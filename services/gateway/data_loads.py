"""POST /v1/data-loads: whoever loads data into a tenant's database says so, and answers are made from it at once."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from services.gateway.admission import caller_of
from services.gateway.clients import Clients
from services.gateway.errors import ApiError
from services.gateway.results_cache import forget_tables
from services.runtime.tenants import SqlSource, Tenant

_ALL = "*"


def _listed(value: Any) -> Any:
    if isinstance(value, str) and value != _ALL:
        raise ValueError("send a list of tables, or `*` for all")
    return [value] if isinstance(value, str) else value


Tables = Annotated[
    list[str],
    Field(min_length=1, max_length=1000),
    BeforeValidator(_listed, json_schema_input_type=list[str] | Literal["*"]),
]


class DataLoadRequest(BaseModel):
    """What was loaded. Tables of the source's own schema need no prefix; `*` is all tables."""

    model_config = ConfigDict(extra="forbid")

    source: str | None = Field(default=None, description="Database of the tenant; its first one where none is named.")
    tables: Tables = Field(description='Tables, such as ["public.contracts"], and the views over them; or "*" for all.')


class DataLoads:
    """The endpoint."""

    def __init__(self, clients: Clients) -> None:
        self._clients = clients

    async def create(self, request: Request, loaded: DataLoadRequest) -> Response:
        """Forgets what was answered from these tables before; when it answers, it is forgotten."""
        caller = caller_of(request)
        caller.require("data")
        source = _source(caller.tenant, loaded.source)
        tables = [] if _ALL in loaded.tables else _tables(source, loaded.tables)
        await forget_tables(self._clients, source.name, tables)
        return Response(status_code=204)


def _source(tenant: Tenant, name: str | None) -> SqlSource:
    source = tenant.source(name or "")
    if source is None:
        known = ", ".join(one.name for one in tenant.sql) or "none"
        message = f"source: there is no database `{(name or '')[:100]}`; there are: {known}."
        raise ApiError(400, message, code="invalid_field", param="source")
    return source


def _tables(source: SqlSource, names: list[str]) -> list[str]:
    """The tables in full, as results name them."""
    known = {f"{source.database_schema}.{table}" for table in source.tables}
    full: list[str] = []
    for place, name in enumerate(names):
        one = name if "." in name else f"{source.database_schema}.{name}"
        if one not in known:
            message = f"tables.{place}: `{name[:100]}` is not a table of `{source.name}`; there are: "
            raise ApiError(400, f"{message}{', '.join(sorted(known))}.", code="invalid_field", param=f"tables.{place}")
        full.append(one)
    return list(dict.fromkeys(full))
