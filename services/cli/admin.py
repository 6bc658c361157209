"""What the commands for admins share: whose tenant it is, and spans of time."""

import re
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import typer
import yaml

from services.cli.client import Client

Tenant = Annotated[str, typer.Option("--tenant", "-t", help="Whose; your key's own tenant when it is not said.")]

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def span_seconds(text: str) -> int:
    """Seconds of `90d`, `12h`, `30m` or `45s`. Raises typer.BadParameter, which ends the command with status 2."""
    found = re.fullmatch(r"(\d{1,9})([smhd])", text.strip())
    if found is None:
        raise typer.BadParameter(f"`{text}` is no span of time: say 90d, 12h, 30m or 45s.")
    return int(found[1]) * _UNITS[found[2]]


def moment_in(text: str | None) -> str | None:
    """The moment after a span, as the API reads it; None for None."""
    return None if text is None else (datetime.now(UTC) + timedelta(seconds=span_seconds(text))).isoformat()


def tenant_of(client: Client, tenant: str) -> str:
    """The tenant that is meant."""
    return tenant or str(client.call("GET", "/usage")["tenant"])


def given(**fields: Any) -> dict[str, Any]:
    """Those that were said."""
    return {name: value for name, value in fields.items() if value not in (None, [], "")}


def as_yaml(value: Any) -> str:
    """For people, and for a tenant's file."""
    return str(yaml.dump(value, Dumper=yaml.SafeDumper, sort_keys=False, allow_unicode=True)).rstrip()  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]


def count(limit: int | None) -> str:
    """A limit for people."""
    return "–" if limit is None else f"{limit:,}" if limit else "unlimited"
