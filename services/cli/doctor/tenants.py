"""Are the tenants' files right, are their secrets there, and may their database roles read and nothing else."""

import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path

from services.cli.doctor.findings import Finding, skipped, warning, well, wrong
from services.cli.tenants import mistakes_in
from services.runtime import yaml_files
from services.runtime.tenants import Tenant

_SOON = timedelta(days=14)
_AUDIT_SECONDS = 60
# The audit that the service makes when it starts. The address comes by standard input: arguments can be read by others.
_AUDIT = """
import sys
from services.sql_tool import grants
sys.argv = ["grants", sys.argv[1], "--source", sys.argv[2], "--check", sys.stdin.read().strip()]
grants.main()
"""


def files(directory: Path, now: datetime) -> tuple[list[Finding], list[tuple[Path, Tenant]]]:
    """Findings on all files of the folder, and those that can be read. `now` has a time zone."""
    paths = sorted(directory.glob("*.y*ml"))
    if not paths:
        fix = "--tenants-dir names the folder; in a cluster the ConfigMap or Secret of `tenants:`."
        return [wrong("tenants", f"{directory} holds no tenant's file", fix=fix)], []
    found = [
        wrong(
            "tenants",
            f"{one.file}{f':{one.line}' if one.line else ''}: {one.field}: {one.reason}",
            why="A service that starts now refuses to; those that run keep the last good state.",
            fix="sabueso tenants check FILE",
        )
        for one in mistakes_in(paths)
    ]
    known: list[tuple[Path, Tenant]] = []
    for path in paths:
        try:
            known.append((path, yaml_files.read(path, Tenant)))
        except yaml_files.WrongYaml:
            continue  # it is among the mistakes
    found += [finding for _, tenant in known for finding in _keys(tenant, now)]
    if not found:
        found.append(well("tenants", f"{len(known)} files are right: {', '.join(tenant.id for _, tenant in known)}"))
    return found, known


def _keys(tenant: Tenant, now: datetime) -> Iterator[Finding]:
    for key in tenant.keys:
        if key.expires_at is None or key.expires_at > now + _SOON:
            continue
        when = f"{key.expires_at:%Y-%m-%d %H:%M %Z}"
        if key.expires_at <= now:
            yield warning(
                "tenants", f"key `{key.id}` of `{tenant.id}` ended {when}", fix="Take it out, or make another."
            )
        else:
            yield warning(
                "tenants",
                f"key `{key.id}` of `{tenant.id}` ends {when}",
                fix=f"sabueso keys rotate {key.id} -t {tenant.id}",
            )


def databases(
    known: Iterable[tuple[Path, Tenant]], secrets: Path | None, seconds: float = _AUDIT_SECONDS
) -> Iterator[Finding]:
    """Each source of each tenant: its secret, and its role against the tenant's file. `seconds`: for one database."""
    for path, tenant in known:
        for source in tenant.sql:
            what = f"`{source.name}` of `{tenant.id}`"
            if secrets is None:
                yield skipped("databases", f"{what} was not asked", fix="--secrets-dir: the folder with the DSN files")
                continue
            for name in (source.dsn_secret, *source.replica_dsn_secrets):
                yield _database(path, source.name, f"{what} by {name}", secrets / name, seconds)


def _database(path: Path, source: str, what: str, secret: Path, seconds: float) -> Finding:
    try:
        dsn = secret.read_text()
    except (OSError, UnicodeDecodeError) as error:
        why = f"{secret}: {error.strerror if isinstance(error, OSError) else 'is no text'}"
        fix = "Put the reader role's DSN there (databases.existingSecret in the chart)."
        return wrong("databases", f"{what} has no DSN", why=why, fix=fix)
    try:
        done = _audited([str(path), source], dsn, seconds)
    except subprocess.TimeoutExpired:
        fix = "Is the host right, and may this machine reach it?"
        return wrong("databases", f"{what} did not answer in {seconds:.0f} s", fix=fix)
    said = (done.stdout + done.stderr).strip().replace(dsn.strip(), "…")
    if done.returncode == 0:
        return well("databases", f"{what}: {said.splitlines()[-1] if said else 'right'}")
    if "ModuleNotFoundError" in said:
        return skipped("databases", f"{what} was not asked", fix="Run doctor where the group sql_tool is installed.")
    fix = "python -m services.sql_tool.grants FILE --role ROLE prints the statements that make the role."
    return wrong("databases", f"{what} is not as the tenant's file says", why=said[-600:], fix=fix)


def _audited(words: Sequence[str], dsn: str, seconds: float) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-c", _AUDIT, *words]
    return subprocess.run(command, input=dsn, capture_output=True, text=True, timeout=seconds, check=False)
