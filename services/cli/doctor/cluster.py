"""What a cluster says of the installation: pods, Secrets, claims, GPU nodes, versions."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from services.cli.doctor.findings import Finding, skipped, warning, well, wrong
from services.cli.doctor.kubectl import Kubectl, NoCluster
from services.cli.json_shapes import entries, mapping

OURS = "app.kubernetes.io/part-of=sabueso"
_GPU = "nvidia.com/gpu"
_PRODUCT = "nvidia.com/gpu.product"
# Exit codes of our services (sysexits.h) and of the kernel.
_EXITS = {
    78: ("a setting is wrong", "The last lines of its log name the variable."),
    69: ("its port is taken", "Two processes of one pod listen on the same port."),
    137: (
        "it was killed",
        "By the memory limit where the reason is OOMKilled, else by a probe: raise the one or look.",
    ),
}
_WAITS = {
    "ImagePullBackOff": "Does the image exist in that registry, and is pullSecrets set?",
    "ErrImagePull": "Does the image exist in that registry, and is pullSecrets set?",
    "CreateContainerConfigError": "A Secret or ConfigMap, or a key in it, is missing.",
    "CrashLoopBackOff": "kubectl logs POD --previous says why.",
}


def findings(cluster: Kubectl) -> Iterator[Finding]:
    """All checks; each one that RBAC forbids is skipped."""
    try:
        pods = cluster.all("pods")
    except NoCluster as error:
        yield wrong("cluster", "cannot be asked", why=str(error), fix="Does `kubectl get pods` work? --context?")
        return
    ours = [pod for pod in pods if _is_ours(pod) and not _is_over(pod)]
    if not ours:
        fix = "Name the release's namespace: --namespace."
        yield wrong("pods", f"there is none with {OURS}", fix=fix)
        return
    yield from _pods(ours)
    yield from _versions(ours)
    looks: list[tuple[str, Callable[[], Iterable[Finding]]]] = [
        ("secrets", lambda: secrets(ours, cluster.secrets())),
        ("volumes", lambda: claims(cluster.all("persistentvolumeclaims"))),
        ("gpu", lambda: gpus(ours, cluster.all("nodes"))),
    ]
    for check, look in looks:
        try:
            yield from look()
        except NoCluster as error:
            yield skipped(check, f"cannot be looked at: {error}", fix="A role that may read them.")


def _labels(thing: Mapping[str, Any]) -> Mapping[str, Any]:
    return mapping(mapping(thing.get("metadata")).get("labels"))


def _name(thing: Mapping[str, Any]) -> str:
    return str(mapping(thing.get("metadata")).get("name"))


def _is_ours(pod: Mapping[str, Any]) -> bool:
    return _labels(pod).get("app.kubernetes.io/part-of") == "sabueso" or _gpu_count(pod) > 0


def _is_over(pod: Mapping[str, Any]) -> bool:
    return mapping(pod.get("status")).get("phase") == "Succeeded"


def _containers(pod: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    spec = mapping(pod.get("spec"))
    return [*entries(spec.get("initContainers")), *entries(spec.get("containers"))]


def _pods(pods: Sequence[Mapping[str, Any]]) -> Iterator[Finding]:
    ready = 0
    for pod in pods:
        conditions = {one.get("type"): one for one in entries(mapping(pod.get("status")).get("conditions"))}
        if mapping(conditions.get("Ready")).get("status") == "True":
            ready += 1
        else:
            yield _not_ready(pod, mapping(conditions.get("PodScheduled")))
    if ready:
        yield well("pods", f"{ready} of {len(pods)} are ready")


def _not_ready(pod: Mapping[str, Any], scheduled: Mapping[str, Any]) -> Finding:
    name, status = _name(pod), mapping(pod.get("status"))
    if scheduled.get("status") == "False":
        why = str(scheduled.get("message", ""))
        fix = "Give the cluster room: nodes with that GPU, taint and label; or lower requests."
        return wrong("pods", f"{name} has no node", why=why, fix=fix)
    for one in [*entries(status.get("initContainerStatuses")), *entries(status.get("containerStatuses"))]:
        waiting = mapping(mapping(one.get("state")).get("waiting"))
        ended = mapping(mapping(one.get("lastState")).get("terminated") or mapping(one.get("state")).get("terminated"))
        code = int(ended.get("exitCode") or 0)
        if code:
            said, fix = _EXITS.get(code, (f"it ended with {code}", "kubectl logs POD --previous says why."))
            reason = f"{ended.get('reason')}; {one.get('restartCount', 0)} restarts"
            return wrong("pods", f"{name}: {said}", why=reason, fix=fix.replace("POD", name))
        if waiting.get("reason"):
            fix = _WAITS.get(str(waiting["reason"]), "kubectl describe pod POD").replace("POD", name)
            return wrong("pods", f"{name}: {waiting['reason']}", why=str(waiting.get("message", "")), fix=fix)
    why = "It starts, or its readiness probe fails: a 70B model takes up to half an hour to load."
    return warning("pods", f"{name} is not ready", why=why, fix=f"kubectl describe pod {name}")


def _versions(pods: Sequence[Mapping[str, Any]]) -> Iterator[Finding]:
    tags = sorted({str(v) for pod in pods if (v := _labels(pod).get("app.kubernetes.io/version"))})
    if len(tags) > 1:
        yield warning(
            "version",
            f"pods of several versions run: {', '.join(tags)}",
            fix="An upgrade is under way, or one stopped: kubectl rollout status deploy.",
        )


def secrets(pods: Iterable[Mapping[str, Any]], there: Mapping[str, set[str]]) -> Iterator[Finding]:
    """Secrets, and keys in them, that pods name and that are not `there`."""
    named: dict[tuple[str, str], str] = {}
    for pod in pods:
        for secret, key in _secrets_of(pod):
            named.setdefault((secret, key), _name(pod))
    missing = [(s, k, pod) for (s, k), pod in named.items() if s not in there or (k and k not in there[s])]
    for secret, key, pod in sorted(missing):
        what = f"`{secret}` lacks `{key}`" if secret in there else f"`{secret}` is missing"
        yield wrong(
            "secrets", what, why=f"{pod} needs it.", fix="kubectl create secret generic …; see docs/install.md."
        )
    if not missing:
        yield well("secrets", f"{len({secret for secret, _ in named})} are there")


def _secrets_of(pod: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Name and key, an empty key for the whole of it; optional ones are left out."""
    spec = mapping(pod.get("spec"))
    for one in entries(spec.get("imagePullSecrets")):
        yield str(one.get("name")), ""
    for volume in entries(spec.get("volumes")):
        sources = [volume, *entries(mapping(volume.get("projected")).get("sources"))]
        for one in (mapping(source.get("secret")) for source in sources):
            if one and not one.get("optional"):
                name = str(one.get("secretName") or one.get("name"))
                yield from [(name, ""), *((name, str(item.get("key"))) for item in entries(one.get("items")))]
    for container in _containers(pod):
        for variable in entries(container.get("env")):
            one = mapping(mapping(variable.get("valueFrom")).get("secretKeyRef"))
            if one and not one.get("optional"):
                yield str(one.get("name")), str(one.get("key"))
        for source in entries(container.get("envFrom")):
            one = mapping(source.get("secretRef"))
            if one and not one.get("optional"):
                yield str(one.get("name")), ""


def claims(found: Iterable[Mapping[str, Any]]) -> Iterator[Finding]:
    """PersistentVolumeClaims that no volume was found for."""
    lost = [one for one in found if mapping(one.get("status")).get("phase") != "Bound"]
    for one in lost:
        storage = mapping(one.get("spec")).get("storageClassName") or "the default one"
        yield wrong(
            "volumes",
            f"{_name(one)} is {mapping(one.get('status')).get('phase')}",
            why=f"Storage class: {storage}. With WaitForFirstConsumer it waits for its pod.",
            fix=f"kubectl describe pvc {_name(one)}; kubectl get storageclass",
        )
    if not lost:
        yield well("volumes", "all claims are bound")


def gpus(pods: Iterable[Mapping[str, Any]], nodes: Iterable[Mapping[str, Any]]) -> Iterator[Finding]:
    """Nodes for the pods that want GPUs."""
    wanted = sum(map(_gpu_count, pods))
    if not wanted:
        yield skipped("gpu", "no pod of this namespace wants one")
        return
    with_gpus = [one for one in nodes if _count(mapping(mapping(one.get("status")).get("allocatable")).get(_GPU))]
    total = sum(_count(mapping(mapping(one.get("status")).get("allocatable")).get(_GPU)) for one in with_gpus)
    if total < wanted:
        yield wrong(
            "gpu",
            f"pods want {wanted} GPUs, the nodes offer {total}",
            why="Without NVIDIA's device plugin (or the GPU operator) a node offers none.",
            fix="Add nodes, or install the GPU operator; docs/model-pool.md.",
        )
    for node in with_gpus:
        if not _labels(node).get(_PRODUCT):
            yield warning(
                "gpu",
                f"{_name(node)} does not say which GPU it has",
                why=f"The label {_PRODUCT} comes from GPU feature discovery; pods that ask for H100 pass it by.",
                fix="Switch GPU feature discovery on in the GPU operator.",
            )
        elif not any(one.get("key") == _GPU for one in entries(mapping(node.get("spec")).get("taints"))):
            yield warning("gpu", f"{_name(node)} has no taint {_GPU}", why="Pods without GPU may take its room.")
    if total >= wanted:
        products = sorted({str(_labels(node).get(_PRODUCT, "unknown")) for node in with_gpus})
        yield well("gpu", f"{wanted} of {total} are wanted; {', '.join(products)}")


def _gpu_count(pod: Mapping[str, Any]) -> int:
    return sum(_count(mapping(mapping(one.get("resources")).get("limits")).get(_GPU)) for one in _containers(pod))


def _count(value: object) -> int:
    text = str(value or 0)
    return int(text) if text.isdigit() else 0
