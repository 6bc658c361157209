"""What all commands print with, and how they find the gateway."""

import json
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console

from services.cli.client import Client
from services.cli.config import Settings

out = Console(highlight=False)
complaints = Console(stderr=True, highlight=False)

Json = Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


def connect() -> Client:
    """The gateway that the settings name; a context manager."""
    return Client(Settings())


def print_json(value: Any) -> None:
    """For scripts."""
    print(json.dumps(value, ensure_ascii=False, indent=2))


def fail(message: str) -> NoReturn:
    """Ends the command with exit status 1."""
    complaints.print(message, markup=False, soft_wrap=True)
    raise typer.Exit(1)


def confirm(question: str, *, yes: bool) -> None:
    """Goes on only when the person agrees."""
    if not yes and not typer.confirm(question):
        fail("Nothing was deleted.")
