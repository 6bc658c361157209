"""The `sabueso` command: ask, search, ingest, documents, collections, doctor, sql, web, tenants, keys, evals …"""

from typing import Annotated

import typer

from services.cli import checks, collections, documents, evals, keys, limits, mcp_servers, sending, tenants
from services.cli.ask import ask
from services.cli.client import Failed
from services.cli.console import Json, complaints, connect, fail, out, print_json

app = typer.Typer(no_args_is_help=True, add_completion=False, help="Ask sabueso, and give it documents.")
app.command()(ask)
app.command()(sending.ingest)
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


@app.command()
def doctor(as_json: Json = False) -> None:
    """Check that the gateway, its services and the key work. Exit status 1: something is wrong."""
    with connect() as client:
        ready = client.ready()
        models = [m["id"] for m in client.call("GET", "/models")["data"]]
        if as_json:
            print_json({"ready": ready, "models": models})
        else:
            for service, state in ready.get("services", {}).items():
                out.print(f"  {service:<14} {state}")
            out.print(f"  {'key':<14} works; models: {', '.join(models)}")
        if ready["status_code"] != 200:
            fail("The gateway is not ready.")


def main() -> None:
    """Entry point: what the gateway refuses is one line on stderr and exit status 1."""
    try:
        app()
    except Failed as error:
        complaints.print(str(error), markup=False, soft_wrap=True)
        raise SystemExit(1) from None
    except KeyboardInterrupt:
        raise SystemExit(130) from None
