"""Alerts on pods, Deployments and Jobs are about one release, whatever others of similar names are beside it."""

import re
from functools import cache

import pytest

from tests.chart.cluster_facts import GOOD, documents, of_kind, pods, texts

VALUES = GOOD | {
    "alerts": {"enabled": True},
    "builtin": {"existingSecret": "b", **{name: {"enabled": True} for name in ("qdrant", "valkey", "postgresql")}},
    "services": {"understudy": {"enabled": True}},
    "loadTest": {"enabled": True, "existingSecret": "k"},
    "evaluation": {
        "weekly": {"enabled": True, "sets": ["a"], "goldenClaim": "g", "tenant": "t", "existingSecret": "e"}
    },
}
# Names that begin like each other's, and end like parts of the chart.
RELEASES = ("sabueso", "sabueso-2", "sabueso-gateway", "sabueso-evaluation-weekly", "sabueso-qdrant")
_ENDINGS = {"Deployment": "-7d4b9c5f6d-x2x4z", "StatefulSet": "-0", "CronJob": "-29371860-x2x4z"}


@cache
def manifests(release):
    return documents(texts(release=release, **VALUES))


def matchers(release, label):
    """Every regular expression by which the release's rules choose this label."""
    rules = of_kind(manifests(release), "PrometheusRule")[f"{release}-alerts-kubernetes"]["spec"]["groups"]
    text = " ".join(rule["expr"] for group in rules for rule in group["rules"])
    return set(re.findall(rf'\b{label}=~"([^"]*)"', text))


def names(release):
    """By label, what a cluster calls the release's own; a load test is nothing to be woken for."""
    owners = [one for one, _ in pods(manifests(release)) if one["kind"] in _ENDINGS]
    return {
        "deployment": {one["metadata"]["name"] for one in owners if one["kind"] == "Deployment"},
        "pod": {one["metadata"]["name"] + _ENDINGS[one["kind"]] for one in owners},
        "job_name": {
            f"{one['metadata']['name']}-{end}"
            for one in owners
            if one["kind"] == "CronJob"
            # The second is what the runbook has one start by hand.
            for end in ("29371860", "again")
        },
    }


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("label", ["deployment", "pod", "job_name"])
def test_a_release_is_alerted_about_all_of_its_own_and_nothing_of_others(release, label):
    (pattern,) = matchers(release, label)
    for other in RELEASES:
        for name in names(other)[label]:
            assert bool(re.fullmatch(pattern, name)) == (other == release), name


def test_names_of_everything_that_runs_are_among_them():
    kinds = {one["kind"] for one, _ in pods(manifests("sabueso"))}
    # Pods are tests of Helm's, Jobs load tests.
    assert kinds - set(_ENDINGS) == {"Pod", "Job"}
