"""The `sabueso` command: ask, search, ingest, documents, doctor."""

import json
import time
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from services.cli.ask import Printer
from services.cli.client import Client, Failed
from services.cli.config import Settings

app = typer.Typer(no_args_is_help=True, add_completion=False, help="Ask sabueso, and give it documents.")
out = Console(highlight=False)
complaints = Console(stderr=True, highlight=False)

Json = Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")]


@app.command()
def ask(
    question: Annotated[str, typer.Argument(help="In Spanish or English.")],
    as_json: Json = False,
    steps: Annotated[bool, typer.Option(help="Show what the model looks up.")] = True,
    collection: Annotated[list[str] | None, typer.Option(help="Search only these collections.")] = None,
    deadline_ms: Annotated[int, typer.Option(min=100, help="Time for the whole answer.")] = 60_000,
) -> None:
    """Answer a question, with its sources. Exit status 0: answered, 2: partial or refused, 1: failed."""
    options: dict[str, Any] = {"deadline_ms": deadline_ms}
    if collection:
        options["collections"] = collection
    printer = Printer(out, steps=steps, quiet=as_json)
    for chunk in _client().ask(question, options):
        printer.show(chunk)
    if as_json:
        _print_json(printer.result())
    else:
        printer.finish()
    raise typer.Exit(0 if printer.finish_word == "answered" else 2)


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
    found = _client().call("POST", "/search", json=body)
    if as_json:
        return _print_json(found)
    for number, passage in enumerate(found["results"], 1):
        page = f", page {passage['page']}" if passage.get("page") else ""
        out.print(f"[bold]{number}. {passage['title']}[/bold]  {passage.get('section', '')}{page}", soft_wrap=True)
        out.print(f"   {passage['text'][:300]}", style="dim", markup=False, soft_wrap=True)
    return None


@app.command()
def ingest(
    folder: Annotated[Path, typer.Argument(exists=True, help="A file, or a folder with all below it.")],
    collection: Annotated[str, typer.Option(help="Collection; made if it is not there.")],
    language: Annotated[str, typer.Option(help="ISO 639-1; empty: detected.")] = "",
    wait: Annotated[bool, typer.Option(help="Wait until everything is searchable.")] = True,
    as_json: Json = False,
) -> None:
    """Send files and wait until they can be found; again is safe. Exit status 2: some failed."""
    client = _client()
    files = [folder] if folder.is_file() else sorted(p for p in folder.rglob("*") if p.is_file())
    if not files:
        _fail(f"There are no files in {folder}.")
    names = {c["name"] for c in client.call("GET", "/collections")["data"]}
    if collection not in names:
        client.call("PUT", f"/collections/{collection}", json={"description": "", "language": language})
    root = folder if folder.is_dir() else folder.parent
    jobs: dict[str, str] = {}
    with Progress(console=complaints, transient=True, disable=as_json) as progress:
        task = progress.add_task("sending", total=len(files))
        for path in files:
            document_id = _document_id(path.relative_to(root))
            fields = {"collection": collection, "document_id": document_id, "language": language}
            client.upload(path, {k: v for k, v in fields.items() if v})
            jobs[document_id] = "queued"
            progress.advance(task)
        if wait:
            _wait_until_ready(client, jobs, progress)
    failed = {d: s for d, s in jobs.items() if s not in ("ready", "queued")}
    if as_json:
        _print_json({"documents": jobs})
    else:
        for document_id, status in failed.items():
            complaints.print(f"{document_id}: {status}", markup=False)
        out.print(f"{len(jobs) - len(failed)} of {len(jobs)} documents are in `{collection}`.")
    if failed:
        raise typer.Exit(2)


@app.command()
def documents(as_json: Json = False) -> None:
    """List documents and how far their ingestion is."""
    found = _client().call("GET", "/documents")
    if as_json:
        return _print_json(found)
    table = Table("document", "collection", "status", "title", box=None)
    for document in found["data"]:
        status = document["status"] + (f": {document['reason']}" if document.get("reason") else "")
        table.add_row(document["document_id"], document["collection"], status, document.get("title", ""))
    out.print(table)
    return None


@app.command()
def doctor(as_json: Json = False) -> None:
    """Check that the gateway, its services and the key work. Exit status 1: something is wrong."""
    client = _client()
    ready = client.ready()
    models = [m["id"] for m in client.call("GET", "/models")["data"]]
    if as_json:
        _print_json({"ready": ready, "models": models})
    else:
        for service, state in ready.get("services", {}).items():
            out.print(f"  {service:<14} {state}")
        out.print(f"  {'key':<14} works; models: {', '.join(models)}")
    if ready["status_code"] != 200:
        _fail("The gateway is not ready.")


def _wait_until_ready(client: Client, jobs: dict[str, str], progress: Progress) -> None:
    task = progress.add_task("reading and embedding", total=len(jobs))
    open_states = ("queued", "parsing", "embedding")
    while any(status in open_states for status in jobs.values()):
        time.sleep(0.3)
        for document in client.call("GET", "/documents", params={"limit": 1000})["data"]:
            if document["document_id"] in jobs:
                reason = f": {document['reason']}" if document.get("reason") else ""
                jobs[document["document_id"]] = document["status"] + reason
        progress.update(task, completed=sum(status not in open_states for status in jobs.values()))


def _document_id(path: Path) -> str:
    """A stable id from the path, so that sending the same file again replaces it."""
    allowed = "".join(c if c.isascii() and (c.isalnum() or c in "-_./") else "_" for c in path.as_posix())
    return allowed[-200:]


def _client() -> Client:
    return Client(Settings())


def _print_json(value: Any) -> None:
    print(json.dumps(value, ensure_ascii=False, indent=2))


def _fail(message: str) -> NoReturn:
    complaints.print(message, markup=False, soft_wrap=True)
    raise typer.Exit(1)


def main() -> None:
    """Entry point: what the gateway refuses is one line on stderr and exit status 1."""
    try:
        app()
    except Failed as error:
        complaints.print(str(error), markup=False, soft_wrap=True)
        raise SystemExit(1) from None
    except KeyboardInterrupt:
        raise SystemExit(130) from None
