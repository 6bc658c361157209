"""What the tests of the charts share: rendering, and facts that hold between objects of a cluster.

Three renderers: Helm's library in this process (15 ms, for many values), and the programs Helm 3 and Helm 4 (100 ms;
they know `api_versions` and `kube_version`). Objects are the dicts of their manifests.
"""

import json
import re
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import helm_python
import jsonschema
import yaml
from kubernetes_validate import utils
from referencing import Registry, Resource

from local import helm

Manifest = dict[str, Any]

# libyaml's, ten times as fast.
_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

# The oldest that the charts allow, one between, the newest that there are schemas of.
KUBERNETES = ("1.30", "1.34", "1.37")
CUSTOM = {path.stem for path in Path("tests/data/crds").glob("*.json")}
RELEASE, NAMESPACE = "try", "default"
_SECONDS = 120

# The least that charts/sabueso wants to know.
GOOD: dict[str, Any] = {
    "existingSecret": "sabueso",
    "tenants": {"existingConfigMap": "tenants"},
    "databases": {"existingSecret": "databases"},
}

SEED = "0123456789abcdef" * 4


def tryout_values() -> dict[str, Any]:
    """values-tryout.yaml with a seed: everything inside."""
    values = yaml.safe_load(Path("charts/sabueso/values-tryout.yaml").read_text())
    values["tryout"]["seed"] = SEED
    return values


class Refused(Exception):
    """Helm does not render these values; the message is what it says."""


# ---- rendering


def render(chart: str = "sabueso", **values: Any) -> list[Manifest]:
    """The manifests of charts/<chart> by Helm's library. Raises what the library raises."""
    return documents(texts(chart, **values))


def texts(
    chart: str = "sabueso", *, release: str = RELEASE, namespace: str = NAMESPACE, **values: Any
) -> dict[str, str]:
    """What the chart renders, by file; notes too."""
    with helm_python.Chart.load(f"charts/{chart}") as loaded:
        return loaded.render(values, name=release, namespace=namespace)


def documents(files: dict[str, str]) -> list[Manifest]:
    """The manifests in rendered files, in the order of the files' names."""
    found = (yaml.load_all(text, _Loader) for name, text in sorted(files.items()) if name.endswith((".yaml", ".yml")))
    return [document for stream in found for document in stream if document]


def run_helm(major: int, *words: str, values: dict[str, Any] | None = None) -> subprocess.CompletedProcess[str]:
    """Runs Helm 3 or 4; `values` go into a file for `-f`. Raises LookupError where there is no such program."""
    program = helm.find(major)
    if program is None:
        raise LookupError(helm.HOW)
    with tempfile.TemporaryDirectory() as folder:
        command = [program, *words]
        if values is not None:
            path = Path(folder, "values.yaml")
            path.write_text(yaml.safe_dump(values))
            command += ["-f", str(path)]
        # Of its own: neither somebody's plugins nor their clusters are looked at.
        environment = {"HOME": folder, "PATH": "/usr/bin:/bin"}
        return subprocess.run(command, env=environment, check=False, capture_output=True, text=True, timeout=_SECONDS)


def template(
    major: int,
    values: dict[str, Any],
    *,
    chart: str = "sabueso",
    api_versions: Sequence[str] = (),
    kube_version: str = KUBERNETES[-1],
    namespace: str = NAMESPACE,
) -> str:
    """The text of `helm template` by the program, hooks and tests included. Raises Refused."""
    words = ["template", RELEASE, f"charts/{chart}", "--namespace", namespace, "--kube-version", f"{kube_version}.0"]
    for version in api_versions:
        words += ["--api-versions", version]
    done = run_helm(major, *words, values=values)
    if done.returncode:
        raise Refused(done.stderr)
    return done.stdout


def manifests_of(text: str) -> list[Manifest]:
    """The manifests in a text of `template`."""
    return [document for document in yaml.load_all(text, _Loader) if document]


# ---- objects


def of_kind(manifests: Sequence[Manifest], kind: str) -> dict[str, Manifest]:
    """The objects of one kind, by name."""
    return {m["metadata"]["name"]: m for m in manifests if m["kind"] == kind}


_TEMPLATES = {
    "Deployment": ("spec", "template"),
    "StatefulSet": ("spec", "template"),
    "DaemonSet": ("spec", "template"),
    "ReplicaSet": ("spec", "template"),
    "Job": ("spec", "template"),
    "CronJob": ("spec", "jobTemplate", "spec", "template"),
    "Pod": (),
}


def pods(manifests: Sequence[Manifest]) -> Iterator[tuple[Manifest, Manifest]]:
    """Every object that makes pods, with the pod that it makes ({metadata, spec})."""
    for manifest in manifests:
        path = _TEMPLATES.get(manifest["kind"])
        if path is None:
            continue
        pod = manifest
        for key in path:
            pod = pod[key]
        yield manifest, pod


def containers(pod: Manifest) -> list[Manifest]:
    """All containers of a pod, those that run first included."""
    return [*pod["spec"].get("initContainers", ()), *pod["spec"]["containers"]]


def labels_of(manifest: Manifest) -> dict[str, str]:
    """Labels, empty where there are none."""
    return manifest.get("metadata", {}).get("labels") or {}


def selects(selector: Manifest, labels: dict[str, str]) -> bool:
    """Whether a label selector takes what bears these labels; an empty one takes all."""
    if not (selector.get("matchLabels") or {}).items() <= labels.items():
        return False
    return all(_meets(expression, labels) for expression in selector.get("matchExpressions") or ())


def _meets(expression: Manifest, labels: dict[str, str]) -> bool:
    key, values = expression["key"], expression.get("values", ())
    match expression["operator"]:
        case "In":
            return labels.get(key) in values
        case "NotIn":
            return labels.get(key) not in values
        case "Exists":
            return key in labels
        case _:
            return key not in labels


def strings(node: Any) -> Iterator[str]:
    """Every string in a manifest, keys excepted."""
    if isinstance(node, dict):
        for value in node.values():
            yield from strings(value)
    elif isinstance(node, list):
        for value in node:
            yield from strings(value)
    elif isinstance(node, str):
        yield node


def images(manifests: Sequence[Manifest]) -> set[str]:
    """Every image that a cluster would pull: of containers of all kinds, and of volumes."""
    found: set[str] = set()
    for _, pod in pods(manifests):
        found |= {container["image"] for container in containers(pod)}
        found |= {v["image"]["reference"] for v in pod["spec"].get("volumes", ()) if "image" in v}
    return found


# ---- schemas


@cache
def _schema_of(kind: str) -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(json.loads(Path(f"tests/data/crds/{kind}.json").read_text()))


def check_schemas(manifests: Sequence[Manifest], versions: Sequence[str] = KUBERNETES) -> None:
    """Every object fits its schema in every version, with no field that is not in it; an unknown kind fails too."""
    for manifest in manifests:
        if manifest["kind"] in CUSTOM:
            _schema_of(manifest["kind"]).validate(manifest)
    for version in versions:
        for manifest in manifests:
            if manifest["kind"] not in CUSTOM:
                _validator_of(manifest["kind"], manifest["apiVersion"], version).validate(manifest)


@cache
def _validator_of(kind: str, api_version: str, version: str) -> jsonschema.Draft202012Validator:
    """As kubernetes_validate's own `validate(strict=True)`, which reads its files again for every object.

    Raises SchemaNotFoundError for what this version does not have, or has no more.
    """
    full = next(one for one in utils.all_versions() if one.startswith(f"{version}."))
    folder = f"kubernetes-json-schema/v{full}-local-strict"
    group = re.sub(r"^([^./]*)(?:\.[^/]*)?/", r"\1-", api_version)
    try:
        schema = utils.schema_contents(f"{folder}/{kind.lower()}-{group}.json", full)
    except FileNotFoundError:
        raise utils.SchemaNotFoundError(version=version, kind=kind, api_version=api_version) from None
    registry = Resource.from_contents(schema) @ _definitions_of(folder)
    return jsonschema.Draft202012Validator(schema, registry=registry)


@cache
def _definitions_of(folder: str) -> Registry:
    return Resource.from_contents(utils.schema_contents(f"{folder}/_definitions.json", "")) @ Registry()


# ---- Pod Security


_VOLUMES = {
    "configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "image", "persistentVolumeClaim", "projected",
    "secret",
}  # fmt: skip


def breaches_of_restricted(pod: Manifest) -> list[str]:
    """What the level `restricted` of the Pod Security Standards forbids in this pod; empty when nothing."""
    spec = pod["spec"]
    found = [key for key in ("hostNetwork", "hostPID", "hostIPC") if spec.get(key)]
    for volume in spec.get("volumes", ()):
        found += [f"volume {volume['name']}: {key}" for key in volume if key != "name" and key not in _VOLUMES]
    outer = spec.get("securityContext") or {}
    for container in containers(pod):
        found += [f"{container['name']}: {what}" for what in _breaches_of_container(container, outer)]
    return found


def _breaches_of_container(container: Manifest, outer: Manifest) -> Iterator[str]:
    own = container.get("securityContext") or {}
    both = {**outer, **own}
    if own.get("privileged"):
        yield "privileged"
    if own.get("allowPrivilegeEscalation") is not False:
        yield "allowPrivilegeEscalation"
    if both.get("runAsNonRoot") is not True:
        yield "runAsNonRoot"
    if both.get("runAsUser") == 0:
        yield "runAsUser 0"
    if (both.get("seccompProfile") or {}).get("type") not in ("RuntimeDefault", "Localhost"):
        yield "seccompProfile"
    capabilities = own.get("capabilities") or {}
    if capabilities.get("drop") != ["ALL"]:
        yield "capabilities.drop"
    if set(capabilities.get("add", ())) - {"NET_BIND_SERVICE"}:
        yield "capabilities.add"
    if any(port.get("hostPort") for port in container.get("ports", ())):
        yield "hostPort"


# ---- network


def allowed(
    manifests: Sequence[Manifest], source: dict[str, str], target: Manifest, port: int | str, protocol: str = "TCP"
) -> bool:
    """Whether the policies let a pod with labels `source` of the same namespace reach `port` of the pod `target`."""
    ways = (manifests, source, target, port, protocol)
    return passes("Egress", *ways) and passes("Ingress", *ways)


def passes(
    direction: str,
    manifests: Sequence[Manifest],
    source: dict[str, str],
    target: Manifest,
    port: int | str,
    protocol: str = "TCP",
) -> bool:
    """As `allowed`, by the rules of one direction alone: `Egress` of the source, or `Ingress` of the target."""
    whose, side, peer = (
        (source, "to", labels_of(target)) if direction == "Egress" else (labels_of(target), "from", source)
    )
    policies = [
        one["spec"]
        for one in of_kind(manifests, "NetworkPolicy").values()
        if direction in one["spec"]["policyTypes"] and selects(one["spec"]["podSelector"], whose)
    ]
    wanted = _port_of(target, port)
    rules = [rule for policy in policies for rule in policy.get(direction.lower()) or ()]
    return not policies or any(_rule_allows(rule, side, peer, wanted, protocol) for rule in rules)


def _port_of(pod: Manifest, port: int | str) -> tuple[int, str]:
    for container in containers(pod):
        for one in container.get("ports", ()):
            if port in (one["containerPort"], one.get("name")):
                return one["containerPort"], one.get("name", "")
    return (port, "") if isinstance(port, int) else (0, port)


def _rule_allows(rule: Manifest, side: str, labels: dict[str, str], port: tuple[int, str], protocol: str) -> bool:
    ports, peers = rule.get("ports"), rule.get(side)
    if ports and not any(
        one.get("protocol", "TCP") == protocol and ("port" not in one or one["port"] in port) for one in ports
    ):
        return False
    # Peers by address or of other namespaces are not pods of this one.
    return not peers or any(
        "podSelector" in peer and "namespaceSelector" not in peer and selects(peer["podSelector"], labels)
        for peer in peers
    )


# ---- numbers


_QUANTITY = re.compile(r"^(\d+(?:\.\d+)?)(m|k|M|G|T|P|Ki|Mi|Gi|Ti|Pi)?$")
_FACTORS = {"": 1, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15} | {
    f"{letter}i": 1024.0 ** (power + 1) for power, letter in enumerate("KMGTP")
}


def quantity(text: str | int | float) -> float:
    """A Kubernetes quantity as a number: cores, bytes, pieces. Raises ValueError."""
    found = _QUANTITY.match(str(text))
    if not found:
        raise ValueError(f"no quantity: {text!r}")
    return float(found[1]) * _FACTORS[found[2] or ""]
