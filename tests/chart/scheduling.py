"""Which of some nodes a pod may go to: the scheduler's predicates that the charts use, none of its preferences."""

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import yaml

from tests.chart.cluster_facts import Manifest, quantity


def nodes_of(path: str) -> dict[str, Manifest]:
    """Nodes of a manifest file, by name."""
    found = yaml.safe_load_all(Path(path).read_text())
    return {node["metadata"]["name"]: node for node in found if node["kind"] == "Node"}


def requests_of(pod: Manifest) -> dict[str, float]:
    """What a pod asks for: the sum of its containers, or what its largest init container asks for."""
    total: dict[str, float] = defaultdict(float)
    for container in pod["spec"]["containers"]:
        for name, amount in container["resources"]["requests"].items():
            total[name] += quantity(amount)
    for container in pod["spec"].get("initContainers", ()):
        for name, amount in container["resources"]["requests"].items():
            total[name] = max(total[name], quantity(amount))
    return {**total, "pods": 1}


def may_go(pod: Manifest, node: Manifest) -> bool:
    """Whether selector, required affinity and taints let the pod onto the node, were it empty."""
    spec, labels = pod["spec"], node["metadata"]["labels"]
    if not (spec.get("nodeSelector") or {}).items() <= labels.items():
        return False
    required = (
        spec.get("affinity", {}).get("nodeAffinity", {}).get("requiredDuringSchedulingIgnoredDuringExecution", {})
    )
    terms = required.get("nodeSelectorTerms", ())
    if terms and not any(all(_meets(one, labels) for one in term["matchExpressions"]) for term in terms):
        return False
    taints = [one for one in node.get("spec", {}).get("taints", ()) if one["effect"] != "PreferNoSchedule"]
    return all(any(_tolerates(toleration, taint) for toleration in spec.get("tolerations", ())) for taint in taints)


def _meets(expression: Manifest, labels: dict[str, str]) -> bool:
    value, values = labels.get(expression["key"]), expression.get("values", [])
    match expression["operator"]:
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt":
            return value is not None and int(value) > int(values[0])
        case "Lt":
            return value is not None and int(value) < int(values[0])
        case other:
            raise ValueError(f"no operator of Kubernetes: {other}")


def _tolerates(toleration: Manifest, taint: Manifest) -> bool:
    if toleration.get("effect") not in (None, "", taint["effect"]):
        return False
    if not toleration.get("key"):
        return toleration.get("operator") == "Exists"
    same = toleration["key"] == taint["key"]
    return same and (toleration.get("operator") == "Exists" or toleration.get("value", "") == taint.get("value", ""))


class Cluster:
    """Nodes that fill up."""

    def __init__(self, nodes: Iterable[Manifest]) -> None:
        """Nodes are manifests with `status.allocatable`."""
        self._nodes = {node["metadata"]["name"]: node for node in nodes}
        self._free = {
            name: {resource: quantity(amount) for resource, amount in node["status"]["allocatable"].items()}
            for name, node in self._nodes.items()
        }
        self._placed: dict[str, list[dict[str, float]]] = defaultdict(list)

    def place(self, pod: Manifest) -> str | None:
        """The node that takes the pod now, or None: it stays pending."""
        wanted = requests_of(pod)
        for name, node in self._nodes.items():
            free = self._free[name]
            if may_go(pod, node) and all(free.get(resource, 0) >= amount for resource, amount in wanted.items()):
                for resource, amount in wanted.items():
                    free[resource] -= amount
                self._placed[name].append(wanted)
                return name
        return None

    def remove_one(self, name: str) -> None:
        """Ends the pod of a node that came first."""
        for resource, amount in self._placed[name].pop(0).items():
            self._free[name][resource] += amount

    def free(self, name: str, resource: str) -> float:
        """What is left on a node."""
        return self._free[name][resource]
