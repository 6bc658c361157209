"""Makes a tool: our description or the tenant's, its time, and how long its results serve."""

import hashlib
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from importlib.resources import files
from typing import Any, cast

import yaml

from services.orchestrator.arguments import ArgumentForm
from services.orchestrator.result_cache import FORMAT_VERSION
from services.orchestrator.results import Found
from services.orchestrator.tools import SERVICES, VERIFIED_QUERY, Tool
from services.runtime.tenants import Tenant

# The files reach the processes one after another, in Kubernetes within two minutes. Until then a tool may still answer
# by the old ones, and a result with a column that has just been withdrawn must not be kept as one of the new ones.
_SETTLING_SECONDS = 120
_REACHES_NOTHING_SECONDS = 1.0

# What of a tenant's file decides over results, besides the descriptions of the tools.
_DECIDING = {"sql", "web", "collections"}


@dataclass(frozen=True)
class ToolTimeouts:
    """Seconds that one call of a tool may take."""

    vector_search: float = 5
    sql_query: float = 8
    web_search: float = 10


@dataclass(frozen=True)
class _Policy:
    """The deciding part of a tenant's file as `version`, and the time from which all services surely go by it."""

    tenant: Tenant
    version: str
    settled_at: float


def default_descriptions() -> Mapping[str, str]:
    """The texts of tools.yaml by tool name."""
    text = files("services.orchestrator").joinpath("tools.yaml").read_text(encoding="utf-8")
    return cast(dict[str, str], yaml.safe_load(text))


class ToolMaker:
    """Makes the tools of all tenants."""

    def __init__(self, timeouts: ToolTimeouts, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` gives seconds."""
        self._clock = clock
        self._policies: dict[str, _Policy] = {}
        self._descriptions = default_descriptions()
        self._timeouts: Mapping[str, float] = {
            "vector_search": timeouts.vector_search,
            "sql_query": timeouts.sql_query,
            "web_search": timeouts.web_search,
            VERIFIED_QUERY: timeouts.sql_query,
            "calculate": _REACHES_NOTHING_SECONDS,
        }

    def make(
        self,
        tenant: Tenant,
        name: str,
        call: Callable[[Any, float], Awaitable[Found]],
        *,
        form: ArgumentForm,
        result: type[Found],
        description: str = "",
        appendix: str = "",
        data_version: str = "",
        service: str = "",
        timeout_seconds: float = 0,
    ) -> Tool:
        """The tool. `description`: of a tool that has none of ours; `appendix` follows whatever description there is.

        `data_version` changes whenever the results of equal calls may, besides by the tenant's file. `service` and
        `timeout_seconds`: of a tool that is none of ours.
        """
        own, policy = tenant.tool(name), self._policy(tenant)
        text = own.description or description or self._descriptions[name]
        version = hashlib.sha256("\0".join((FORMAT_VERSION, policy.version, text, data_version)).encode())
        made = Tool(
            name=name,
            service=service or SERVICES.get(name, "sql_tool"),
            description=f"{text}\n{appendix}" if appendix else text,
            form=form,
            result=result,
            call=call,
            timeout_seconds=timeout_seconds,
            cache_ttl_seconds=own.cache_ttl_seconds if self._clock() >= policy.settled_at else 0,
            cache_version=version.hexdigest()[:32],
            min_similarity=own.semantic_similarity,
        )
        return made if timeout_seconds else replace(made, timeout_seconds=self._timeouts[made.kind])

    def _policy(self, tenant: Tenant) -> _Policy:
        known = self._policies.get(tenant.id)
        if known is not None and known.tenant is tenant:
            return known
        version, settled_at = tenant.model_dump_json(include=_DECIDING), self._clock()
        if known is not None:
            settled_at = known.settled_at if known.version == version else settled_at + _SETTLING_SECONDS
        made = self._policies[tenant.id] = _Policy(tenant, version, settled_at)
        return made
