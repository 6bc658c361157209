"""charts/sabueso by the helm programs: both majors, with and without custom kinds in the cluster, old and new ones."""

import pytest

from tests.chart.cluster_facts import GOOD, KUBERNETES, Refused, manifests_of, run_helm, tryout_values
from tests.chart.sabueso_values import RELEASES, TAKEN_IN, rendered

CUSTOM_APIS = ("monitoring.coreos.com/v1", "keda.sh/v1alpha1", "gateway.networking.k8s.io/v1")


def in_order(manifests):
    return sorted(manifests, key=lambda one: (one["kind"], one["metadata"]["name"]))


@pytest.mark.parametrize("name", RELEASES)
def test_it_renders_what_the_library_renders(helm_template, name):
    assert in_order(manifests_of(helm_template(RELEASES[name]))) == in_order(rendered(name))


def test_nothing_appears_or_vanishes_by_what_the_cluster_has(helm_template):
    """Values decide: a cluster without a kind refuses it by name, and no tool renders less than another."""
    with_all = helm_template(TAKEN_IN, api_versions=CUSTOM_APIS, kube_version=KUBERNETES[0])
    assert with_all == helm_template(TAKEN_IN, kube_version=KUBERNETES[-1])


def test_a_cluster_that_is_too_old_is_refused(helm_template):
    with pytest.raises(Refused, match="kubeVersion"):
        helm_template(GOOD, kube_version="1.29")


def test_it_lints_strictly(helm_major):
    done = run_helm(helm_major, "lint", "--strict", "charts/sabueso", values=GOOD)
    assert done.returncode == 0, done.stdout + done.stderr


def test_wrong_values_are_named(helm_template):
    with pytest.raises(Refused, match="imagee"):
        helm_template(GOOD | {"imagee": {}})
    with pytest.raises(Refused, match="existingSecret"):
        helm_template({})
    with pytest.raises(Refused, match=r"missing propert.*'valkey'|valkey is required"):
        helm_template(GOOD | {"valkey": None})


def test_a_value_that_is_set_to_null_is_as_if_it_had_no_default(helm_template):
    """The two majors have treated null in different ways."""
    manifests = manifests_of(helm_template(GOOD | {"services": {"ingestion": {"persistence": None, "env": None}}}))
    assert "try-ingestion" not in {
        one["metadata"]["name"] for one in manifests if one["kind"] == "PersistentVolumeClaim"
    }


def test_a_package_holds_all_that_it_needs(helm_major, tmp_path):
    done = run_helm(helm_major, "package", "charts/sabueso", "--destination", str(tmp_path))
    assert done.returncode == 0, done.stderr
    (package,) = tmp_path.glob("sabueso-*.tgz")
    rendered = run_helm(helm_major, "template", "try", str(package), values=tryout_values())
    assert rendered.returncode == 0, rendered.stderr
    assert rendered.stdout.count("kind: Deployment") == 11
