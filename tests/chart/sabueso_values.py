"""Values of charts/sabueso that fill everything there is to fill: with what is taken in, and with what is built in."""

from functools import cache
from typing import Any

from tests.chart.cluster_facts import GOOD, SEED, Manifest, render, tryout_values

PEERS = [{"namespaceSelector": {"matchLabels": {"team": "data"}}, "podSelector": {"matchLabels": {"app": "it"}}}]
RESOURCES = {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "2", "memory": "2Gi"}}
_VOLUME = {"name": "own", "configMap": {"name": "own"}}
_MOUNT = {"name": "own", "mountPath": "/own", "readOnly": True}
_TOLERATION = {"key": "pool", "operator": "Equal", "value": "cpu", "effect": "NoSchedule"}
_SERVICE: dict[str, Any] = {
    "env": {"NO_PROXY": "10.0.0.0/8"},
    "secretEnv": {"REQUESTS_CA_BUNDLE": {"secret": "own", "key": "path"}},
    "egress": [{"ports": [8443], "to": PEERS}, {"ports": [9443]}],
    "image": {"repository": "team/own", "tag": "1.2.3"},
    "annotations": {"team": "answers"},
    "labels": {"cost": "answers"},
    "nodeSelector": {"disk": "fast"},
    "tolerations": [_TOLERATION],
    "affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}},
    "extraVolumes": [{"name": "models", "persistentVolumeClaim": {"claimName": "models"}}],
    "extraVolumeMounts": [{"name": "models", "mountPath": "/models", "readOnly": True}],
    "startupSeconds": 1800,
    "priority": "batch",
    "tmpSize": "5Gi",
}
_WEEKLY = {
    "enabled": True,
    "timeZone": "Europe/Madrid",
    "sets": ["demo", "demo-tools"],
    "goldenClaim": "golden",
    "tenant": "demo",
    "existingSecret": "evals",
    "judge": {"url": "https://judge.test/v1", "name": "judge-70b"},
}
_LOAD_TEST: dict[str, Any] = {
    "enabled": True,
    "seconds": 60,
    "rate": 2.5,
    "existingSecret": "load-keys",
    "existingConfigMap": "load-plan",
    "resultsClaim": "load-results",
    "image": {"repository": "team/load"},
    "nodeSelector": {"pool": "load"},
    "tolerations": [_TOLERATION],
}
_EVERYWHERE: dict[str, Any] = {
    "global": {"imageRegistry": "reg.local:5000"},
    "image": {"tag": "2.0.0", "pullSecrets": [{"name": "registry"}]},
    "otlp": {"endpoint": "http://otel:4317", "existingSecret": "otel", "peers": PEERS},
    "networkPolicy": {"dnsPorts": [53, 5353], "clients": PEERS},
    "pods": {
        "annotations": {"seen-by": "all"},
        "labels": {"team": "search"},
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "tolerations": [_TOLERATION],
        "env": {"SSL_CERT_FILE": "/own/ca.pem"},
        "extraVolumes": [_VOLUME],
        "extraVolumeMounts": [_MOUNT],
    },
    "service": {"ipFamilyPolicy": "PreferDualStack"},
    "evaluation": {
        "keysSecret": "tenant-keys",
        "alerts": {"enabled": True, "labels": {"release": "prometheus"}, "runbooks": "https://wiki.test/runbooks/"},
        "weekly": _WEEKLY,
    },
}

TAKEN_IN: dict[str, Any] = _EVERYWHERE | {
    "evaluation": _EVERYWHERE["evaluation"] | {"weekly": _WEEKLY | {"runsClaim": "reports"}},
    "existingSecret": "sabueso",
    "tenants": {"existingSecret": "tenants"},
    "databases": {"existingSecret": "databases"},
    "mcp": {"existingSecret": "mcp"},
    "valkey": {"existingSecret": "valkey", "port": 6380, "peers": PEERS},
    "qdrant": {"existingSecret": "qdrant", "peers": PEERS},
    "searxng": {"url": "http://searxng:8080", "peers": PEERS},
    "model": {
        "existingSecret": "model",
        "existingPools": "vllm-pools",
        "poolKeys": {"large": "vllm-key"},
        "ports": [8000, 8001],
        "peers": PEERS,
    },
    "httpRoute": {
        "enabled": True,
        "annotations": {"external-dns": "yes"},
        "parentRefs": [{"name": "public", "namespace": "gateways"}],
    },
    "autoscaling": {"kind": "keda", "triggerAuthentication": "prometheus"},
    "metrics": {"monitor": "service", "labels": {"release": "prometheus"}},
    "priorityClasses": {"serving": "answers", "batch": "later"},
    "alerts": {
        "enabled": True,
        "labels": {"release": "prometheus"},
        "runbooks": "https://wiki.test/runbooks/",
        "selectors": {
            name: 'namespace="elsewhere"' for name in ("modelPool", "qdrant", "postgresql", "valkey", "certificates")
        },
    },
    "loadTest": _LOAD_TEST | {"workers": 3},
    "dashboards": {"enabled": True, "annotations": {"grafana_folder": "sabueso"}},
    "tests": {
        "existingSecret": "key",
        "image": {"registry": "docker.io", "repository": "library/python", "tag": "3.13"},
    },
    "services": {
        "gateway": _SERVICE,
        "orchestrator": {"egress": [{"ports": [443]}]},
        "embedding": {"enabled": False, "address": "dns:///embedding-serve:9000", "peers": PEERS},
        "reranking": {"enabled": False, "address": "reranking-serve:9000"},
        "ingestion": {
            "replicas": 3,
            "persistence": {"accessMode": "ReadWriteMany", "storageClass": "shared", "existingClaim": "spool"},
        },
        "evaluation": {"secretEnv": {"SABUESO_RESULTS_DSN": {"secret": "evaluation", "key": "dsn"}}},
    },
}

BUILT_IN: dict[str, Any] = _EVERYWHERE | {
    "evaluation": _EVERYWHERE["evaluation"] | {"weekly": _WEEKLY | {"storageClass": "fast"}},
    "tryout": {"enabled": True, "seed": SEED},
    "tenants": {"files": {"acme.yaml": "id: acme\nkeys: []\n", "other.yml": "id: other\n"}},
    "builtin": {
        "qdrant": {"enabled": True, "storageClass": "fast"},
        "valkey": {"enabled": True, "storageClass": "fast"},
        "postgresql": {"enabled": True, "storageClass": "fast", "initConfigMap": "tables"},
    },
    "model": {"pools": "pools:\n  - name: large\n"},
    "ingress": {
        "enabled": True,
        "className": "nginx",
        "annotations": {"nginx.ingress.kubernetes.io/proxy-buffering": "off"},
        "tlsSecret": "certificate",
    },
    "autoscaling": {"kind": "hpa"},
    "metrics": {"monitor": "pod", "labels": {"release": "prometheus"}},
    "priorityClasses": {"create": True},
    "loadTest": _LOAD_TEST,
    "services": {
        "web_tool": {"secretEnv": {"SABUESO_BRAVE_API_KEY": {"secret": "search", "key": "brave"}}},
        "retrieval": {"image": {"digest": "sha256:" + "ab" * 32}},
        "embedding": {"egress": [{"ports": [443]}]},
        "reranking": {"egress": [{"ports": [443]}]},
        "sql_tool": {"enabled": False},
    },
}

UNDERSTUDIED: dict[str, Any] = GOOD | {
    "services": {"understudy": {"enabled": True}, "evaluation": {"enabled": False}},
    "networkPolicy": {"enabled": False},
    "tests": {"enabled": False},
}

# What is switched independently of all else, for tests of every pair.
CHOICES: dict[str, list[dict[str, Any]]] = {
    "backing": [
        {"valkey": {"existingSecret": "valkey"}, "qdrant": {"existingSecret": "qdrant"}},
        {
            "builtin": {
                "existingSecret": "builtin",
                **{name: {"enabled": True} for name in ("qdrant", "valkey", "postgresql")},
            }
        },
        {},
    ],
    "tenants": [
        {"tenants": {"existingConfigMap": "t"}},
        {"tenants": {"existingSecret": "t"}},
        {"tenants": {"files": {"a.yaml": "id: a"}}},
    ],
    "model": [
        {},
        {"model": {"pools": "pools: []"}},
        {"model": {"existingSecret": "m"}},
        {"model": {"existingPools": "p"}},
    ],
    "autoscaling": [{"autoscaling": {"kind": kind}} for kind in ("none", "hpa", "keda")],
    "exposure": [{}, {"ingress": {"enabled": True}}, {"httpRoute": {"enabled": True, "parentRefs": [{"name": "g"}]}}],
    "monitor": [{"metrics": {"monitor": kind}} for kind in ("none", "pod", "service")],
    "policies": [{"networkPolicy": {"enabled": enabled}} for enabled in (True, False)],
    "priorities": [{"priorityClasses": {"create": create}} for create in (False, True)],
    "weekly": [{}, {"evaluation": {"weekly": _WEEKLY}}],
    "loadTest": [{}, {"loadTest": _LOAD_TEST}, {"loadTest": _LOAD_TEST | {"workers": 2}}],
    "tests": [{"tests": {"enabled": enabled}} for enabled in (True, False)],
    "elsewhere": [
        {},
        {"services": {"embedding": {"enabled": False, "address": "e:9"}, "sql_tool": {"enabled": False}}},
    ],
    "pods": [{}, {"pods": _EVERYWHERE["pods"]}],
}  # fmt: skip

RELEASES = {"least": GOOD, "taken in": TAKEN_IN, "built in": BUILT_IN, "tryout": tryout_values()}


@cache
def rendered(name: str) -> list[Manifest]:
    """The manifests of one of RELEASES. Not to be changed: tests share them."""
    return render(**RELEASES[name])
