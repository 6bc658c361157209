"""Programs of other people's MCP servers: not in a cluster, unless one value says so."""

import pytest

from tests.chart.cluster_facts import GOOD, containers, pods, render

NAME = "SABUESO_MCP_STDIO"


def _allowed(manifests):
    return {
        owner["metadata"]["name"]: env["value"]
        for owner, pod in pods(manifests)
        for container in containers(pod)
        for env in container.get("env", ())
        if env["name"] == NAME
    }


@pytest.mark.parametrize(
    "more",
    [
        {"services": {"orchestrator": {"env": {NAME: "true"}}}},
        {"services": {"orchestrator": {"secretEnv": {NAME: {"secret": "s", "key": "k"}}}}},
        {"pods": {"env": {NAME: "1"}}},
    ],
)
def test_programs_are_refused_unless_the_value_for_them_says_so(more):
    with pytest.raises(Exception, match=r"SABUESO_MCP_STDIO.*mcp\.programs=true"):
        render(**GOOD | more)


def test_programs_may_be_turned_off_where_they_are_off():
    assert _allowed(render(**GOOD)) == {}
    assert set(_allowed(render(**GOOD | {"pods": {"env": {NAME: "false"}}})).values()) == {"false"}


def test_only_the_orchestrator_may_start_programs_where_they_are_allowed():
    assert list(_allowed(render(**GOOD | {"mcp": {"programs": True}})).values()) == ["true"]
