"""Judges one text as it arrives: passes on what is clean, puts names for what must not be said, or stops."""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from services.gateway.errors import ApiError
from services.gateway.guards.blocked_terms import BlockedTerms
from services.gateway.guards.placeholders import Placeholders
from services.gateway.guards.recognition import Finder, Finding
from services.gateway.guards.windows import Windows
from services.runtime.tenants import GuardSide

_SAID = {
    "too_long": "it is longer than this tenant allows",
    "term": "it holds a word that this tenant does not allow",
    "injection": "it gives orders to the model",
    "unreadable": "it cannot be checked in this form",
}


class ContentBlocked(ApiError):
    """A text must not pass. Says of which kind, and never what was found."""

    def __init__(self, kind: str, side: str, param: str | None = None) -> None:
        reason = _SAID.get(kind, "it holds personal data")
        what = param or ("the request" if side == "input" else "the answer")
        super().__init__(
            400, f"{what}: blocked by this tenant's guard, because {reason} ({kind}).", code="content_blocked",
            param=param,
        )  # fmt: skip
        self.found = kind


@dataclass
class Report:
    """What the guard did in one request: how often, by (side, kind, action), and how many characters it looked at."""

    found: Counter[tuple[str, str, str]] = field(default_factory=Counter[tuple[str, str, str]])
    scanned_chars: Counter[str] = field(default_factory=Counter[str])
    unscanned: Counter[str] = field(default_factory=Counter[str])

    def note(self, side: str, kind: str, action: str) -> None:
        """Counts one finding."""
        self.found[side, kind, action] += 1

    def kinds(self, side: str, action: str) -> list[str]:
        """What was found there and treated so."""
        return sorted({kind for at, kind, done in self.found if (at, done) == (side, action)})


class Scanner:
    """One text. What `feed` and `end` return together is what may pass; raises ContentBlocked.

    `json`: the text is JSON, in which a name that does not stand in a string needs quotes.
    """

    def __init__(
        self,
        side: GuardSide,
        report: Report,
        *,
        placeholders: Placeholders,
        finder: Finder,
        name: str = "output",
        param: str | None = None,
        json: bool = False,
    ) -> None:
        self._side, self._report, self._name, self._param = side, report, name, param
        self._placeholders = placeholders
        self._terms = BlockedTerms(side.terms) if side.terms else None
        self._windows = Windows(finder) if side.pii != "off" else None
        self._findings: list[Finding] = []
        self._held, self._passed, self._length = "", 0, 0
        self._quotes = _Quotes() if json else None

    def feed(self, piece: str) -> str:
        """Takes the next piece; returns what may pass by now."""
        return self._advance(piece, False)

    def end(self) -> str:
        """Takes the end of the text; returns the rest."""
        return self._advance("", True)

    def whole(self, text: str) -> str:
        """A text that is all there."""
        return self._advance(text, True)

    def _advance(self, piece: str, last: bool) -> str:
        self._report.scanned_chars[self._name] += len(piece)
        self._held += piece
        self._length += len(piece)
        if self._side.max_chars and self._length > self._side.max_chars:
            raise self._blocked("too_long")
        if self._terms is not None and self._terms.feed(piece, last=last) is not None:
            raise self._blocked("term")
        if self._windows is not None:
            self._take(self._windows.end() if last and not piece else self._windows.feed(piece))
            if last and piece:
                self._take(self._windows.end())
        return self._pass_on()

    def _take(self, found: list[Finding]) -> None:
        for finding in found:
            if self._side.pii == "block":
                raise self._blocked(finding.kind)
            self._report.note(self._name, finding.kind, self._side.pii)
        if self._side.pii == "redact":
            self._findings += found

    def _pass_on(self) -> str:
        settled = min(
            self._length,
            self._length if self._terms is None else self._terms.settled,
            self._length if self._windows is None else self._windows.settled,
        )
        text, base, parts = self._held, self._passed, list[str]()
        place = base
        while self._findings and self._findings[0].end <= settled:
            finding = self._findings.pop(0)
            parts.append(self._kept(text[place - base : finding.start - base]))
            parts.append(self._name_of(finding, text[finding.start - base : finding.end - base]))
            place = finding.end
        if self._findings:
            settled = min(settled, self._findings[0].start)
        parts.append(self._kept(text[place - base : settled - base]))
        self._held, self._passed = text[settled - base :], settled
        return "".join(parts)

    def _kept(self, text: str) -> str:
        if self._quotes is not None:
            self._quotes.pass_over(text)
        return text

    def _name_of(self, finding: Finding, said: str) -> str:
        name = self._placeholders.name_of(finding.kind, said)
        return f'"{name}"' if self._quotes is not None and not self._quotes.inside else name

    def _blocked(self, kind: str) -> ContentBlocked:
        self._report.note(self._name, kind, "block")
        return ContentBlocked(kind, self._name, self._param)


class _Quotes:
    """Whether a place in JSON is inside of a string."""

    _MARK = re.compile(r'\\.|"|\\', re.DOTALL)

    def __init__(self) -> None:
        self.inside = False
        self._escaped = False

    def pass_over(self, text: str) -> None:
        """Goes on to behind `text`."""
        start = 1 if self._escaped and text else 0
        self._escaped = self._escaped and not text
        for mark in self._MARK.findall(text, start):
            if mark == '"':
                self.inside = not self.inside
            elif mark == "\\":
                self._escaped = True


def header_of(report: Report) -> str:
    """What happened to the request's texts, for `x-sabueso-guard`: `input; redact="email iban"`. Empty: nothing."""
    done: Mapping[str, list[str]] = {action: report.kinds("input", action) for action in ("flag", "redact")}
    parts = [f'{action}="{" ".join(kinds)}"' for action, kinds in done.items() if kinds]
    return "; ".join(["input", *parts]) if parts else ""
