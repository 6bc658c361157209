"""The guard of one request: what a tenant's file says is looked for, on the way in and on the way out."""

import asyncio
from collections.abc import Sequence
from typing import Any

from services.gateway.guards.injection import DetectorScorer, Scorer
from services.gateway.guards.placeholders import Placeholders
from services.gateway.guards.recognition import Finder, NumberFinder
from services.gateway.guards.request_texts import FIELDS, visited
from services.gateway.guards.scanning import ContentBlocked, Report, Scanner
from services.runtime.tenants import Guard, GuardSide, Tenant

# Beyond this, scanning would hold up the others: it is done beside them.
_SHORT_CHARS = 8_000
# More than models read, and as much as can be looked at in a time that somebody would wait.
_MAX_CHARS = 1_000_000
# Instructions of the application, and what the model itself has said, are no attempt at it.
_TRUSTED_ROLES = {"system", "developer", "assistant"}


class Guards:
    """Makes the guard of each request."""

    def __init__(self, finder: Finder | None = None, scorer: Scorer | None = None) -> None:
        """`finder`: of identifiers; `scorer`: of prompt injections."""
        self._finder = finder or NumberFinder()
        self._scorer = scorer or DetectorScorer()

    def chain_for(self, tenant: Tenant) -> "GuardChain | None":
        """A guard for one request of the tenant's; None when nothing is to be checked."""
        if not (_looks(tenant.guard.input) or _looks(tenant.guard.output)):
            return None
        return GuardChain(tenant.guard, self._finder, self._scorer)


def _looks(side: GuardSide) -> bool:
    return bool(side.max_chars or side.terms) or side.pii != "off" or side.injection != "off"


class GuardChain:
    """One request's guard. `report` says what it found, and what it did look at."""

    def __init__(self, guard: Guard, finder: Finder, scorer: Scorer) -> None:
        self._guard = guard
        self._finder = finder
        self._scorer = scorer
        self._placeholders = Placeholders()
        self.report = Report()
        self.checks_input = _looks(guard.input)
        self.checks_output = _looks(guard.output)

    async def check_input(self, asked: dict[str, Any], path: str) -> dict[str, Any]:
        """What may be asked of a model at `path`; the same object if nothing changed. Raises ContentBlocked."""
        fields = FIELDS.get(path, ())
        if not self.checks_input or not fields:
            return asked
        visitor, size = _InputVisitor(self), _size(asked, fields)
        if size > _MAX_CHARS:
            self.report.note("input", "too_long", "block")
            raise ContentBlocked("too_long", "input")
        if size <= _SHORT_CHARS:
            return visited(asked, fields, visitor)
        return await asyncio.to_thread(visited, asked, fields, visitor)

    def output(self, json: bool = False) -> Scanner:
        """A scanner for one text of the answer; `json` for the arguments of a call."""
        return self._scanner(self._guard.output, "output", json=json)

    def check_text(self, path: str, role: str, text: str) -> str:
        """One text of the request. Raises ContentBlocked."""
        side = self._guard.input
        if side.injection != "off" and role not in _TRUSTED_ROLES:
            if self._scorer.score(text) >= side.injection_score:
                self.report.note("input", "injection", side.injection)
                if side.injection == "block":
                    raise ContentBlocked("injection", "input", path)
        return self._scanner(side, "input", path).whole(text)

    def check_unreadable(self, path: str, kind: str) -> None:
        """What cannot be looked at passes if nothing has to be kept out, and media do. Raises ContentBlocked."""
        self.report.unscanned[kind] += 1
        side = self._guard.input
        if kind == "tokens" and (side.terms or side.pii in ("redact", "block") or side.injection == "block"):
            self.report.note("input", "unreadable", "block")
            raise ContentBlocked("unreadable", "input", path)

    def _scanner(self, side: GuardSide, name: str, param: str | None = None, *, json: bool = False) -> Scanner:
        return Scanner(
            side, self.report, placeholders=self._placeholders, finder=self._finder, name=name, param=param, json=json
        )


class _InputVisitor:
    def __init__(self, chain: GuardChain) -> None:
        self._chain = chain

    def text(self, path: str, role: str, text: str) -> str:
        return self._chain.check_text(path, role, text)

    def unreadable(self, path: str, kind: str) -> None:
        self._chain.check_unreadable(path, kind)


def _size(value: Any, fields: Sequence[str] = ()) -> int:
    """About how many characters there are to look at."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, dict):
        return sum(_size(one) for name, one in value.items() if not fields or name in fields)  # pyright: ignore
    if isinstance(value, list):
        return sum(map(_size, value))  # pyright: ignore
    return 0
