"""Helm as its users call it, against a live cluster."""

import json
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.cluster.live import PATIENCE_SECONDS, Cluster, Refused, run


@dataclass
class Release:
    """One release; every call raises Refused with what Helm says, also where the API server only warns."""

    cluster: Cluster
    program: str
    name: str
    namespace: str

    def install(self, chart: str | Path, *, wait: bool = True, **values: Any) -> None:
        """Waits until all is ready."""
        self._with_values("install", chart, values, wait)

    def upgrade(self, chart: str | Path, *, wait: bool = True, **values: Any) -> None:
        """To these values alone: those of before are forgotten."""
        self._with_values("upgrade", chart, values, wait)

    def rollback(self, revision: int) -> None:
        """To a revision, 1 is the first."""
        self._call("rollback", self.name, str(revision), "--wait", f"--timeout={PATIENCE_SECONDS}s")

    def test(self) -> str:
        """Runs the chart's tests."""
        return self._call("test", self.name, f"--timeout={PATIENCE_SECONDS}s")

    def uninstall(self) -> None:
        """Waits until all is gone."""
        self._call("uninstall", self.name, "--wait", f"--timeout={PATIENCE_SECONDS}s")

    def status(self) -> dict[str, Any]:
        """`version` is the revision, `info.status` such as deployed or failed."""
        return json.loads(self._call("status", self.name, "-o", "json"))

    def _with_values(self, verb: str, chart: str | Path, values: dict[str, Any], wait: bool) -> None:
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            yaml.safe_dump(values, file)
            file.flush()
            patience = ["--wait", f"--timeout={PATIENCE_SECONDS}s"] if wait else []
            self._call(verb, self.name, str(chart), "--values", file.name, *patience)

    def _call(self, *arguments: str) -> str:
        where = ["--kubeconfig", str(self.cluster.kubeconfig), "--namespace", self.namespace]
        try:
            said = run([self.program, *arguments, *where], seconds=PATIENCE_SECONDS + 60)
        except Refused as refusal:
            raise Refused(f"{refusal}\n{self.cluster.events(self.namespace)}") from refusal
        # Objects that pods come from are only warned of; their pods are refused later, and out of sight.
        if "would violate PodSecurity" in said.stderr:
            raise Refused(said.stderr)
        return said.stdout
