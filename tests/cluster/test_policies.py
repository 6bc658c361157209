"""Quotas, disruption budgets and network policies, as the API server and the controllers act on them."""

from tests.cluster.live import condition, is_ready, names, until

CHART = "charts/sabueso"


def quota(**hard):
    """What a namespace may have in all."""
    limits = {name.replace("_", "."): value for name, value in hard.items()}
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "team"}, "spec": {"hard": limits}}


def test_every_pod_is_admitted_where_a_quota_counts_requests_and_memory(cluster, release, good):
    """A quota refuses each container that does not say what it needs: hooks and tests too."""
    try_out = release()
    cluster.apply(
        quota(requests_cpu="100", requests_memory="200Gi", limits_memory="400Gi", pods="100"),
        namespace=try_out.namespace,
    )
    try_out.install(CHART, **good)
    try_out.test()
    used = cluster.one("resourcequota", "team", try_out.namespace)["status"]["used"]
    assert int(used["pods"]) >= len(cluster.get("deployments", try_out.namespace))


def test_budgets_let_every_machine_be_drained_and_keep_a_replica_of_each_service(cluster, release, good):
    try_out = release()
    space = try_out.namespace
    try_out.install(CHART, **good)
    budgets = until(
        lambda: cluster.get("poddisruptionbudgets", space),
        lambda found: all(one.get("status", {}).get("expectedPods") for one in found),
    )
    assert budgets
    for budget in budgets:
        assert budget["status"]["disruptionsAllowed"] >= 1, budget["metadata"]["name"]
        assert budget["status"]["currentHealthy"] > 1, budget["metadata"]["name"]
    (node, *_) = sorted({pod["spec"]["nodeName"] for pod in cluster.pods(space)})
    try:
        cluster.run("drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=180s")
        assert node not in {pod["spec"]["nodeName"] for pod in cluster.pods(space) if "nodeName" in pod["spec"]}
        until(
            lambda: cluster.get("deployments", space),
            lambda found: all(condition(one, "Available")["status"] == "True" for one in found),
        )
    finally:
        cluster.run("uncordon", node)


def test_each_network_policy_chooses_pods_and_names_callers_that_exist(cluster, installed):
    pods = [pod["metadata"]["labels"] for pod in cluster.pods(installed.namespace)]
    policies = cluster.get("networkpolicies", installed.namespace)
    assert policies
    for policy in policies:
        spec = policy["spec"]
        # Of the pods of `helm test`, which are not there yet.
        if spec["podSelector"].get("matchLabels", {}).get("app.kubernetes.io/name") == "test":
            continue
        assert any(fits(spec["podSelector"], labels) for labels in pods), policy["metadata"]["name"]
        peers = [peer for rule in spec.get("ingress", ()) for peer in rule.get("from", ())]
        peers += [peer for rule in spec.get("egress", ()) for peer in rule.get("to", ())]
        for peer in peers:
            if "podSelector" in peer and "namespaceSelector" not in peer:
                assert any(fits(peer["podSelector"], labels) for labels in pods), (policy["metadata"]["name"], peer)


def fits(selector, labels):
    """Whether a label selector chooses these labels; the charts use matchLabels alone."""
    assert set(selector) <= {"matchLabels"}
    return selector.get("matchLabels", {}).items() <= labels.items()


def test_service_accounts_of_pods_have_no_token_and_no_rights(cluster, installed):
    used = {pod["spec"]["serviceAccountName"] for pod in cluster.pods(installed.namespace)}
    assert "default" not in used
    assert used <= names(cluster.get("serviceaccounts", installed.namespace))
    for pod in cluster.pods(installed.namespace):
        assert is_ready(pod)
        # The server adds one where neither pod nor account refuses it.
        assert not [one for one in pod["spec"].get("volumes", ()) if "projected" in one], pod["metadata"]["name"]
    for account in used:
        user = f"system:serviceaccount:{installed.namespace}:{account}"
        assert cluster.run("auth", "can-i", "--list", "--as", user, "-n", installed.namespace).count("pods") == 0
