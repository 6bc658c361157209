"""`sabueso documents`: what there is, how far it is, and taking it away."""

from typing import Annotated

import typer
from rich.table import Table

from services.cli.client import Refused
from services.cli.console import Json, Yes, complaints, confirm, connect, out, print_json

app = typer.Typer(invoke_without_command=True, help="List, show and delete documents.")


@app.callback()
def first(context: typer.Context) -> None:
    """List, show and delete documents."""
    if context.invoked_subcommand is None:
        list_all()


@app.command("list")
def list_all(
    collection: Annotated[str, typer.Option(help="Only of this collection.")] = "",
    status: Annotated[str, typer.Option(help="Only with this status, such as failed.")] = "",
    as_json: Json = False,
) -> None:
    """List documents and how far their ingestion is."""
    with connect() as client:
        found = [
            document
            for document in client.documents()
            if collection in ("", document["collection"]) and status in ("", document["status"])
        ]
    if as_json:
        return print_json({"object": "list", "data": found})
    table = Table("document", "collection", "status", "title", box=None)
    for document in found:
        said = document["status"] + (f": {document['reason']}" if document.get("reason") else "")
        table.add_row(document["document_id"], document["collection"], said, document.get("title", ""))
    out.print(table)
    return None


@app.command()
def show(document_id: str, as_json: Json = False) -> None:
    """Show one document."""
    with connect() as client:
        document = client.call("GET", f"/documents/{document_id}")
    if as_json:
        return print_json(document)
    for name, value in document.items():
        if value not in (None, "", [], {}):
            out.print(f"{name:<18} {value}", markup=False, soft_wrap=True)
    return None


@app.command()
def delete(document_ids: list[str], yes: Yes = False) -> None:
    """Delete documents, and stop what is still coming in of them."""
    with connect() as client:
        confirm(f"Delete {len(document_ids)} documents?", yes=yes)
        failed = False
        for document_id in document_ids:
            try:
                client.call("DELETE", f"/documents/{document_id}")
                out.print(f"{document_id}: deleted", markup=False, soft_wrap=True)
            except Refused as refusal:
                failed = True
                complaints.print(f"{document_id}: {refusal}", markup=False, soft_wrap=True)
        if failed:
            raise typer.Exit(1)
