"""The `sabueso` command: ask, search, ingest, documents, doctor, backup, restore, sql, web, tenants, keys, evals …"""

from typing import Annotated

import typer

from services.cli import checks, collections, documents, evals, keys, limits, mcp_servers, sending, tenants
from services.cli.ask import ask
from services.cli.backup.command import backup, restore
from services.cli.bulk_index import bulk_index
from services.cli.capacity.command import capacity
from services.cli.client import Failed
from services.cli.console import Json, complaints, connect, out, print_json
from services.cli.doctor.command import doctor

app = typer.Typer(no_args_is_help=True, add_completion=False, help="Ask sabueso, and give it documents.")
app.command()(ask)
app.command()(sending.ingest)
app.command()(bulk_index)
app.command()(doctor)
app.command()(backup)
app.command()(restore)
app.command()(capacity)
app.add_typer(documents.app, name="documents")
app.add_typer(collections.app, name="collections")
app.add_typer(checks.sql_app, name="sql")
app.add_typer(checks.web_app, name="web")
app.add_typer(tenants.app, name="tenants")
app.add_typer(keys.app, name="keys")
app.add_typer(limits.app, name="limits")
app.add_typer(mcp_servers.app, name="mcp")
app.add_typer(evals.app, name="evals")


@app.command()
def search(
    query: str,
    top_k: Annotated[int, typer.Option(min=1, max=100)] = 5,
    mode: Annotated[str, typer.Option(help="dense, sparse or hybrid.")] = "hybrid",
    collection: Annotated[list[str] | None, typer.Option()] = None,
    as_json: Json = False,
) -> None:
    """Find passages, without a model."""
    body = {"query": query, "top_k": top_k, "mode": mode, "collections": collection or []}
    with connect() as client:
        found = client.call("POST", "/search", json=body)
    if as_json:
        return print_json(found)
    for number, passage in enumerate(found["results"], 1):
        page = f", page {passage['page']}" if passage.get("page") else ""
        out.print(f"[bold]{number}. {passage['title']}[/bold]  {passage.get('section', '')}{page}", soft_wrap=True)
        out.print(f"   {passage['text'][:300]}", style="dim", markup=False, soft_wrap=True)
    return None


def main() -> None:
    """Entry point: what the gateway refuses is one line on stderr and exit status 1."""
    try:
        app()
    except Failed as error:
        complaints.print(str(error), markup=False, soft_wrap=True)
        raise SystemExit(1) from None
    except KeyboardInterrupt:
        raise SystemExit(130) from None
