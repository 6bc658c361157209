"""`sabueso mcp`: which tools foreign servers offer to a tenant, what has changed, and the pins that approve them."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml
from rich.table import Table

from services.cli.admin import as_yaml
from services.cli.console import Json, complaints, fail, out, print_json
from services.cli.mcp_approvals import Approvals, BadRecord, changes
from services.orchestrator.external.approval import Judged, Standing, hidden, judged, orders, unfit, unlisted
from services.orchestrator.external.remote import RemoteTool
from services.runtime import yaml_files
from services.runtime.errors import ServiceError
from services.runtime.recognition.injections.detector import Detector
from services.runtime.tenants import McpServer, Tenant

app = typer.Typer(no_args_is_help=True, help="Foreign tools (MCP): list them, look at them, approve them.")

File = Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="The tenant's file (YAML).")]
Server = Annotated[str, typer.Option(help="Only this server.")]
Secrets = Annotated[Path, typer.Option(envvar="SABUESO_SECRETS_DIR", help="Folder of the servers' tokens.")]
Stdio = Annotated[bool, typer.Option("--stdio", help="Programs that the file names may be started.")]
_NOT_APPROVED = 2


@dataclass(frozen=True)
class Listed:
    """A server with its tools: those that the file names, and others. `failure`: why it gave none."""

    server: McpServer
    tools: Mapping[str, Judged]
    others: Sequence[RemoteTool] = ()
    failure: str = ""


@app.command("list")
def list_all(
    file: File,
    server: Server = "",
    secrets_dir: Secrets = Path("secrets"),
    stdio: Stdio = False,
    as_json: Json = False,
) -> None:
    """List the servers' tools and how each stands. Exit status 2: one is not approved or has changed, 1: no answer."""
    found = _listed(_servers(file, server), secrets_dir, stdio=stdio)
    if as_json:
        print_json({"servers": [_facts(one) for one in found]})
    else:
        table = Table("tool", "standing", "may write", "sha256", box=None)
        for row in (row for one in found for row in _rows(one)):
            table.add_row(*row)
        out.print(table)
    _end(found)


@app.command()
def show(
    file: File,
    tool: Annotated[str, typer.Argument(help="As the model calls it: `<server>__<tool>`.")],
    secrets_dir: Secrets = Path("secrets"),
    stdio: Stdio = False,
    as_json: Json = False,
) -> None:
    """Show a tool as the model would read it, and what has changed since it was approved. Exit status as of `list`."""
    approvals = _approvals(file)
    for one in _listed(_servers(file, tool.partition("__")[0]), secrets_dir, stdio=stdio):
        for judgement in one.tools.values():
            if one.server.tool_name(judgement.name) == tool and judgement.remote is not None:
                before = approvals.of(one.server.name, judgement.name, judgement.pin)
                _show(one.server, judgement, judgement.remote, before, as_json=as_json)
                raise typer.Exit(0 if judgement.standing is Standing.APPROVED else _NOT_APPROVED)
        if one.failure:
            fail(one.failure)
    fail(f"The server does not offer `{tool}`, or the file does not name it.")


@app.command()
def pin(
    file: File,
    server: Server = "",
    tool: Annotated[list[str] | None, typer.Option(help="Only these, as the server calls them.")] = None,
    secrets_dir: Secrets = Path("secrets"),
    stdio: Stdio = False,
    record: Annotated[bool, typer.Option(help="Keep what is approved in `<file>.mcp.json`, to show changes.")] = True,
    as_json: Json = False,
) -> None:
    """Print the lines that approve the tools as they are now; read `show` first, then paste them into the file.

    Tools that the file does not name are approved only by --tool. Exit status 1: a server gives no answer.
    """
    found = _listed(_servers(file, server), secrets_dir, stdio=stdio)
    approvals = _approvals(file)
    pins: dict[str, dict[str, str]] = {}
    for one in found:
        for remote in _wanted(one, tool):
            if reason := unfit(remote):
                fail(f"{one.server.tool_name(remote.name)}: {reason}.")
            _warn(one.server, remote)
            pins.setdefault(one.server.name, {})[remote.name] = remote.fingerprint
            approvals.keep(one.server.name, remote.name, remote.fingerprint, remote.definition())
    if record and pins:
        try:
            approvals.write()
        except BadRecord as bad:
            fail(str(bad))
    if as_json:
        print_json({"pins": pins, "record": str(approvals.path) if record and pins else None})
    elif pins:
        out.print(as_yaml({"mcp": [{"name": name, "tools": tools} for name, tools in pins.items()]}), markup=False)
    if lost := [one for one in found if one.failure]:
        fail(" ".join(one.failure for one in lost))


def _approvals(file: Path) -> Approvals:
    try:
        return Approvals(file)
    except BadRecord as bad:
        fail(str(bad))


def _servers(file: Path, name: str) -> list[McpServer]:
    try:
        tenant = yaml_files.read(file, Tenant)
    except (yaml_files.WrongYaml, yaml.YAMLError) as error:
        fail(f"{file.name}: {error}")
    found = [one for one in tenant.mcp if not name or one.name == name]
    if not found:
        known = ", ".join(one.name for one in tenant.mcp) or "none"
        fail(f"{file.name} names no server `{name}`; there are: {known}." if name else f"{file.name} names no server.")
    return found


def _listed(servers: Sequence[McpServer], secrets_dir: Path, *, stdio: bool) -> list[Listed]:
    """What each server offers, all asked at the same time."""
    # The SDK takes a second to load, which all other commands would wait for.
    from services.orchestrator.external.servers import McpOpening, Servers

    async def ask() -> list[Listed]:
        asked = Servers(McpOpening(secrets_dir, stdio), patience_seconds=60)
        try:
            return list(await asyncio.gather(*(_asked(asked, one) for one in servers)))
        finally:
            await asked.close()

    async def _asked(asked: Servers, server: McpServer) -> Listed:
        try:
            tools = await asked.tools("cli", server)
        except ServiceError as error:
            return Listed(server, {}, (), error.message)
        return Listed(server, judged(server, tools), unlisted(server, tools))

    return asyncio.run(ask())


def _wanted(listed: Listed, names: Sequence[str] | None) -> list[RemoteTool]:
    named = [one.remote for one in listed.tools.values() if one.remote is not None]
    return [one for one in (*named, *listed.others) if one.name in names] if names else named


def _rows(listed: Listed) -> Iterator[tuple[str, str, str, str]]:
    name = listed.server.tool_name
    if listed.failure:
        yield f"{listed.server.name}__*", listed.failure, "", ""
    for one in listed.tools.values():
        pin = one.remote.fingerprint[:12] if one.remote else ""
        yield name(one.name), one.standing.value.replace("_", " "), _writes(one.remote), pin
    for other in listed.others:
        yield name(other.name), "not in the file", _writes(other), other.fingerprint[:12]


def _writes(remote: RemoteTool | None) -> str:
    return "" if remote is None else "yes" if remote.writes else "no"


def _facts(listed: Listed) -> dict[str, Any]:
    server = listed.server
    tools = [
        {
            "name": one.name,
            "tool": server.tool_name(one.name),
            "standing": one.standing.value,
            "pin": one.pin or None,
            "sha256": one.remote.fingerprint if one.remote else None,
            "writes": one.remote.writes if one.remote else None,
        }
        for one in listed.tools.values()
    ]
    others = [
        {"name": one.name, "tool": server.tool_name(one.name), "sha256": one.fingerprint, "writes": one.writes}
        for one in listed.others
    ]
    return {"server": server.name, "failure": listed.failure or None, "tools": tools, "not_in_file": others}


def _show(
    server: McpServer, judgement: Judged, remote: RemoteTool, before: Mapping[str, Any] | None, *, as_json: bool
) -> None:
    _warn(server, remote)
    changed = judgement.standing is Standing.CHANGED
    difference = list(changes(before, remote.definition())) if changed and before is not None else []
    if as_json:
        facts = {"tool": server.tool_name(remote.name), "standing": judgement.standing.value}
        definition = {"sha256": remote.fingerprint, "definition": remote.definition(), "changes": difference}
        return print_json(facts | definition)
    out.print(f"{server.tool_name(remote.name)}: {judgement.standing.value.replace('_', ' ')}", markup=False)
    out.print(as_yaml(remote.definition() | {"sha256": remote.fingerprint}), markup=False, soft_wrap=True)
    if changed:
        shown = "\n".join(map(_seen, difference)) or "What was approved is not recorded here."
        out.print(shown, markup=False, soft_wrap=True)
    return None


def _warn(server: McpServer, remote: RemoteTool) -> None:
    name = server.tool_name(remote.name)
    if unseen := hidden(remote):
        complaints.print(f"{name} holds characters that cannot be seen: {', '.join(unseen)}", markup=False)
    for sentence in orders(remote, Detector()):
        complaints.print(f"{name} may give orders to the model: {_seen(sentence)}", markup=False, soft_wrap=True)


def _seen(text: str) -> str:
    """A server's words without what would move the cursor, or hide them, in a terminal."""
    return "".join(one if one.isprintable() else f"\\u{ord(one):04x}" for one in text)


def _end(found: Sequence[Listed]) -> None:
    """Ends the command with the status that says how the tools stand."""
    for one in found:
        if one.failure:
            complaints.print(one.failure, markup=False, soft_wrap=True)
    if any(one.failure for one in found):
        raise typer.Exit(1)
    if any(judgement.standing is not Standing.APPROVED for one in found for judgement in one.tools.values()):
        raise typer.Exit(_NOT_APPROVED)
