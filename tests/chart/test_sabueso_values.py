"""Values of charts/sabueso: all that can be filled, every pair of choices, and what is refused and how it is named."""

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.chart.cluster_facts import (
    GOOD,
    SEED,
    breaches_of_restricted,
    check_schemas,
    containers,
    documents,
    pods,
    render,
    texts,
)
from tests.chart.sabueso_values import BUILT_IN, CHOICES, RELEASES, RESOURCES, TAKEN_IN, UNDERSTUDIED, rendered

DEFAULTS = yaml.safe_load(Path("charts/sabueso/values.yaml").read_text())
SINKS = {"taken in": TAKEN_IN, "built in": BUILT_IN, "understudied": UNDERSTUDIED}


@pytest.fixture(scope="module", params=SINKS)
def sink(request):
    return rendered(request.param) if request.param in RELEASES else render(**UNDERSTUDIED)


def test_what_fills_everything_is_valid(sink):
    check_schemas(sink, ["1.30", "1.37"])


def test_every_pod_is_restricted_whoever_makes_it(sink):
    for owner, pod in pods(sink):
        assert not breaches_of_restricted(pod), owner["metadata"]["name"]
        assert pod["spec"]["enableServiceLinks"] is False
        assert pod["spec"]["automountServiceAccountToken"] is False
        for container in containers(pod):
            assert container["securityContext"]["readOnlyRootFilesystem"] is True


def _empty_leaves(node: Any, path: str = "") -> set[str]:
    if isinstance(node, dict) and node:
        return set().union(*(_empty_leaves(value, f"{path}.{key}") for key, value in node.items()))
    return {path} if node in ("", [], {}) else set()


def _filled_leaves(node: Any, path: str = "") -> set[str]:
    if isinstance(node, dict) and node:
        return {path} | set().union(*(_filled_leaves(value, f"{path}.{key}") for key, value in node.items()))
    return {path} if node not in ("", [], {}) else set()


def test_nothing_that_is_empty_by_default_was_forgotten():
    """An indent that is wrong shows only where a list or a map has something in it."""
    defaults = yaml.safe_load(Path("charts/sabueso/values.yaml").read_text())
    filled = set().union(*map(_filled_leaves, SINKS.values())) | _filled_leaves(GOOD)
    empty = {path for path in _empty_leaves(defaults) if not path.startswith(".services.")}
    # One release takes one of these each; pairs of choices have the others. The rest is of the alerts' own tests.
    elsewhere = {".builtin.existingSecret", ".alerts.without", ".alerts.thresholds", ".alerts.slos"}
    assert empty - filled - elsewhere == set()


def _pairwise(choices: dict[str, list[Any]]) -> list[dict[str, int]]:
    """Few combinations in which every two options of two choices meet."""
    names = list(choices)
    wanted = {
        (a, i, b, j)
        for a, b in itertools.combinations(names, 2)
        for i in range(len(choices[a]))
        for j in range(len(choices[b]))
    }
    found: list[dict[str, int]] = []
    while wanted:
        a, i, b, j = min(wanted)
        row = {a: i, b: j}
        for name in names:
            if name not in row:
                row[name] = max(
                    range(len(choices[name])), key=lambda k: (len(wanted & _pairs(row | {name: k}, names)), -k)
                )
        wanted -= _pairs(row, names)
        found.append(row)
    return found


def _pairs(row: dict[str, int], names: list[str]) -> set[tuple[str, int, str, int]]:
    there = [name for name in names if name in row]
    return {(a, row[a], b, row[b]) for a, b in itertools.combinations(there, 2)}


def _merged(target: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    result = dict(target)
    for key, value in more.items():
        known = result.get(key)
        result[key] = _merged(known, value) if isinstance(known, dict) and isinstance(value, dict) else value
    return result


def test_every_pair_of_choices_is_valid():
    rows = _pairwise(CHOICES)
    assert len(rows) < 30
    seen: dict[str, Any] = {}
    least = {key: value for key, value in GOOD.items() if key != "tenants"}
    for row in rows:
        values = least
        for name, index in row.items():
            values = _merged(values, CHOICES[name][index])
        for manifest in render(**values):
            seen.setdefault(json.dumps(manifest, sort_keys=True), manifest)
    check_schemas(list(seen.values()), ["1.37"])
    for owner, pod in pods(list(seen.values())):
        assert not breaches_of_restricted(pod), owner["metadata"]["name"]


@pytest.mark.parametrize("name", SINKS)
def test_two_renders_are_the_same_to_the_byte(name):
    """Nothing random and nothing of now: an upgrade that changes nothing restarts nothing."""
    assert texts(**SINKS[name]) == texts(**SINKS[name])


@pytest.mark.parametrize("name", SINKS)
def test_no_number_is_written_as_a_float(name):
    for file, text in texts(**SINKS[name]).items():
        assert "e+" not in text, file


def test_large_numbers_stay_whole():
    large = {"drain": {"graceSeconds": 3600}, "priorityClasses": {"create": True, "servingValue": 1_000_000_000}}
    text = "".join(
        texts(
            **GOOD, **large, evaluation={"weekly": TAKEN_IN["evaluation"]["weekly"] | {"maxSeconds": 10_000_000}}
        ).values()
    )
    assert "value: 1000000000" in text
    assert "activeDeadlineSeconds: 10000000" in text
    assert "e+" not in text


WRONG: list[tuple[dict[str, Any], str]] = [
    ({}, "existingSecret"),
    ({"existingSecret": "a", "tenants": {}}, "tenants"),
    (GOOD | {"databases": {}}, "databases.existingSecret"),
    (GOOD | {"imagee": {}}, "imagee"),
    (GOOD | {"image": {"registy": "r"}}, "registy"),
    (GOOD | {"valkeyUrl": "redis://valkey:6379"}, "valkeyUrl"),
    (GOOD | {"valkey": {"url": "valkey:6379"}}, "valkey"),
    (GOOD | {"valkey": {"url": "redis://:password@valkey:6379"}}, "valkey"),
    (GOOD | {"qdrant": {"url": "http://user:key@qdrant:6333"}}, "qdrant"),
    (GOOD | {"qdrant": {"apiKey": "secret"}}, "apiKey"),
    (GOOD | {"model": {"apiKey": "secret"}}, "apiKey"),
    (GOOD | {"identitySecret": "0123456789"}, "identitySecret"),
    (GOOD | {"tenants": {"existingConfigMap": "a", "existingSecret": "b"}}, "only one of"),
    (GOOD | {"tenants": {"existingConfigMap": "", "files": {"a.json": "{}"}}}, "a.json"),
    (GOOD | {"services": {"gateway": {"calls": ["nobody"]}}}, "nobody"),
    (GOOD | {"services": {"gateway": {"needs": ["mail"]}}}, "needs"),
    (GOOD | {"services": {"gateway": {"replica": 2}}}, "replica"),
    (GOOD | {"services": {"gatway": {"replicas": 2}}}, "gatway"),
    (GOOD | {"services": {"gateway": {"enabled": False}}}, "services.gateway.enabled"),
    (GOOD | {"services": {"retrieval": {"enabled": False}}}, "services.retrieval.address"),
    (GOOD | {"services": {"retrieval": {"address": "r:1"}}}, "services.retrieval.enabled=false"),
    (GOOD | {"services": {"retrieval": {"enabled": False, "address": "http://r"}}}, "address"),
    (GOOD | {"services": {"gateway": {"env": {"SABUESO_PORT": "1"}}}}, "SABUESO_PORT"),
    (GOOD | {"services": {"gateway": {"env": {"SABUESO_TRACE_CONTENT": True}}}}, "SABUESO_TRACE_CONTENT"),
    (GOOD | {"services": {"gateway": {"scaling": {"min": 5, "max": 2}}}, "autoscaling": {"kind": "hpa"}}, "max is"),
    (GOOD | {"services": {"ingestion": {"replicas": 2}}}, "ReadWriteMany"),
    (GOOD | {"services": {"gateway": {"resources": {"requests": {"cpu": "1 core"}}}}}, "cpu"),
    # As a number it would be written 1.048576e+08.
    (GOOD | {"services": {"gateway": {"resources": {"limits": {"memory": 104857600}}}}}, "memory"),
    (GOOD | {"services": {"gateway": {"extraVolumes": [{"name": "h", "hostPath": {"path": "/"}}]}}}, "extraVolumes"),
    (GOOD | {"services": {"gateway": {"extraVolumes": [{"name": "tmp", "emptyDir": {}}]}}}, "extraVolumes"),
    (GOOD | {"services": {"gateway": {"tolerations": [{"keyy": "a"}]}}}, "keyy"),
    (GOOD | {"networkPolicy": {"clients": [{"podSelecto": {}}]}}, "podSelecto"),
    (GOOD | {"networkPolicy": {"dnsPorts": []}}, "dnsPorts"),
    (GOOD | {"autoscaling": {"kind": "vpa"}}, "kind"),
    (GOOD | {"metrics": {"monitor": "both"}}, "monitor"),
    (GOOD | {"ingress": {"enabled": True}, "httpRoute": {"enabled": True}}, "httpRoute"),
    (GOOD | {"httpRoute": {"enabled": True}}, "parentRefs"),
    (GOOD | {"drain": {"graceSeconds": 0}}, "graceSeconds"),
    (GOOD | {"tryout": {"enabled": True}}, "tryout.seed"),
    (GOOD | {"tryout": {"seed": SEED}}, "tryout.enabled"),
    (GOOD | {"tryout": {"enabled": True, "seed": "short"}}, "seed"),
    (GOOD | {"tryout": {"enabled": True, "seed": SEED}}, "existingSecret"),
    (GOOD | {"builtin": {"valkey": {"enabled": True}}}, "builtin.existingSecret"),
    (GOOD | {"model": {"pools": "a", "existingPools": "b"}}, "existingPools"),
    (GOOD | {"model": {"pools": "a"}, "services": {"understudy": {"enabled": True}}}, "understudy"),
    (GOOD | {"global": {"imageRegistry": "https://reg.local/"}}, "imageRegistry"),
    (GOOD | {"model": {"poolKeys": {"large": "key"}}}, "model.poolKeys"),
    (GOOD | {"services": {"qdrant": {"replicas": 1, "calls": [], "needs": [], "resources": RESOURCES}}}, "qdrant"),
    (GOOD | {"pods": {"labels": {"team": "data & search"}}}, "team"),
    (GOOD | {"pods": {"labels": {"a team": "data"}}}, "a team"),
    (GOOD | {"services": {"gateway": {"labels": {"team": "-data"}}}}, "team"),
    (GOOD | {"services": {"gateway": {"nodeSelector": {"disk/": "fast"}}}}, "disk/"),
    (GOOD | {"services": {"reranking": None}}, "reranking"),
    # Null takes away a default: without one `enabled` would count as true, and files would have no place.
    (GOOD | {"services": {"understudy": {"enabled": None}}}, "missing property 'enabled'"),
    (GOOD | {"services": {"ingestion": {"persistence": None}}}, "services.ingestion.persistence"),
    (GOOD | {"services": {"evaluation": {"persistence": None}}}, "services.evaluation.persistence"),
    (GOOD | {"loadTest": {"enabled": True}}, "loadTest.existingSecret"),
    (GOOD | {"loadTest": {"file": "bench"}}, "file"),
    (GOOD | {"loadTest": {"rate": 0}}, "rate"),
]  # fmt: skip


@pytest.mark.parametrize(("values", "says"), WRONG)
def test_wrong_values_are_refused_by_name(values, says):
    with pytest.raises(Exception, match=says):
        render(**values)


@pytest.mark.parametrize(
    "ingestion",
    [
        {"persistence": None, "enabled": False},
        {
            "persistence": None,
            "extraVolumes": [{"name": "own", "emptyDir": {}}],
            "extraVolumeMounts": [{"name": "own", "mountPath": "/data"}],
        },
    ],
)
def test_a_service_without_a_volume_is_taken_where_it_needs_none_or_brings_one(ingestion):
    check_schemas(render(**GOOD | {"services": {"ingestion": ingestion}}), ["1.37"])


@pytest.mark.parametrize("values", [{"priorityClasses": {"create": True}}, {"evaluation": TAKEN_IN["evaluation"]}])
def test_no_priority_class_gets_a_name_that_kubernetes_keeps_for_itself(values):
    """The API server refuses what begins with `system-`, after half of a release is installed."""
    with pytest.raises(Exception, match="would be called system-ai-…"):
        texts(namespace="system-ai", **GOOD | values)
    texts(namespace="ai-system", **GOOD | values)


@pytest.mark.parametrize("key", [key for key, value in DEFAULTS.items() if value and key not in ("global", "services")])
def test_a_part_that_is_set_to_null_is_named(key):
    """Helm takes null for "no default": what then is missing has a name, and is no nil pointer within a template."""
    with pytest.raises(Exception, match=f"missing propert.*'{key}'"):
        render(**GOOD | {key: None})


@pytest.mark.parametrize(
    "text",
    [
        "id: acme\n# Olé: ñ\nkeys:\n  - id: a\n    sha256: 00\n",
        # What begins with blanks or nothing, and would be read as deeper or as other YAML.
        "  id: acme\n  keys: []\n",
        "\n# one\n---\nid: acme\n",
        "id: acme\n\tnote: {{ not ours }}\n",
    ],
)
def test_a_document_of_tenants_given_as_a_file_is_kept_as_it_is(text):
    values = GOOD | {"tenants": {"files": {"acme.yaml": text}}, "model": {"pools": text}}
    files = documents(texts(**values))
    assert [m["data"] for m in files if m["kind"] == "ConfigMap"] == [{"acme.yaml": text}, {"pools.yaml": text}]


# ---- names that YAML would read as something else

# A Secret may be called so; without quotes it would be a number, a truth, or nothing.
NUMBERS: dict[str, Any] = {
    "existingSecret": "123",
    "tenants": {"existingSecret": "1e3"},
    "databases": {"existingSecret": "0"},
    "mcp": {"existingSecret": "007"},
    "model": {"existingPools": "on", "poolKeys": {"1": "2"}},
    "priorityClasses": {"serving": "true", "batch": "1"},
    "autoscaling": {"kind": "keda", "triggerAuthentication": "4"},
    "tests": {"existingSecret": "5"},
    "evaluation": {"keysSecret": "6", "weekly": {"existingSecret": "7", "goldenClaim": "8", "runsClaim": "10"}},
    "services": {"ingestion": {"persistence": {"storageClass": "9", "existingClaim": ""}}},
    "loadTest": {"run": "2", "existingSecret": "11", "existingConfigMap": "12", "resultsClaim": "13"},
}
BUILT_OF_NUMBERS: dict[str, Any] = {
    "builtin": {"qdrant": {"storageClass": "1"}, "postgresql": {"storageClass": "2", "initConfigMap": "3"}},
    "ingress": {"className": "4", "tlsSecret": "5", "paths": ["/a, b: {c}", "/#d"]},
    "evaluation": {"weekly": {"storageClass": "6"}},
}


@pytest.mark.parametrize("values", [_merged(TAKEN_IN, NUMBERS), _merged(BUILT_IN, BUILT_OF_NUMBERS)])
def test_names_that_look_like_numbers_stay_names(values):
    check_schemas(render(**values), ["1.37"])


@pytest.mark.parametrize(
    ("release", "namespace"), [("on", "123"), ("null", "1e3"), ("vllm", "y"), ("postgres", "a" * 63)]
)
def test_releases_and_namespaces_may_have_any_name_that_helm_allows(release, namespace):
    for values in (TAKEN_IN, BUILT_IN):
        manifests = documents(texts(release=release, namespace=namespace, **values))
        check_schemas(manifests, ["1.37"])
        for owner, pod in pods(manifests):
            assert pod["metadata"]["labels"]["app.kubernetes.io/instance"] == release
            assert len(owner["metadata"]["name"]) <= 63
