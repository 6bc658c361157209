"""What the tests of charts/vllm share: values, and a pool's pod."""

from copy import deepcopy
from pathlib import Path
from typing import Any

import yaml

from tests.chart.cluster_facts import Manifest, of_kind, render

PROFILES = Path("k8s/values/vllm")
# The least that charts/vllm wants to know.
WEIGHTS: dict[str, Any] = {"defaults": {"weights": {"existingClaim": "models"}}}
SUM = "0123456789abcdef" * 4
PREFETCH = {"enabled": True, "revision": "a1b2c3d4e5" * 4, "checksums": {"config.json": SUM, "a/b.safetensors": SUM}}

# Everything that can be said is said.
KITCHEN_SINK: dict[str, Any] = {
    "global": {"imageRegistry": "reg.local:5000"},
    "image": {"pullSecrets": [{"name": "registry-key"}]},
    "pools": {
        "large": {"lora": {"enabled": True, "adapters": {"sql": "lora/sql", "es": "lora/es"}}},
        "small": {"enabled": True, "weights": {"from": "existingClaim", "existingClaim": "models"}},
        "judge": {"enabled": True},
        # Its files come before it is let in.
        "next": {"enabled": False, "model": {"name": "example/next", "path": "next"}},
    },
    "defaults": {
        "model": {"aliases": []},
        "gpu": {"runtimeClassName": "nvidia"},
        "nodeSelector": {"pool": "h100"},
        "priorityClassName": "model-serving",
        "podAnnotations": {"example.com/owner": "platform"},
        "podLabels": {"cost-centre": "answers", "app.kubernetes.io/name": "ours"},
        "chatTemplate": "/models/templates/tools.jinja",
        "extraArgs": ["--seed=1", "--enable-prompt-tokens-details"],
        "extraEnv": {"NCCL_DEBUG": "INFO"},
        "gateway": {"aliases": {}, "fallback": "example/other"},
        "apiKey": {"existingSecret": "model-key"},
        "weights": {
            "from": "claim",
            "claim": {"storageClassName": "shared-files"},
            "prefetch": PREFETCH
            | {"existingSecret": "hub", "endpoint": "https://hub.local", "env": {"HTTPS_PROXY": "http://proxy:3128"}},
        },
        "autoscaling": {"enabled": True, "minReplicas": 2, "maxReplicas": 4},
    },
    "networkPolicy": {"dnsPorts": [53, 5353]},
    "podMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
}


def plain(path: str) -> list[Manifest]:
    """The manifests of a file."""
    return [one for one in yaml.safe_load_all(Path(path).read_text()) if one]


def merged(*layers: dict[str, Any]) -> dict[str, Any]:
    """Values as Helm merges those of several files, the last one on top."""
    result: dict[str, Any] = {}
    for layer in layers:
        for key, value in layer.items():
            both = isinstance(value, dict) and isinstance(result.get(key), dict)
            result[key] = merged(result[key], value) if both else deepcopy(value)
    return result


def profile(*names: str) -> dict[str, Any]:
    """The values of k8s/values/vllm/<name>.yaml, one over the other."""
    return merged(*(yaml.safe_load((PROFILES / f"{name}.yaml").read_text()) for name in names))


def with_large(**settings: Any) -> dict[str, Any]:
    """The least values, with settings of the pool `large`."""
    return merged(WEIGHTS, {"pools": {"large": settings}})


def pool_pod(manifests: list[Manifest], pool: str = "large") -> Manifest:
    """The pod that the Deployment of a pool makes."""
    return of_kind(manifests, "Deployment")[f"try-{pool}"]["spec"]["template"]


def server(pod: Manifest) -> Manifest:
    """The container that serves."""
    (container,) = pod["spec"]["containers"]
    return container


def flag(container: Manifest, name: str) -> str:
    """The value of `--name=value`."""
    (found,) = [word for word in container["args"] if word.startswith(f"--{name}=")]
    return found.partition("=")[2]


def variables(container: Manifest) -> dict[str, str]:
    """Environment variables with a value."""
    return {one["name"]: one["value"] for one in container["env"] if "value" in one}


def rendered(**values: Any) -> list[Manifest]:
    """charts/vllm with these values."""
    return render("vllm", **values)
