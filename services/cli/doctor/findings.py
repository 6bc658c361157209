"""What a check has found."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from services.cli.client import Failed


class Status(StrEnum):
    """How bad it is. A warning works today; an error does not."""

    OK = "ok"
    WARNING = "warning"
    ERROR = "error"
    SKIPPED = "skipped"


@dataclass(frozen=True)
class Finding:
    """`check`: where it belongs; `why` and `fix` are empty where nothing is wrong."""

    check: str
    status: Status
    what: str
    why: str = ""
    fix: str = ""


def well(check: str, what: str) -> Finding:
    """Nothing is wrong."""
    return Finding(check, Status.OK, what)


def warning(check: str, what: str, *, why: str = "", fix: str = "") -> Finding:
    """It works, but not as well as it should, or not for long."""
    return Finding(check, Status.WARNING, what, why, fix)


def wrong(check: str, what: str, *, why: str = "", fix: str = "") -> Finding:
    """It does not work."""
    return Finding(check, Status.ERROR, what, why, fix)


def skipped(check: str, what: str, *, fix: str = "") -> Finding:
    """Nobody looked; `fix` says what a look needs."""
    return Finding(check, Status.SKIPPED, what, fix=fix)


def guarded(check: str, looking: Iterable[Finding]) -> Iterator[Finding]:
    """The findings; a check that ends early is a finding itself, so that the others still run."""
    try:
        yield from looking
    except Failed as error:
        yield wrong(check, f"cannot be looked at: {error}", fix="Mend what the message says, and run doctor again.")
    except (ValueError, KeyError, TypeError) as error:
        why = f"{type(error).__name__}: {error}"
        yield wrong(check, "gave an answer that doctor cannot read", why=why, fix="Is it of the same version?")
