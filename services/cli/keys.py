"""`sabueso keys`: keys of a tenant, made, rotated and revoked; and secrets for a tenant's file, made offline."""

from typing import Annotated, Any

import typer
from rich.table import Table

from services.cli.admin import Tenant, as_yaml, given, moment_in, span_seconds, tenant_of
from services.cli.console import Json, Yes, connect, fail, out, print_json
from services.runtime import api_keys

app = typer.Typer(no_args_is_help=True, help="List, make, rotate and revoke API keys.")

_Id = Annotated[str, typer.Argument(help="Name of the key.", metavar="ID")]
_Scopes = Annotated[list[str] | None, typer.Option("--scope", help="What it may do, such as agent; more than once.")]
_Models = Annotated[list[str] | None, typer.Option("--model", help="A served model's name or a pattern.")]
_Labels = Annotated[list[str] | None, typer.Option("--label", help="Opens documents that bear it.")]
_ExpiresIn = Annotated[str | None, typer.Option(help="Such as 90d or 12h; never when it is not said.")]
_PAGE = 1000


@app.command("list")
def list_all(tenant: Tenant = "", as_json: Json = False) -> None:
    """List all keys, with expired and revoked ones. Secrets are never shown."""
    with connect() as client:
        whose, after = tenant_of(client, tenant), ""
        keys: list[dict[str, Any]] = []
        while after is not None:
            page = client.call("GET", f"/admin/keys/{whose}", params={"limit": _PAGE, "after": after})
            keys += page["data"]
            after = page["after"]
    if as_json:
        return print_json({"object": "list", "data": keys})
    table = Table("key", "secret", "state", "from", "expires", "scopes", box=None)
    for key in keys:
        for number, secret in enumerate(key["secrets"]):
            named = (key["id"], ", ".join(key["scopes"])) if number == 0 else ("", "")
            expires = (secret["expires_at"] or "never")[:16]
            table.add_row(named[0], secret["prefix"] or "?", secret["state"], secret["source"], expires, named[1])
    out.print(table)
    return None


@app.command()
def create(
    id: _Id,
    tenant: Tenant = "",
    description: Annotated[str, typer.Option(help="For people: who uses it.")] = "",
    scope: _Scopes = None,
    model: _Models = None,
    label: _Labels = None,
    expires_in: _ExpiresIn = None,
    requests_per_minute: Annotated[int | None, typer.Option(min=0)] = None,
    tokens_per_minute: Annotated[int | None, typer.Option(min=0)] = None,
    concurrent_requests: Annotated[int | None, typer.Option(min=0)] = None,
    daily_tokens: Annotated[int | None, typer.Option(min=0)] = None,
    as_json: Json = False,
) -> None:
    """Make a key, and print its secret once."""
    limits = given(
        requests_per_minute=requests_per_minute,
        tokens_per_minute=tokens_per_minute,
        concurrent_requests=concurrent_requests,
        daily_tokens=daily_tokens,
    )
    body = given(
        id=id, description=description, scopes=scope, models=model, labels=label, expires_at=moment_in(expires_in)
    )
    with connect() as client:
        whose = tenant_of(client, tenant)
        made = client.call("POST", f"/admin/keys/{whose}", json=body | ({"limits": limits} if limits else {}))
    _show_secret(made, as_json, f"It opens `{whose}` from now on.")


@app.command()
def rotate(
    id: _Id,
    tenant: Tenant = "",
    overlap: Annotated[str, typer.Option(help="How long the old secret goes on working, such as 24h.")] = "1h",
    as_json: Json = False,
) -> None:
    """Give a key another secret, and print it once. The old one works until the overlap ends."""
    body = {"overlap_seconds": span_seconds(overlap)}
    with connect() as client:
        made = client.call("POST", f"/admin/keys/{tenant_of(client, tenant)}/{id}/rotate", json=body)
    _show_secret(made, as_json, f"The old secret works for {overlap} more.")


@app.command()
def revoke(id: _Id, tenant: Tenant = "", yes: Yes = False, as_json: Json = False) -> None:
    """Revoke a key, of a file or made here. It cannot be taken back."""
    with connect() as client:
        whose = tenant_of(client, tenant)
        if not yes and not typer.confirm(f"Revoke `{id}` of `{whose}`, so that nothing opens it any more?", err=True):
            fail("Nothing was revoked.")
        revoked = client.call("DELETE", f"/admin/keys/{whose}/{id}")
    if as_json:
        return print_json(revoked)
    out.print(f"`{id}` is revoked; within seconds it opens nothing anywhere.", markup=False, soft_wrap=True)
    if revoked["source"] == "file":
        out.print("Take it out of the tenant's file too.", markup=False)
    return None


@app.command("hash")
def hash_new(
    id: Annotated[str, typer.Argument(help="Name of the key.")] = "main",
    scope: _Scopes = None,
    as_json: Json = False,
) -> None:
    """Make a secret offline, with the lines that the tenant's file needs. Nothing is sent anywhere."""
    new = api_keys.mint()
    entry: dict[str, Any] = {"id": id, "prefix": new.prefix, "sha256": new.sha256, **given(scopes=scope)}
    if as_json:
        return print_json({"key": new.text, "entry": entry})
    out.print(new.text, markup=False, soft_wrap=True)
    out.print("\nIt is kept nowhere: store it now. Under `keys:` of the tenant's file:\n", style="dim")
    out.print(as_yaml([entry]), markup=False, soft_wrap=True)
    return None


def _show_secret(made: dict[str, Any], as_json: bool, hint: str) -> None:
    if as_json:
        return print_json(made)
    out.print(made["key"], markup=False, soft_wrap=True)
    out.print(f"It is shown this once: store it now. {hint}", style="dim", markup=False, soft_wrap=True)
    return None
