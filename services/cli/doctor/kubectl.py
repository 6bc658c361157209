"""Asks a cluster by kubectl, with whatever kubeconfig it finds. It only reads, and never reads what a Secret holds."""

import json
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any

from services.cli.json_shapes import entries, mapping

_SECONDS = 30
_NAMES_OF_KEYS = (
    '{{range .items}}{{.metadata.name}}{{range $key, $value := .data}} {{$key}}{{end}}{{printf "\\n"}}{{end}}'
)


class NoCluster(Exception):
    """kubectl is not there, or the cluster does not answer or refuses; the message is kubectl's."""


class Kubectl:
    """One context and one namespace; both empty: those of the kubeconfig."""

    def __init__(self, context: str = "", namespace: str = "", program: str = "kubectl") -> None:
        self._words = [program, *(["--context", context] if context else [])]
        self._namespace = ["--namespace", namespace] if namespace else []

    def all(self, kind: str, *, selector: str = "") -> list[Mapping[str, Any]]:
        """All objects of a kind in the namespace, those of the cluster for a kind without. Raises NoCluster."""
        chosen = ["--selector", selector] if selector else []
        answer = self._run(["get", kind, *chosen, "--output", "json"])
        try:
            return entries(mapping(json.loads(answer)).get("items"))
        except ValueError:
            raise NoCluster(f"kubectl get {kind} printed no JSON") from None

    def secrets(self) -> dict[str, set[str]]:
        """Names of the Secrets, each with the names of its keys. Raises NoCluster."""
        lines = self._run(["get", "secrets", "--output", f"go-template={_NAMES_OF_KEYS}"]).splitlines()
        rows = [line.split() for line in lines if line.strip()]
        return {name: set(keys) for name, *keys in rows}

    def _run(self, words: Sequence[str]) -> str:
        command = [*self._words, *self._namespace, f"--request-timeout={_SECONDS}s", *words]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=2 * _SECONDS, check=False)
        except FileNotFoundError:
            raise NoCluster("kubectl is not on the PATH") from None
        except subprocess.TimeoutExpired:
            raise NoCluster(f"the cluster did not answer in {2 * _SECONDS} s") from None
        if done.returncode != 0:
            raise NoCluster((done.stderr.strip() or f"kubectl ended with {done.returncode}")[-400:])
        return done.stdout
