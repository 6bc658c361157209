"""Rendered charts that tests share; what else they share is in cluster_facts.py."""

import pytest

from local import helm
from tests.chart.cluster_facts import GOOD, render, template, tryout_values


@pytest.fixture(scope="session", params=[3, 4])
def helm_major(request) -> int:
    """Helm 3, then Helm 4: the programs."""
    if helm.find(request.param) is None:
        pytest.skip(helm.HOW)
    return request.param


@pytest.fixture(scope="session")
def helm_template(helm_major):
    """`helm template` by the program: `helm_template(values, chart=…, api_versions=…, kube_version=…)`."""

    def call(values, **options):
        return template(helm_major, values, **options)

    return call


@pytest.fixture(scope="session")
def default_manifests():
    """charts/sabueso with the least that it wants to know. Not to be changed."""
    return render(**GOOD)


@pytest.fixture(scope="session")
def tryout_manifests():
    """charts/sabueso with values-tryout.yaml: everything inside. Not to be changed."""
    return render(**tryout_values())
