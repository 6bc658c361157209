"""`sabueso limits`: what a tenant and its keys may use, and limits in place of those of the files."""

from typing import Annotated, Any

import typer
from rich.table import Table

from services.cli.admin import Tenant, count, given, moment_in, tenant_of
from services.cli.console import Json, connect, fail, out, print_json

app = typer.Typer(no_args_is_help=True, help="Show limits, and replace them for a while.")

_Key = Annotated[str, typer.Option("--key", "-k", help="Of this key instead of the whole tenant.")]
_NAMES = ("requests_per_minute", "tokens_per_minute", "concurrent_requests", "daily_tokens", "body_bytes")


@app.command()
def show(tenant: Tenant = "", key: _Key = "", as_json: Json = False) -> None:
    """Show limits as declared, as replaced, and as in force."""
    with connect() as client:
        shown = client.call("GET", _path(tenant_of(client, tenant), key))
    _print(shown, as_json)


@app.command("set")
def replace(
    tenant: Tenant = "",
    key: _Key = "",
    requests_per_minute: Annotated[int | None, typer.Option(min=0, help="0: unlimited.")] = None,
    tokens_per_minute: Annotated[int | None, typer.Option(min=0, help="0: unlimited.")] = None,
    concurrent_requests: Annotated[int | None, typer.Option(min=0, help="0: unlimited.")] = None,
    daily_tokens: Annotated[int | None, typer.Option(min=0, help="0: unlimited.")] = None,
    body_bytes: Annotated[int | None, typer.Option(min=1)] = None,
    expires_in: Annotated[str | None, typer.Option(help="Such as 7d; until `clear` when it is not said.")] = None,
    as_json: Json = False,
) -> None:
    """Replace limits. What is not given holds as declared, also where an earlier `set` replaced it."""
    body = given(
        requests_per_minute=requests_per_minute,
        tokens_per_minute=tokens_per_minute,
        concurrent_requests=concurrent_requests,
        daily_tokens=daily_tokens,
        body_bytes=body_bytes,
    )
    if not body:
        fail("Say which limit: see `sabueso limits set --help`.")
    with connect() as client:
        path = _path(tenant_of(client, tenant), key)
        shown = client.call("PUT", path, json=body | given(expires_at=moment_in(expires_in)))
    _print(shown, as_json)


@app.command()
def clear(tenant: Tenant = "", key: _Key = "", as_json: Json = False) -> None:
    """Let the declared limits hold again."""
    with connect() as client:
        shown = client.call("DELETE", _path(tenant_of(client, tenant), key))
    _print(shown, as_json)


def _path(tenant: str, key: str) -> str:
    return f"/admin/limits/{tenant}/{key}" if key else f"/admin/limits/{tenant}"


def _print(shown: dict[str, Any], as_json: bool) -> None:
    if as_json:
        return print_json(shown)
    override: dict[str, Any] = shown["override"] or {}
    table = Table("limit", "declared", "replaced by", "in force", box=None)
    for name in _NAMES:
        if name in shown["declared"]:
            row = (count(one.get(name)) for one in (shown["declared"], override, shown["effective"]))
            table.add_row(name, *row)
    out.print(table)
    for model, own in shown["effective"].get("models", {}).items():
        told = ", ".join(f"{name} {count(value)}" for name, value in own.items() if value)
        out.print(f"{model}: {told}", markup=False, soft_wrap=True)
    if override:
        until = (override["expires_at"] or "cleared")[:16]
        out.print(f"Replaced by {override['set_by']} until {until}.", style="dim", markup=False, soft_wrap=True)
    if shown["keys_with_overrides"]:
        out.print(f"Also replaced: {', '.join(shown['keys_with_overrides'])}", style="dim", markup=False)
    return None
