"""From the chart as it was before the last change of it to the chart as it is: what cannot be changed has not been."""

import io
import subprocess
import tarfile

import pytest

from tests.cluster.live import is_ready


def git(*arguments):
    """What git writes; a copy of the sources without its history skips the test."""
    said = subprocess.run(["git", *arguments], capture_output=True, check=False, timeout=60)
    if said.returncode:
        pytest.skip(f"git {arguments[0]}: {said.stderr.decode().strip()}")
    return said.stdout


def chart_before(chart, folder):
    """The chart's folder as last committed, or, where the work tree has no change of it, one change earlier."""
    path = f"charts/{chart}"
    changed = git("status", "--porcelain", "--", path).strip()
    commits = git("log", "-n", "2", "--format=%H", "--", path).decode().split()
    if not changed and len(commits) < 2:
        pytest.skip(f"{path} was never changed in the history that is here")
    with tarfile.open(fileobj=io.BytesIO(git("archive", commits[0 if changed else 1], path))) as archive:
        archive.extractall(folder, filter="data")
    return folder / path


def test_a_release_of_the_former_chart_is_upgraded_and_rolled_back(cluster, release, good, tmp_path):
    """A changed selector of a Deployment, or template of a StatefulSet's claims, is refused by the API server."""
    try_out = release()
    try_out.install(chart_before("sabueso", tmp_path), **good)
    claims = {one["metadata"]["name"]: one["metadata"]["uid"] for one in cluster.get("pvc", try_out.namespace)}
    try_out.upgrade("charts/sabueso", **good)
    assert all(is_ready(pod) for pod in cluster.pods(try_out.namespace))
    now = {one["metadata"]["name"]: one["metadata"]["uid"] for one in cluster.get("pvc", try_out.namespace)}
    assert claims.items() <= now.items()
    try_out.rollback(1)
    assert all(is_ready(pod) for pod in cluster.pods(try_out.namespace))
