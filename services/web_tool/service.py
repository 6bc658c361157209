"""Translates between protobuf and search, internal data and reading."""

import re
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime
from typing import Any

from sabueso.web_tool.v1 import web_tool_pb2 as pb
from sabueso.web_tool.v1 import web_tool_pb2_grpc as rpc
from services.runtime import context
from services.runtime.errors import InvalidField, NotPermitted
from services.runtime.settings import WrongSetting
from services.runtime.tenants import TenantDirectory, Web
from services.web_tool.internal_data import inspect, says_internal_term
from services.web_tool.invisible import cleaned
from services.web_tool.policy import Policy
from services.web_tool.reading import Reader
from services.web_tool.search.fallback import Fallback
from services.web_tool.search.metrics import INTERNAL_DATA
from services.web_tool.search.provider import Query
from services.web_tool.search.results import tidy

_MAX_QUERY_CHARS = 400
_MAX_TERMS, _MAX_TERM_CHARS = 2000, 200
# Longer ones are refused by themselves.
_MAX_INSPECTED_CHARS = 4000
_DEFAULT_RESULTS, _MAX_RESULTS = 5, 20
_DEFAULT_CHARS, _MAX_CHARS = 20_000, 200_000
# Some of what is found is dropped: pages that the tenant may not name, and the same page twice.
_SPARE_RESULTS = 5


def _today() -> date:
    return datetime.now(UTC).date()


class WebToolService(rpc.WebToolServiceServicer):
    """Searches and reads for the tenant of the call."""

    def __init__(
        self,
        search: Fallback,
        reader: Reader,
        tenants: TenantDirectory,
        exceptions: frozenset[tuple[str, int]],
        today: Callable[[], date] = _today,
    ) -> None:
        """`exceptions`: (host, port) that may be read although they are not public."""
        self._search = search
        self._reader = reader
        self._tenants = tenants
        self._exceptions = exceptions
        self._today = today

    async def Search(self, request: pb.SearchRequest, context: Any) -> pb.SearchResponse:
        web = self._web()
        policy = self._policy(web)
        query = _query(request.query)
        count = _bounded("result_count", request.result_count, _DEFAULT_RESULTS, _MAX_RESULTS)
        language = _language(request.language)
        sent = _without_internal_data(query, web, _terms(request.internal_terms))
        found = await self._search.search(Query(sent, language, min(count + _SPARE_RESULTS, _MAX_RESULTS)))
        results = tidy(found.results, policy, count, self._today())
        return pb.SearchResponse(
            results=[pb.Result(url=r.url, title=r.title, snippet=r.snippet, published=r.published) for r in results],
            unresponsive_engines=found.unresponsive_engines,
            provider=found.provider,
            redacted_query=sent if sent != query else "",
        )

    async def Fetch(self, request: pb.FetchRequest, context: Any) -> pb.FetchResponse:
        web = self._web()
        policy = self._policy(web)
        if not request.for_ingestion:
            _check_egress(request.url, web, policy)
        max_chars = _bounded("max_chars", request.max_chars, _DEFAULT_CHARS, _MAX_CHARS)
        page = await self._reader.read(request.url, policy, max_chars, for_ingestion=request.for_ingestion)
        response = pb.FetchResponse(
            final_url=page.final_url,
            title=page.title,
            text=page.text,
            truncated=page.truncated,
            content_type=page.content_type,
            status_code=page.status_code,
            content=page.content,
            removed_invisible=page.removed_invisible,
            charset=page.charset,
        )
        response.fetch_time.GetCurrentTime()
        return response

    def _policy(self, web: Web) -> Policy:
        if web.sovereign:
            raise NotPermitted("This tenant is sovereign: it does not reach the public web.", rule="sovereign")
        return Policy(web.allowed_domains, web.denied_domains, self._exceptions, robots=web.robots)

    def _web(self) -> Web:
        tenant = self._tenants.get(context.tenant())
        if tenant is None:
            raise NotPermitted("The tenant is not known here.", rule="tenant")
        return tenant.web


def _query(text: str) -> str:
    # What nobody sees could carry out what nobody should know.
    query = " ".join(cleaned(text)[0].split())
    if not query or len(text) > _MAX_QUERY_CHARS:
        raise InvalidField(f"`query` must have 1 to {_MAX_QUERY_CHARS} characters.", field="query")
    return query


def _language(text: str) -> str:
    if text and not re.fullmatch("[a-z]{2}", text):
        raise InvalidField("`language` must be two lower-case letters (ISO 639-1), or empty.", field="language")
    return text


def _terms(terms: Sequence[str]) -> Sequence[str]:
    if len(terms) > _MAX_TERMS or any(len(term) > _MAX_TERM_CHARS for term in terms):
        message = f"`internal_terms` must be at most {_MAX_TERMS} of at most {_MAX_TERM_CHARS} characters."
        raise InvalidField(message, field="internal_terms")
    return terms


def _without_internal_data(query: str, web: Web, marked: Sequence[str]) -> str:
    """What of the query may leave. Raises NotPermitted, which names kinds of what was found and never the values."""
    verdict = inspect(query, web, marked)
    for kind in verdict.kinds:
        INTERNAL_DATA.labels(kind, verdict.action).inc()
    if verdict.action == "refuse":
        kinds = ", ".join(kind.replace("_", " ") for kind in verdict.kinds)
        message = f"The query holds internal data ({kinds}), which does not leave. Ask in public words only."
        raise NotPermitted(message, rule="internal_data", kinds=",".join(verdict.kinds))
    return verdict.query


def _check_egress(url: str, web: Web, policy: Policy) -> None:
    """Raises NotPermitted for a URL that tells its server what must not leave; places inside may know it."""
    target = policy.check_url(url)
    if not policy.is_exception(target) and says_internal_term(
        target.url.partition("://")[2][:_MAX_INSPECTED_CHARS], web
    ):
        INTERNAL_DATA.labels("internal_term", "refuse").inc()
        raise NotPermitted(
            "The URL holds internal data, which does not leave.", rule="internal_data", kinds="internal_term"
        )


def _bounded(field: str, value: int, default: int, most: int) -> int:
    if not 0 <= value <= most:
        raise InvalidField(f"`{field}` must be between 1 and {most}.", field=field)
    return value or default


def exceptions_from(text: str) -> frozenset[tuple[str, int]]:
    """Parses `host:port,host:port`. Raises WrongSetting naming the part that is wrong."""
    found: set[tuple[str, int]] = set()
    for part in filter(None, map(str.strip, text.split(","))):
        host, _, port = part.rpartition(":")
        if not host or not port.isdecimal() or not 0 < int(port) < 65536:
            raise WrongSetting(f"`{part}` is not host:port", "SABUESO_ALLOWED_PRIVATE_ADDRESSES")
        found.add((host.strip("[]").lower(), int(port)))
    return frozenset(found)
