"""`sabueso bulk-index`: a whole corpus into a collection, on a Ray cluster and past the gateway."""

import math
import sqlite3
import sys
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

import typer
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars

from services.cli.console import Json, complaints, fail, out, print_json
from services.cli.folder import Choice, SameId, document_id, find, prefix_of

if TYPE_CHECKING:
    from services.ingestion.bulk.corpus import Source, Target
    from services.ingestion.bulk.pipeline import Shape
    from services.ingestion.bulk.run import Progress

_LEDGERS = Path(".sabueso/bulk")
_MIB = 2**20
_LINE_SECONDS = 10


def bulk_index(
    paths: Annotated[list[str] | None, typer.Argument(help="Folders, files, or addresses such as s3://…")] = None,
    tenant: Annotated[str, typer.Option(help="Whose documents they are.")] = "",
    collection: Annotated[str, typer.Option(help="Collection that they go to; it must exist.")] = "",
    label: Annotated[list[str] | None, typer.Option(help="Who may read them; none: all of the tenant.")] = None,
    language: Annotated[str, typer.Option(help="ISO 639-1; empty: detected.")] = "",
    include: Annotated[list[str] | None, typer.Option(help="Only files that match, such as '*.pdf'.")] = None,
    exclude: Annotated[list[str] | None, typer.Option(help="No files that match, such as 'drafts/*'.")] = None,
    prefix: Annotated[str, typer.Option(help="Begins the documents' ids; the folder's name if not given.")] = "",
    from_file: Annotated[
        Path | None, typer.Option("--from", help="File with further paths and addresses, one a line.")
    ] = None,
    address: Annotated[
        str, typer.Option(help="Ray cluster: auto, host:port or ray://host:10001; empty: one here, for this run.")
    ] = "",
    cpus: Annotated[int, typer.Option(min=0, help="Processors of a cluster made here; 0: all.")] = 0,
    workers: Annotated[int, typer.Option(min=0, help="Workers that read and cut; 0: as many as fit.")] = 0,
    storers: Annotated[int, typer.Option(min=0, help="Workers that have vectors made and store; 0: some.")] = 0,
    encoders: Annotated[
        int, typer.Option(min=0, help="Encoders to start for the run; 0: the embedding service makes the vectors.")
    ] = 0,
    encoder_cpus: Annotated[float, typer.Option(min=0, help="Processors of an encoder.")] = 1,
    encoder_gpus: Annotated[float, typer.Option(min=0, help="GPUs of an encoder, such as 0.25.")] = 0,
    waiting_mib: Annotated[int, typer.Option(min=16, help="Most that waits between the stages, in MiB.")] = 256,
    ledger: Annotated[Path | None, typer.Option(help="File that remembers what was read.")] = None,
    resume: Annotated[bool, typer.Option(help="Believe the ledger: unchanged files are not read again.")] = True,
    as_json: Json = False,
) -> None:
    """Index a corpus on a Ray cluster: read, cut, embed, store. Again is safe, and does what is missing or changed.

    For operators: it needs the installation's SABUESO_IDENTITY_SECRET, SABUESO_RETRIEVAL_ADDRESS and
    SABUESO_EMBEDDING_ADDRESS (docs/ray.md) in the environment, and not a key.

    Exit status 1: some files failed; they are listed.
    """
    if not tenant or not collection:
        fail("Say whose documents they are, and where they go: --tenant and --collection.")
    try:
        from services.ingestion.bulk.corpus import Target
        from services.ingestion.bulk.pipeline import Shape
    except ModuleNotFoundError as error:
        how = "uv pip install --group ingestion -c requirements.lock"
        fail(f"{error}: the packages of the group ingestion are not installed ({how}).")
    choice = Choice(include=include or (), exclude=exclude or ())
    sources = _sources(paths or (), _lines(from_file) if from_file else (), choice, prefix)
    target = Target(tenant, collection, language, tuple(label or ()))
    shape = Shape(
        address, cpus, workers, storers, encoders, encoder_cpus, encoder_gpus, waiting_bytes=waiting_mib * _MIB
    )
    path = ledger or _LEDGERS / quote(tenant, safe="") / f"{quote(collection, safe='')}.sqlite"
    progress = _run(sources, target, shape, path, resume=resume, quiet=as_json)
    _report(progress, collection, as_json=as_json)


def _lines(path: Path) -> list[str]:
    try:
        text = sys.stdin.read() if str(path) == "-" else path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        fail(f"{path}: {error}")
    return [line.strip() for line in text.splitlines() if line.strip()]


def _sources(named: Sequence[str], listed: Sequence[str], choice: Choice, prefix: str) -> "list[Source]":
    """All files, each once, by document id. One of a list that cannot be reached fails later, by itself."""
    from services.ingestion.bulk import files
    from services.ingestion.bulk.optional import RayMissing

    found: dict[str, Source] = {}
    try:
        for number, name in enumerate([*named, *listed]):
            of_list = number >= len(named)
            for source in (
                _there(name, choice, prefix, of_list=of_list) if files.is_address(name) else _here(name, choice, prefix)
            ):
                other = found.setdefault(source.document_id, source)
                if other.uri != source.uri:
                    fail(f"{other.uri} and {source.uri} would become the same document; take one with --prefix.")
    except (SameId, RayMissing, files.NotListed) as error:
        fail(str(error))
    except OSError as error:
        fail(f"{error.filename} cannot be read: {error.strerror}.")
    if not found:
        fail("There are no such files.")
    return [found[id_] for id_ in sorted(found)]


def _here(name: str, choice: Choice, prefix: str) -> "Iterator[Source]":
    from services.ingestion.bulk.corpus import Source
    from services.ingestion.bulk.files import stamp_of

    for file in find([Path(name)], choice, prefix):
        # A file that is gone or closed is one that fails, and no end of the run.
        stamp = stamp_of(file.path) if file.path.exists() else ""
        yield Source(str(file.path.resolve()), file.document_id, stamp)


def _there(address: str, choice: Choice, prefix: str, *, of_list: bool) -> "Iterator[Source]":
    from services.ingestion.bulk.corpus import Source
    from services.ingestion.bulk.files import NotListed, listed

    *above, name = address.rstrip("/").rpartition("://")[2].split("/")
    outer = prefix_of(Path("."), prefix or (above[-1] if above else name))
    inner = prefix_of(Path("."), prefix or name)
    try:
        for one in listed(address):
            is_itself = one.uri == address
            if is_itself or choice.takes(one.relative):
                id_ = document_id(outer if is_itself else inner, one.relative)
                yield Source(one.uri, id_, one.stamp, address, one.path)
    except NotListed:
        if not of_list:
            raise
        yield Source(address, document_id(outer, name), store=address)


def _run(
    sources: "list[Source]", target: "Target", shape: "Shape", path: Path, *, resume: bool, quiet: bool
) -> "Progress":
    from services.ingestion.bulk.cluster import Broken
    from services.ingestion.bulk.config import Settings
    from services.ingestion.bulk.ledger import Ledger
    from services.ingestion.bulk.optional import RayMissing
    from services.ingestion.bulk.pipeline import TooSmall
    from services.ingestion.bulk.run import index
    from services.runtime.errors import ServiceError

    settings = Settings.read()
    try:
        # Ray prints what it thinks of workers that went, and scripts read what we print.
        said_aside = redirect_stdout(sys.stderr)
        with said_aside, Ledger(path) as ledger, _shown(len(sources), quiet=quiet) as show:
            if not resume:
                ledger.forget()
            return index(sources, target, settings, shape, ledger, show)
    except sqlite3.Error as error:
        fail(f"{path}: {error}. Another run may have it; or name another with --ledger.")
    except KeyboardInterrupt:
        complaints.print("Stopped. What is stored stays; the same command again does the rest.", soft_wrap=True)
        raise typer.Exit(130) from None
    except ServiceError as error:
        fail(error.message)
    except (RayMissing, TooSmall, Broken, ConnectionError) as error:
        fail(str(error))


def _report(progress: "Progress", collection: str, *, as_json: bool) -> None:
    counts = {state: progress.counts[state] for state in ("stored", "unchanged", "empty", "failed")}
    if as_json:
        print_json(
            {
                "collection": collection,
                "counts": counts,
                "chunks": progress.chunks,
                "failed": [
                    {"document_id": one.document_id, "file": one.uri, "reason": one.reason} for one in progress.failures
                ],
                "warned": [
                    {"document_id": one.document_id, "file": one.uri, "warnings": one.warnings}
                    for one in progress.warned
                ],
            }
        )
    else:
        for one in progress.warned:
            complaints.print(f"{one.uri}: {' '.join(one.warnings)}", style="yellow", markup=False, soft_wrap=True)
        for one in progress.failures:
            complaints.print(f"{one.uri}: {one.reason}", style="red", markup=False, soft_wrap=True)
        words = {"stored": "stored", "unchanged": "there already", "empty": "empty", "failed": "failed"}
        said = ", ".join(f"{counts[state]} {word}" for state, word in words.items() if counts[state])
        out.print(f"`{collection}`: {said}; {progress.chunks} passages.", markup=False)
    if counts["failed"]:
        raise typer.Exit(1)


@contextmanager
def _shown(total: int, *, quiet: bool) -> "Generator[Any]":
    if quiet or not complaints.is_terminal:
        yield _Lines(total, quiet=quiet)
        return
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    with Bars(*columns, console=complaints, transient=True) as bars:
        task = bars.add_task("files", total=total)

        def show(progress: "Progress") -> None:
            words = f"files ({progress.chunks} passages stored, {progress.counts['failed']} failed)"
            bars.update(task, completed=progress.done, description=words)

        yield show


class _Lines:
    """A line now and then, for the log of a job."""

    def __init__(self, total: int, *, quiet: bool) -> None:
        self._total = total
        self._next = math.inf if quiet else time.monotonic() + _LINE_SECONDS

    def __call__(self, progress: "Progress") -> None:
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + _LINE_SECONDS
            failed = progress.counts["failed"]
            complaints.print(
                f"{progress.done} of {self._total} files, {progress.chunks} passages stored, {failed} failed",
                soft_wrap=True,
            )
