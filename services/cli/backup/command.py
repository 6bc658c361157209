"""The commands `backup` and `restore`."""

from pathlib import Path
from typing import Annotated, NoReturn

import typer

from services.cli.backup import restoring, saving
from services.cli.backup.config import Places, databases
from services.cli.backup.edge_folder import EdgeFolder
from services.cli.backup.part import Part, Refused
from services.cli.backup.qdrant import QdrantServer
from services.cli.backup.spool import Spool
from services.cli.backup.tenant_files import TenantFiles
from services.cli.console import Json, complaints, out, print_json

_DIFFERS = 3

_TenantsDir = Annotated[Path | None, typer.Option(help="The tenants' files; else SABUESO_TENANTS_DIR.")]
_VectorStore = Annotated[str | None, typer.Option(help="qdrant:https://… or edge:FOLDER; else SABUESO_VECTOR_STORE.")]
_ValkeyUrl = Annotated[str | None, typer.Option(help="redis://…; better SABUESO_VALKEY_URL, which others cannot read.")]
_SpoolDir = Annotated[Path | None, typer.Option(help="Ingestion's folder; else SABUESO_SPOOL_DIR.")]
_Postgres = Annotated[
    list[str] | None,
    typer.Option(help="NAME=FILE: a database whose DSN is in FILE; more than once. SABUESO_RESULTS_DSN is `results`."),
]
_Only = Annotated[list[str] | None, typer.Option(help="Only this part, such as vectors or postgres-results.")]


def backup(
    to: Annotated[Path, typer.Argument(help="A folder that is not there yet; with --keep a folder of backups.")],
    keep: Annotated[int, typer.Option(min=0, help="Name it by the time, and keep so many; 0: no rotation.")] = 0,
    tenants_dir: _TenantsDir = None,
    vector_store: _VectorStore = None,
    valkey_url: _ValkeyUrl = None,
    spool_dir: _SpoolDir = None,
    postgres: _Postgres = None,
    only: _Only = None,
    while_written: Annotated[bool, typer.Option(help="Go on where documents change all the time.")] = False,
    as_json: Json = False,
) -> None:
    """Save documents with their vectors, issued keys, conversations, jobs, results and the tenants' files.

    Places are read from the services' own variables, or said. Secrets are not saved. The folder appears when all of it
    is on disk.

    Exit status 0: it is whole, 1: it could not be made, and there is none.
    """
    try:
        places = Places.read(
            tenants_dir=tenants_dir, vector_store=vector_store, valkey_url=valkey_url, spool_dir=spool_dir
        )
        parts, left_out = _chosen(_parts(places, postgres or [], while_written=while_written), only)
        target = saving.named_by_time(to) if keep else to
        made = saving.save(target, parts, left_out, _say if not as_json else _quiet)
        pruned = saving.prune(to, keep) if keep else []
    except (Refused, OSError) as error:
        _end(f"No backup was made: {error}.")
    warnings = [f"{name}: {one}" for name, part in made.parts.items() for one in part.warnings]
    if as_json:
        print_json({"folder": str(target), "pruned": [str(one) for one in pruned], **made.model_dump(mode="json")})
    else:
        out.print(f"{target}: {made.size_bytes / 2**20:.1f} MiB. Secrets are not in it.", markup=False, soft_wrap=True)
        if left_out:
            out.print(f"Left out, for no place was said: {', '.join(left_out)}", style="dim", markup=False)
    for one in warnings:
        complaints.print(f"! {one}", markup=False, soft_wrap=True)


def restore(
    from_: Annotated[Path, typer.Argument(metavar="FROM", help="A backup's folder.", exists=True, file_okay=False)],
    replace: Annotated[bool, typer.Option("--replace", help="Instead of what is there, which is lost.")] = False,
    check: Annotated[bool, typer.Option("--check", help="Change nothing: is it whole, does what runs agree?")] = False,
    tenants_dir: _TenantsDir = None,
    vector_store: _VectorStore = None,
    valkey_url: _ValkeyUrl = None,
    spool_dir: _SpoolDir = None,
    postgres: _Postgres = None,
    only: _Only = None,
    as_json: Json = False,
) -> None:
    """Put a backup back where the settings say. Stop ingestion, retrieval and the gateways before.

    Exit status 0: all is as it was saved, 1: refused, 3: something differs, which is told.
    """
    try:
        places = Places.read(
            tenants_dir=tenants_dir, vector_store=vector_store, valkey_url=valkey_url, spool_dir=spool_dir
        )
        parts, _ = _chosen(_parts(places, postgres or []), only)
        if check:
            manifest = restoring.whole(from_)
            differs = restoring.compare(manifest, restoring.matched(manifest, parts)[0])
        else:
            differs = restoring.restore(from_, parts, _say if not as_json else _quiet, replace=replace)
    except (Refused, OSError) as error:
        _end(f"Not restored: {error}.")
    if as_json:
        print_json({"folder": str(from_), "restored": not check, "differs": differs})
    else:
        out.print("The backup is whole." if check else "All is in place.", markup=False)
    for one in differs if not as_json else ():
        complaints.print(f"! {one}", markup=False, soft_wrap=True)
    raise typer.Exit(_DIFFERS if differs else 0)


def _parts(places: Places, said: list[str], *, while_written: bool = False) -> dict[str, Part | None]:
    """Every part in the order of saving, None where it has no place. Raises Refused."""
    kind, _, where = places.vector_store.partition(":")
    store: Part | None = None
    if kind == "qdrant":
        store = QdrantServer(where, places.qdrant_api_key.get_secret_value(), while_written=while_written)
    elif kind == "edge":
        store = EdgeFolder(Path(where), while_written=while_written)
    url = places.valkey_url.get_secret_value()
    found: dict[str, Part | None] = {
        "spool": Spool(places.spool_dir) if places.spool_dir else None,
        "valkey": _valkey(url) if url else None,
        store.name if store else "vectors": store,
    }
    dsns = databases(places, dict(map(_dsn_of, said)))
    found |= {"postgres-results": None} | {f"postgres-{name}": _database(name, dsn) for name, dsn in dsns.items()}
    return found | {"tenants": TenantFiles(places.tenants_dir) if places.tenants_dir else None}


# Their drivers are imported only here: no other command waits for them, or needs them to be installed.
def _valkey(url: str) -> Part:
    try:
        from services.cli.backup.valkey_keys import ValkeyKeys
    except ModuleNotFoundError as error:
        raise Refused(f"{error}: it is needed for Valkey") from None
    return ValkeyKeys(url)


def _database(name: str, dsn: str) -> Part:
    try:
        from services.cli.backup.postgres import Database
    except ModuleNotFoundError as error:
        raise Refused(f"{error}: it is needed for PostgreSQL") from None
    return Database(name, dsn)


def _dsn_of(said: str) -> tuple[str, str]:
    name, _, file = said.partition("=")
    if not name.isidentifier() or not file:
        raise Refused(f"--postgres {said}: say NAME=FILE")
    try:
        return name, Path(file).read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise Refused(f"--postgres {said}: {error}") from None


def _chosen(parts: dict[str, Part | None], only: list[str] | None) -> tuple[list[Part], list[str]]:
    """Those that have a place and are wanted, and the names of the others."""
    if unknown := sorted(set(only or ()) - parts.keys()):
        raise Refused(f"there is no part {', '.join(unknown)}; there are {', '.join(parts)}")
    wanted = {name: part for name, part in parts.items() if part is not None and (not only or name in only)}
    return list(wanted.values()), [name for name in parts if name not in wanted]


def _say(line: str) -> None:
    out.print(f"• {line}", markup=False, soft_wrap=True)


def _quiet(_: str) -> None:
    pass


def _end(message: str) -> NoReturn:
    complaints.print(message, markup=False, soft_wrap=True)
    raise typer.Exit(1)
