"""What a tenant's file may say of foreign servers, and that what cannot work is said when it is read."""

import pytest
from pydantic import ValidationError

from services.runtime.tenants import Tenant

CRM = {"name": "crm", "url": "https://crm.internal:8443/mcp", "tools": {"find": ""}}
QUERY = {"description": "d", "sql": "SELECT 1", "owner": "o", "reviewed_on": "2025-01-01"}
TABLES = {"contracts": {"columns": {"id": {}}}}


def tenant(*servers, **fields):
    return Tenant.model_validate({"id": "acme", "mcp": list(servers), **fields})


def test_a_servers_tools_are_named_after_it():
    (server,) = tenant(CRM | {"tools": {"find": "", "a.b/c d": "", "ñ": ""}}).mcp
    assert [server.tool_name(name) for name in server.tools] == ["crm__find", "crm__a_b_c_d", "crm___"]


def test_its_tools_can_be_described_cached_and_switched_off():
    known = tenant(CRM, tools={"crm__find": {"enabled": False}})
    assert not known.tool("crm__find").enabled


@pytest.mark.parametrize(
    ("servers", "said"),
    [
        ([CRM | {"url": ""}], "either `url` or `command`"),
        ([CRM | {"command": ["x"]}], "either `url` or `command`"),
        ([CRM | {"url": "ftp://x"}], "url"),
        ([CRM | {"url": "http://user:pass@x/mcp"}], "url"),
        ([CRM | {"url": "http://x/mcp#a"}], "url"),
        ([CRM | {"name": "CRM"}], "name"),
        ([CRM | {"name": "crm.x"}], "name"),
        ([CRM | {"tools": {}}], "tools"),
        ([CRM | {"tools": {"find": "abc"}}], "find"),
        ([CRM | {"token_secret": "../etc/passwd"}], "token_secret"),
        ([CRM | {"token_secret": "..", "tools": {"find": ""}}], "token_secret"),
        ([CRM | {"token_variable": "TOKEN"}], "for programs"),
        ([CRM | {"url": "", "command": ["x"], "token_secret": "t"}], "token_variable"),
        ([CRM, CRM], "server names must differ"),
        ([CRM | {"tools": {"a.b": "", "a_b": ""}}], "`crm__a_b`, as `a.b` of `crm` is already"),
        ([CRM | {"name": "a"} | {"tools": {"b__c": ""}}, CRM | {"name": "a__b", "tools": {"c": ""}}], "is already"),
        ([CRM | {"tools": {"x" * 60: ""}}], "65 characters; models take 64"),
        ([CRM | {"timeout_seconds": 0}], "timeout_seconds"),
    ],
)
def test_what_cannot_work_is_refused_with_its_reason(servers, said):
    with pytest.raises(ValidationError) as caught:
        tenant(*servers)
    assert said in str(caught.value)


def test_a_tool_may_not_bear_the_name_of_a_verified_query():
    sql = {"dsn_secret": "d", "tables": TABLES, "verified_queries": {"crm__find": QUERY}}
    with pytest.raises(ValidationError, match="as a verified query is already"):
        tenant(CRM, sql=sql)


def test_an_unknown_tool_is_named_with_those_that_are_known():
    with pytest.raises(ValidationError, match=r"unknown crm__delete; known are .*crm__find"):
        tenant(CRM, tools={"crm__delete": {}})


def test_results_in_other_words_do_not_serve_for_foreign_tools():
    with pytest.raises(ValidationError, match="semantic_similarity"):
        tenant(CRM, tools={"crm__find": {"semantic_similarity": 0.9}})
