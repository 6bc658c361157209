"""The questions that the router learns from: ours for any company, the tenant's, and those of its reviewed queries."""

from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import cast

import yaml

from services.orchestrator.routing.head import SEVERAL
from services.orchestrator.tools import NAMES, Tool
from services.runtime.tenants import Tenant

# The label of questions that need no tool, and the tools that have a label of their own.
NONE = "none"
OURS = ("vector_search", "sql_query", "web_search")
# What an example of a label counts: `none` has the most and would win in doubt, and a source that is not asked is the
# worst mistake; `web_search` and what needs several have the fewest.
IMPORTANCE = {NONE: 0.6, "web_search": 1.4, SEVERAL: 1.5}
_MAX_DESCRIPTION_CHARS = 400


@cache
def built_in() -> Mapping[str, Sequence[str]]:
    """The questions of examples.yaml by label; those that need several tools by their labels with a plus between."""
    text = files("services.orchestrator.routing").joinpath("examples.yaml").read_text(encoding="utf-8")
    return cast(dict[str, list[str]], yaml.safe_load(text))


def foreign(tools: Mapping[str, Tool]) -> Mapping[str, str]:
    """Descriptions, by name, of the tools that are neither ours nor reviewed queries."""
    return {name: tool.description for name, tool in tools.items() if name not in NAMES and tool.origin}


def examples_of(
    tenant: Tenant | None, foreign_tools: Mapping[str, str], ours: Mapping[str, Sequence[str]] | None = None
) -> Sequence[tuple[str, str]]:
    """Label and text of each example. Of a foreign tool there is its description only. `ours`: for any company."""
    found = [(label, text) for label, texts in (built_in() if ours is None else ours).items() for text in texts]
    if tenant is not None:
        queries = {name: query for source in tenant.sql for name, query in source.verified_queries.items()}
        for name, tool in tenant.tools.items():
            label = "sql_query" if name in queries else name
            found += [(label, text) for text in tool.examples if label in (*OURS, *foreign_tools)]
        found += [("sql_query", one.question) for query in queries.values() for one in query.examples]
    found += [(name, " ".join(text.split())[:_MAX_DESCRIPTION_CHARS] or name) for name, text in foreign_tools.items()]
    return found
