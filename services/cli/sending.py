"""`sabueso ingest`: files and folders into a collection, with a progress bar."""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from services.cli.client import Client, Failed
from services.cli.console import Json, Yes, complaints, confirm, connect, fail, out, print_json
from services.cli.folder import Choice, SameId, find, prefix_of
from services.cli.ingest import Counts, Entry, Ingestion, Target, gone, summary


def ingest(
    paths: Annotated[list[Path], typer.Argument(exists=True, help="Files, and folders with all below them.")],
    collection: Annotated[str, typer.Option(help="Collection that they go to.")],
    label: Annotated[list[str] | None, typer.Option(help="Who may read them; none: all of the tenant.")] = None,
    language: Annotated[str, typer.Option(help="ISO 639-1; empty: detected.")] = "",
    recursive: Annotated[bool, typer.Option(help="Go into the folders of a folder.")] = True,
    include: Annotated[list[str] | None, typer.Option(help="Only files that match, such as '*.pdf'.")] = None,
    exclude: Annotated[list[str] | None, typer.Option(help="No files that match, such as 'drafts/*'.")] = None,
    prefix: Annotated[str, typer.Option(help="Begins the documents' ids; the folder's name if not given.")] = "",
    create: Annotated[bool, typer.Option("--create", help="Make the collection if it is not there.")] = False,
    prune: Annotated[bool, typer.Option("--prune", help="Delete documents whose files are gone.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be done.")] = False,
    wait: Annotated[bool, typer.Option(help="Wait until everything is searchable.")] = True,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Send what is not there yet, and wait until it can be found. Again is safe, and goes on after an interruption.

    Exit status 1: some files failed. Hidden files are left out.
    """
    choice = Choice(recursive, include or (), exclude or ())
    try:
        files = find(paths, choice, prefix)
    except SameId as error:
        fail(str(error))
    except OSError as error:
        fail(f"{error.filename} cannot be read: {error.strerror}.")
    if not files:
        fail("There are no such files.")
    with connect() as client:
        _check_collection(client, collection, language, create=create and not dry_run, must_exist=not create)
        target = Target(collection, language, tuple(label or ()))
        with _shown(quiet=as_json) as show:
            run = Ingestion(client, target, show=show)
            run.plan(files)
            if not dry_run:
                _send(client, run, follow=wait)
        pruned = _prune(client, paths, prefix, collection, yes=yes, dry_run=dry_run) if prune else []
        _report(run.entries, pruned, dry_run=dry_run, as_json=as_json, collection=collection)


def _check_collection(client: Client, name: str, language: str, *, create: bool, must_exist: bool) -> None:
    names = [one["name"] for one in client.call("GET", "/collections")["data"]]
    if name in names:
        return
    if must_exist:
        fail(f"There is no collection `{name}`; existing are: {', '.join(names) or 'none'}. Make it with --create.")
    if create:
        client.call("PUT", f"/collections/{name}", json={"language": language} if language else {})


def _send(client: Client, run: Ingestion, *, follow: bool) -> None:
    again = "What was sent goes on by itself; the same command again takes it up and sends the rest."
    try:
        run.send(follow=follow)
    except KeyboardInterrupt:
        client.close()
        complaints.print(f"Stopped. {again}", soft_wrap=True)
        raise typer.Exit(130) from None
    except Failed as error:
        fail(f"{error} {again}")


def _prune(
    client: Client, paths: Sequence[Path], prefix: str, collection: str, *, yes: bool, dry_run: bool
) -> list[str]:
    """Deletes documents whose files are gone: not those whose files were left out by the patterns."""
    folders = [path for path in paths if path.is_dir()]
    present = {file.document_id for file in find(folders, Choice(), prefix)}
    roots = {prefix_of(folder, prefix) for folder in folders}
    documents = list(client.documents())
    ids = sorted({id_ for root in roots for id_ in gone(documents, collection, root, present)})
    if not ids or dry_run:
        return ids
    shown = ", ".join(ids[:5]) + (", …" if len(ids) > 5 else "")
    confirm(f"Delete {len(ids)} documents of `{collection}` whose files are gone ({shown})?", yes=yes)
    for id_ in ids:
        client.call("DELETE", f"/documents/{id_}")
    return ids


def _report(entries: list[Entry], pruned: list[str], *, dry_run: bool, as_json: bool, collection: str) -> None:
    report = summary(entries, pruned)
    counts = report["counts"]
    if as_json:
        print_json({"collection": collection, "dry_run": dry_run, **report})
    else:
        if dry_run:
            for entry in entries:
                word = "send" if entry.state == "sent" else entry.state
                out.print(f"{word:<8} {entry.file.document_id}", markup=False, soft_wrap=True)
            for id_ in pruned:
                out.print(f"{'delete':<8} {id_}", markup=False, soft_wrap=True)
        for entry in entries:
            if entry.state == "failed":
                complaints.print(f"{entry.file.path}: {entry.reason}", style="red", markup=False, soft_wrap=True)
        words = {
            "sent": "to send" if dry_run else "sent",
            "skipped": "there already",
            "empty": "empty",
            "failed": "failed",
            "pruned": "to delete" if dry_run else "deleted",
        }
        said = ", ".join(f"{counts[state]} {word}" for state, word in words.items() if counts[state])
        out.print(f"`{collection}`: {said}.", markup=False)
    if counts["failed"]:
        raise typer.Exit(1)


@contextmanager
def _shown(*, quiet: bool) -> Generator["_Bars"]:
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    hidden = quiet or not complaints.is_terminal
    with Progress(*columns, console=complaints, transient=True, disable=hidden) as progress:
        yield _Bars(progress)


class _Bars:
    """One bar for files, one for passages."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._files = progress.add_task("files", total=None)
        self._chunks = progress.add_task("passages", total=None)

    def __call__(self, counts: Counts, waiting_for: str) -> None:
        words = f"files ({counts.uploaded} sent)" + (f" — waiting: {waiting_for}" if waiting_for else "")
        self._progress.update(self._files, total=counts.todo, completed=counts.done, description=words)
        self._progress.update(self._chunks, total=counts.total_chunks or None, completed=counts.chunks)
