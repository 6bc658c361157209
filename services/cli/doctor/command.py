"""The command: which checks run, in which order, and how their findings are shown."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from services.cli.client import Client, Failed
from services.cli.config import Settings
from services.cli.console import Json, out, print_json
from services.cli.doctor import address, answering, cluster, knowledge, standing, tenants
from services.cli.doctor.findings import Finding, Status, guarded, skipped, wrong
from services.cli.doctor.kubectl import Kubectl

_MARKS = {
    Status.OK: "[green]✓[/green]", Status.WARNING: "[yellow]![/yellow]",
    Status.ERROR: "[red]✗[/red]", Status.SKIPPED: "[dim]–[/dim]",
}  # fmt: skip


@dataclass(frozen=True)
class Scope:
    """What is looked at besides the gateway."""

    quick: bool = False
    tenants_dir: Path | None = None
    secrets_dir: Path | None = None
    vector_store: str = ""
    qdrant_api_key: str = ""
    kubectl: Kubectl | None = None


def doctor(
    quick: Annotated[bool, typer.Option("--quick", help="Ask no model: costs no tokens.")] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Warnings end with status 1 too.")] = False,
    tenants_dir: Annotated[
        Path | None, typer.Option(help="Check the tenants' files here.", envvar="SABUESO_TENANTS_DIR")
    ] = None,
    secrets_dir: Annotated[
        Path | None, typer.Option(help="DSNs of their databases; each is logged in to.", envvar="SABUESO_SECRETS_DIR")
    ] = None,
    vector_store: Annotated[
        str, typer.Option(help="qdrant:https://… to look at Qdrant itself.", envvar="SABUESO_VECTOR_STORE")
    ] = "",
    kube: Annotated[bool, typer.Option("--kube", help="Look at the cluster too, by kubectl.")] = False,
    context: Annotated[str, typer.Option(help="Of the kubeconfig.")] = "",
    namespace: Annotated[str, typer.Option("--namespace", "-n", help="Of the release.")] = "",
    qdrant_api_key: Annotated[str, typer.Option(envvar="SABUESO_QDRANT_API_KEY", hidden=True)] = "",
    as_json: Json = False,
) -> None:
    """Look at a live installation; say what is wrong, why, and what mends it. Nothing is changed.

    Exit status 0: nothing is wrong (there may be warnings), 1: something is.
    """
    scope = Scope(
        quick, tenants_dir, secrets_dir, vector_store, qdrant_api_key, Kubectl(context, namespace) if kube else None
    )
    found: list[Finding] = []
    for finding in examine(Settings(), scope):
        found.append(finding)
        if not as_json:
            _show(finding)
    counts = {status.value: sum(one.status is status for one in found) for status in Status}
    bad = bool(counts["error"] or (strict and counts["warning"]))
    if as_json:
        print_json({"ok": not bad, "counts": counts, "findings": [asdict(one) for one in found]})
    else:
        out.print(f"\n{counts['ok']} well, {counts['warning']} warnings, {counts['error']} errors.")
    raise typer.Exit(1 if bad else 0)


def examine(settings: Settings, scope: Scope) -> Iterator[Finding]:
    """All findings, in an order in which an earlier one explains the later ones."""
    now = datetime.now(UTC)
    yield from _offline(scope, now)
    if scope.kubectl is not None:
        yield from cluster.findings(scope.kubectl)
    faults = list(address.settings_faults(settings))
    yield from faults
    if any(one.status is Status.ERROR for one in faults):
        return
    try:
        yield from address.certificate(settings, now)
        reached = list(address.reached(settings))
    except Failed as error:
        yield wrong("settings", str(error), fix="Name a readable PEM file, or none.")
        return
    yield from reached
    if reached[-1].status is Status.ERROR:
        yield skipped("key", "and all behind the gateway could not be looked at", fix="Mend the first error.")
        return
    yield from address.version(settings)
    with Client(settings) as client:
        yield from guarded("services", standing.services(client.ready()))
        yield from guarded("key", _behind_the_key(client, scope))


def _offline(scope: Scope, now: datetime) -> Iterator[Finding]:
    yield from address.key_file_is_open(Path(".sabueso/env"))
    if scope.tenants_dir is None:
        return
    found, known = tenants.files(scope.tenants_dir, now)
    yield from found
    yield from tenants.databases(known, scope.secrets_dir)


def _behind_the_key(client: Client, scope: Scope) -> Iterator[Finding]:
    try:
        found, scopes = standing.key(client)
    except standing.KeyRefused as error:
        fix = "`sabueso keys list` with an admin's key; the tenant's file holds the SHA-256 of each key."
        yield wrong("key", f"is refused: {error}", fix=fix)
        return
    yield from found
    known: list[Any] = answering.served(client)
    model, dimensions = "", 0
    if "models" in scopes:
        try:
            vectors, model, dimensions = knowledge.embedding(client, known)
            yield from vectors
        except Failed as error:
            yield wrong("embedding", f"gives no vectors: {error}", fix="See the service `embedding`.")
    if {"documents", "search"} <= scopes:
        yield from guarded("documents", knowledge.collections(client, model))
    if scope.vector_store:
        yield from guarded("qdrant", knowledge.vector_store(scope.vector_store, scope.qdrant_api_key, dimensions))
    if scope.quick:
        yield skipped("models", "were not asked", fix="Leave --quick out.")
        return
    if "models" in scopes:
        yield from guarded("models", answering.models(client, known))
    if "agent" in scopes:
        yield from guarded("agent", answering.agent(client))


def _show(finding: Finding) -> None:
    out.print(f"{_MARKS[finding.status]} [bold]{finding.check:<10}[/bold] ", end="")
    out.print(finding.what, markup=False, soft_wrap=True)
    for word, text in (("why", finding.why), ("fix", finding.fix)):
        if text:
            out.print(f"    {word}  {text}", style="dim", markup=False, soft_wrap=True)
