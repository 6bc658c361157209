import hashlib

import pytest
import yaml

from services.orchestrator.arguments import TypedForm
from services.orchestrator.results import Pages
from services.orchestrator.tool_maker import ToolMaker, ToolTimeouts
from services.orchestrator.tools import WebSearch
from services.runtime.tenants import TenantDirectory

KEY = {"id": "k", "sha256": hashlib.sha256(b"k").hexdigest()}


class Clock:
    def __init__(self):
        self.seconds = 1000.0

    def __call__(self):
        return self.seconds


async def search(arguments, seconds):
    return Pages(())


@pytest.fixture
def written(tmp_path):
    def write(**tenant):
        (tmp_path / "acme.yaml").write_text(yaml.safe_dump({"id": "acme", "keys": [KEY]} | tenant))
        return tmp_path

    return write


def test_results_are_not_kept_while_services_may_still_go_by_the_old_files(written):
    """A result with a column that has just been withdrawn would be found under the new files all its life."""
    clock = Clock()
    tenants = TenantDirectory(written())
    maker = ToolMaker(ToolTimeouts(), clock)

    def made():
        return maker.make(tenants.get("acme"), "web_search", search, form=TypedForm(WebSearch), result=Pages)

    before = made()
    written(web={"denied_domains": ["example.com"]})
    assert tenants.reload()
    after = made()
    clock.seconds += 119
    assert (before.cache_ttl_seconds, after.cache_ttl_seconds, made().cache_ttl_seconds) == (300, 0, 0)
    clock.seconds += 1
    assert made().cache_ttl_seconds == 300
    assert made().cache_version != before.cache_version


def test_what_decides_over_no_result_leaves_results_as_they_are(written):
    tenants = TenantDirectory(written())
    maker = ToolMaker(ToolTimeouts(), Clock())

    def made():
        return maker.make(tenants.get("acme"), "web_search", search, form=TypedForm(WebSearch), result=Pages)

    before = made()
    written(limits={"requests_per_minute": 5}, tools={"vector_search": {"enabled": False}})
    assert tenants.reload()
    after = made()
    assert (after.cache_ttl_seconds, after.cache_version) == (before.cache_ttl_seconds, before.cache_version)
