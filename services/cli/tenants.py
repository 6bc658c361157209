"""`sabueso tenants`: who they are, and whether their files are right."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml
from pydantic import ValidationError
from rich.table import Table

from services.cli.admin import as_yaml, count, tenant_of
from services.cli.console import Json, complaints, connect, out, print_json
from services.runtime import yaml_files
from services.runtime.tenants import Tenant

app = typer.Typer(no_args_is_help=True, help="List and show tenants, and check their files.")


@dataclass(frozen=True)
class Mistake:
    """What is wrong in a tenant's file. `line` counts from 1; 0 when it is the file as a whole."""

    file: str
    line: int
    field: str
    reason: str


@app.command("list")
def list_all(as_json: Json = False) -> None:
    """List the tenants that your key manages. Exit status 1: a file is wrong, and the last good one is in force."""
    with connect() as client:
        found = client.call("GET", "/admin/tenants")
    if as_json:
        print_json(found)
    else:
        table = Table("tenant", "keys", "issued", "requests/min", "tokens/min", "priority", box=None)
        for one in found["data"]:
            keys, issued = str(one["declared_key_count"]), str(one["issued_key_count"])
            limits = one["limits"]
            rates = count(limits["requests_per_minute"]), count(limits["tokens_per_minute"])
            table.add_row(one["id"], keys, issued, *rates, one["priority"])
        out.print(table)
    files = found["files"]
    if files is not None and not files["valid"]:
        complaints.print(f"{files['reason']} (the last good state is in force)", markup=False, soft_wrap=True)
        raise typer.Exit(1)


@app.command()
def show(
    tenant: Annotated[str, typer.Argument(help="Your key's own when it is not said.")] = "", as_json: Json = False
) -> None:
    """Show all that a tenant's file says, without secrets."""
    with connect() as client:
        found = client.call("GET", f"/admin/tenants/{tenant_of(client, tenant)}")
    if as_json:
        return print_json(found)
    out.print(as_yaml(found), markup=False, soft_wrap=True)
    return None


@app.command()
def check(
    files: Annotated[list[Path], typer.Argument(exists=True, dir_okay=False, help="Tenants' files (YAML).")],
    as_json: Json = False,
) -> None:
    """Check tenants' files, offline. Exit status 2: something is wrong; each line says where and why."""
    mistakes = list(mistakes_in(files))
    if as_json:
        print_json({"valid": not mistakes, "mistakes": [asdict(one) for one in mistakes]})
    for one in mistakes if not as_json else ():
        where = f"{one.file}:{one.line}" if one.line else one.file
        complaints.print(f"{where}: {one.field}: {one.reason}" if one.field else f"{where}: {one.reason}", markup=False)
    if mistakes:
        raise typer.Exit(2)
    if not as_json:
        out.print(f"{len(files)} right.", markup=False)


def mistakes_in(files: Sequence[Path]) -> Iterator[Mistake]:
    """All that is wrong in the files, and between them."""
    owners: dict[str, str] = {}
    for path in files:
        read = _read(path)
        if isinstance(read, list):
            yield from read
            continue
        for kind, name in (("id", read.id), *(("keys", key.sha256) for key in read.keys)):
            if (owner := owners.setdefault(name, path.name)) != path.name:
                reason = f"`{name}` is used by {owner} too" if kind == "id" else f"the same key is in {owner} too"
                yield Mistake(path.name, 0, kind, reason)


def _read(path: Path) -> Tenant | list[Mistake]:
    text = path.read_bytes()
    try:
        return Tenant.model_validate(yaml_files.parse(text))
    except yaml_files.WrongYaml as error:
        return [Mistake(path.name, error.line or 0, "", error.reason)]
    except ValidationError as error:
        root = yaml.compose(text.decode(), Loader=yaml.SafeLoader)
        return [
            Mistake(path.name, _line(root, one["loc"]), ".".join(map(str, one["loc"])), one["msg"])
            for one in error.errors()
        ]


def _line(node: Any, where: Sequence[int | str]) -> int:
    """The line of a field, or of the innermost part that is there."""
    line = node.start_mark.line + 1 if node is not None else 0
    for name in where:
        if isinstance(node, yaml.MappingNode):
            entry = next((pair for pair in node.value if pair[0].value == str(name)), None)
            if entry is None:
                break
            line, node = entry[0].start_mark.line + 1, entry[1]
        elif isinstance(node, yaml.SequenceNode) and isinstance(name, int) and name < len(node.value):
            node = node.value[name]
            line = node.start_mark.line + 1
        else:
            break
    return line
