"""Translates between protobuf and search, fetch and extract."""

import asyncio
from typing import Any

from sabueso.web_tool.v1 import web_tool_pb2 as pb
from sabueso.web_tool.v1 import web_tool_pb2_grpc as rpc
from services.runtime import context
from services.runtime.errors import InvalidField, NotPermitted
from services.runtime.tenants import TenantDirectory, Web
from services.web_tool import extract
from services.web_tool.fetch import Fetcher
from services.web_tool.policy import Policy
from services.web_tool.search import Engine, permitted

_MAX_QUERY_CHARS = 400
_DEFAULT_RESULTS, _MAX_RESULTS = 5, 20
_DEFAULT_CHARS, _MAX_CHARS = 20_000, 200_000


class WebToolService(rpc.WebToolServiceServicer):
    """Searches and reads for the tenant of the call."""

    def __init__(
        self, engine: Engine, fetcher: Fetcher, tenants: TenantDirectory, exceptions: frozenset[tuple[str, int]]
    ) -> None:
        """`exceptions`: (host, port) that may be read although they are not public."""
        self._engine = engine
        self._fetcher = fetcher
        self._tenants = tenants
        self._exceptions = exceptions

    async def Search(self, request: pb.SearchRequest, context: Any) -> pb.SearchResponse:
        policy = self._policy()
        query = request.query.strip()
        if not query or len(query) > _MAX_QUERY_CHARS:
            raise InvalidField(f"`query` must have 1 to {_MAX_QUERY_CHARS} characters.", field="query")
        count = _bounded("result_count", request.result_count, _DEFAULT_RESULTS, _MAX_RESULTS)
        found = await self._engine.search(query, request.language)
        results = permitted(found.results, policy, count)
        return pb.SearchResponse(
            results=[pb.Result(url=r.url, title=r.title, snippet=r.snippet, published=r.published) for r in results],
            unresponsive_engines=found.unresponsive_engines,
        )

    async def Fetch(self, request: pb.FetchRequest, context: Any) -> pb.FetchResponse:
        policy = self._policy()
        max_chars = _bounded("max_chars", request.max_chars, _DEFAULT_CHARS, _MAX_CHARS)
        page = await self._fetcher.fetch(request.url, policy)
        response = pb.FetchResponse(
            final_url=page.final_url,
            content_type=page.content_type,
            status_code=page.status_code,
            truncated=page.truncated,
        )
        response.fetch_time.GetCurrentTime()
        if extract.is_text(page.content_type):
            text = await asyncio.to_thread(extract.extract, page.body, page.content_type, page.final_url, max_chars)
            response.title, response.text = text.title, text.text
            response.truncated |= text.truncated
        else:
            response.content = page.body
        return response

    def _policy(self) -> Policy:
        web = self._web()
        if web.sovereign:
            raise NotPermitted("This tenant is sovereign: it does not reach the public web.", rule="sovereign")
        return Policy(web.allowed_domains, web.denied_domains, self._exceptions)

    def _web(self) -> Web:
        tenant = self._tenants.get(context.tenant())
        if tenant is None:
            raise NotPermitted("The tenant is not known here.", rule="tenant")
        return tenant.web


def _bounded(field: str, value: int, default: int, most: int) -> int:
    if not 0 <= value <= most:
        raise InvalidField(f"`{field}` must be between 1 and {most}.", field=field)
    return value or default


def exceptions_from(text: str) -> frozenset[tuple[str, int]]:
    """Parses `host:port,host:port`. Raises ValueError naming the part that is wrong."""
    found: set[tuple[str, int]] = set()
    for part in filter(None, map(str.strip, text.split(","))):
        host, _, port = part.rpartition(":")
        if not host or not port.isdecimal():
            raise ValueError(f"SABUESO_ALLOWED_PRIVATE_ADDRESSES: `{part}` is not host:port")
        found.add((host.strip("[]").lower(), int(port)))
    return frozenset(found)
