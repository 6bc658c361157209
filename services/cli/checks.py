"""`sabueso sql check` and `sabueso web check`: judge a corpus that a reviewer brings, as the services would."""

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from services.cli.console import Json, complaints

sql_app = typer.Typer(no_args_is_help=True, help="The SQL tool's guard.")
web_app = typer.Typer(no_args_is_help=True, help="The web tool's guard.")
_WRONG_INPUT = 2

Corpus = Annotated[Path, typer.Option("--file", help="One case a line, as JSON; - is standard input.")]


@sql_app.command("check")
def sql_check(
    file: Corpus,
    dsn: Annotated[str, typer.Option(help="A superuser's DSN of a scratch database with the schema.")] = "",
    schema: Annotated[
        Path | None,
        typer.Option(help="SQL text that makes the tables; else a schema.sql beside the file."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Judge statements. Each line has id, sql, params and allow; `expect` is compared when it is there.

    Without --dsn the guard alone judges (stages parse and policy), and columns that no schema tells are open. With it
    the statements go on through binding, planning and running, each as a role with the rights of its line. Rights are
    taken from PUBLIC there, so it must be a scratch database.

    Exit status 0: all were judged, 1: some differ from what they expect, 2: the input is wrong.
    """
    del as_json  # a line of JSON a case is what scripts and people read
    try:
        from services.runtime.errors import ServiceError
        from services.sql_tool import check
    except ModuleNotFoundError as error:
        _missing(error, "sql_tool")
    schema = schema or (None if dsn else _beside(file))
    try:
        checked = check.check_lines(_lines(file), dsn=dsn, schema=_text(schema) if schema else "", say=_say)
    except ServiceError as error:
        _end(error.message)
    _print(checked.verdicts)
    for line in checked.differing:
        _say(line)
    if checked.expected:
        _say(f"{checked.expected} expectations, {len(checked.differing)} not met.")
    if checked.differing:
        raise typer.Exit(1)


@web_app.command("check")
def web_check(
    file: Corpus,
    resolve: Annotated[bool, typer.Option("--resolve", help="Look names up.")] = False,
    as_json: Json = False,
) -> None:
    """Judge URLs. Each line has id and url; without --resolve a name is judged as far as that goes without DNS."""
    del as_json
    try:
        from services.web_tool import check
    except ModuleNotFoundError as error:
        _missing(error, "web_tool")
    _print(check.check_lines(_lines(file), resolve=resolve))


def _beside(file: Path) -> Path | None:
    """`sql_schema.sql` beside `sql_cases.jsonl`."""
    schema = file.with_name(f"{file.stem.removesuffix('cases')}schema.sql")
    if str(file) == "-" or not schema.is_file():
        return None
    _say(f"Columns and functions are those of {schema}.")
    return schema


def _lines(file: Path) -> list[str]:
    return _text(file).split("\n")


def _text(file: Path) -> str:
    try:
        return sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        _end(f"{file}: {error}")


def _print(results: Iterable[dict[str, Any]]) -> None:
    for result in results:
        print(json.dumps(result, ensure_ascii=False))


def _say(line: str) -> None:
    complaints.print(line, markup=False, soft_wrap=True)


def _missing(error: ModuleNotFoundError, group: str) -> NoReturn:
    how = f"uv pip install --group {group} -c requirements.lock"
    _end(f"{error}: the packages of the group {group} are not installed ({how}).")


def _end(message: str) -> NoReturn:
    _say(message)
    raise typer.Exit(_WRONG_INPUT)
