"""`sabueso collections`: sets of documents, how they are cut and indexed, and their migration to another model."""

import time
from typing import Annotated, Any

import typer
from rich.table import Table

from services.cli.client import Client
from services.cli.console import Json, Yes, confirm, connect, fail, out, print_json

app = typer.Typer(invoke_without_command=True, help="List, show, create, delete and migrate collections.")

Fields = dict[str, Any]
_POLL_SECONDS = 1

Links = Annotated[int | None, typer.Option(help="Links of a node of the HNSW graph.")]
BuildCandidates = Annotated[int | None, typer.Option(help="Candidates while the graph is built.")]
SearchCandidates = Annotated[int | None, typer.Option(help="Candidates of a search.")]
Compression = Annotated[str | None, typer.Option(help="none, scalar, binary or product.")]


@app.callback()
def first(context: typer.Context) -> None:
    """List, show, create, delete and migrate collections."""
    if context.invoked_subcommand is None:
        list_all()


@app.command("list")
def list_all(as_json: Json = False) -> None:
    """List all collections."""
    with connect() as client:
        found = client.call("GET", "/collections")
    if as_json:
        return print_json(found)
    table = Table("collection", "documents", "language", "model", "description", box=None)
    for one in found["data"]:
        count = str(one["document_count"])
        model = one.get("embedding_model") or ""
        table.add_row(one["name"], count, one["language"], model, one["description"])
    out.print(table)
    return None


@app.command()
def show(name: str, as_json: Json = False) -> None:
    """Show one collection with its settings and its latest migration."""
    with connect() as client:
        collection = client.call("GET", f"/collections/{name}")
    if as_json:
        return print_json(collection)
    _print(collection)
    return None


@app.command()
def create(
    name: str,
    description: Annotated[str, typer.Option(help="What it holds; the model reads it to choose where to look.")] = "",
    language: Annotated[str, typer.Option(help="ISO 639-1; empty: each document says its own.")] = "",
    strategy: Annotated[
        str | None, typer.Option(help="structure, fixed, sentences, recursive, semantic or code.")
    ] = None,
    max_tokens: Annotated[int | None, typer.Option(help="Largest passage.")] = None,
    min_tokens: Annotated[int | None, typer.Option(help="Smaller neighbours are joined up to this size.")] = None,
    overlap_tokens: Annotated[int | None, typer.Option(help="Repeated between neighbours.")] = None,
    parent_tokens: Annotated[
        int | None, typer.Option(help="Larger passages that are read in place of those found.")
    ] = None,
    hnsw_m: Links = None,
    hnsw_ef_construct: BuildCandidates = None,
    hnsw_ef: SearchCandidates = None,
    quantization: Compression = None,
    as_json: Json = False,
) -> None:
    """Create a collection; what is not given is the server's default."""
    with connect() as client:
        if any(one["name"] == name for one in client.call("GET", "/collections")["data"]):
            fail(f"There is a collection `{name}` already.")
        chunking = _given(
            strategy=strategy,
            max_tokens=max_tokens,
            min_tokens=min_tokens,
            overlap_tokens=overlap_tokens,
            parent_tokens=parent_tokens,
        )
        index = _given(hnsw_m=hnsw_m, hnsw_ef_construct=hnsw_ef_construct, hnsw_ef=hnsw_ef, quantization=quantization)
        body = {"description": description, "language": language, "chunking": chunking, "index": index}
        made = client.call("PUT", f"/collections/{name}", json={key: value for key, value in body.items() if value})
        if as_json:
            return print_json(made)
        _print(made)
        return None


@app.command()
def delete(name: str, yes: Yes = False, as_json: Json = False) -> None:
    """Delete a collection with all its documents."""
    with connect() as client:
        count = client.call("GET", f"/collections/{name}")["document_count"]
        confirm(f"Delete `{name}` with its {count} documents?", yes=yes)
        deleted = client.call("DELETE", f"/collections/{name}")
        if as_json:
            return print_json(deleted)
        out.print(f"`{name}` is deleted, with {deleted['document_count']} documents.", markup=False)
        return None


@app.command()
def migrate(
    name: str,
    hnsw_m: Links = None,
    hnsw_ef_construct: BuildCandidates = None,
    hnsw_ef: SearchCandidates = None,
    quantization: Compression = None,
    cancel: Annotated[bool, typer.Option("--cancel", help="Stop the migration that is running.")] = False,
    wait: Annotated[bool, typer.Option(help="Wait until it is done.")] = True,
    as_json: Json = False,
) -> None:
    """Embed a collection anew with the current model, in the background; searches go on. Exit status 1: it failed."""
    with connect() as client:
        if cancel:
            collection = client.call("DELETE", f"/collections/{name}/migrate")
        else:
            index = _given(
                hnsw_m=hnsw_m, hnsw_ef_construct=hnsw_ef_construct, hnsw_ef=hnsw_ef, quantization=quantization
            )
            collection = client.call("POST", f"/collections/{name}/migrate", json={"index": index} if index else {})
            if wait:
                collection = _migrated(client, name)
        migration: Fields = collection.get("migration") or {}
        if as_json:
            print_json(collection)
        else:
            reason = f": {migration['reason']}" if migration.get("reason") else ""
            done = f"{migration.get('done_count', 0)} of {migration.get('total_count', 0)} documents"
            out.print(f"`{name}`: {migration.get('state', 'unknown')}{reason} ({done})", markup=False, soft_wrap=True)
        if migration.get("state") == "failed":
            raise typer.Exit(1)


def _migrated(client: Client, name: str) -> Fields:
    """The collection when its migration does not run any more."""
    while True:
        collection = client.call("GET", f"/collections/{name}")
        migration: Fields = collection.get("migration") or {}
        if migration.get("state") != "running":
            return collection
        time.sleep(_POLL_SECONDS)


def _given(**values: object) -> Fields:
    return {name: value for name, value in values.items() if value is not None}


def _print(fields: Fields) -> None:
    for name, value in fields.items():
        if value not in (None, "", [], {}):
            out.print(f"{name:<16} {value}", markup=False, soft_wrap=True)
