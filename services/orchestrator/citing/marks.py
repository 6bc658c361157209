"""Checks the citation marks of an answer while it streams."""

import re
from collections.abc import Callable, Mapping, Sequence

from services.orchestrator.citing import metrics
from services.orchestrator.citing.claims import MARK, MARKS, claim_before, numbers
from services.orchestrator.citing.support import Judgement, Verdict
from services.orchestrator.events import Finding, FindingKind

# What may still become a mark, or go on a row of marks, when more text comes.
_LONGEST_MARK = 49
_PREFIX = re.compile(r"\[[\d, ]*")
_OPEN_ROW = re.compile(rf"{MARKS.pattern}[ ,;]{{0,2}}(?:\[[\d, ]{{0,{_LONGEST_MARK - 1}}})?")
_LONGEST_ROW = 8 * (_LONGEST_MARK + 2)
# Of what has been shown, as much is looked at again when a mark comes: a long sentence.
_REMEMBERED = 600
_SHOWN_IN_FINDING = 300


def nobody_objects(text: str, marks: Sequence[int]) -> Mapping[int, Judgement]:
    """Takes every mark as it is."""
    return {}


class CitationFilter:
    """Passes text through, drops marks that name no evidence or clearly not what is said, and collects the marks used.

    Only what may become a mark is held back: from `[`, while digits, commas and spaces follow; and a row of marks until
    it has ended, because what none of them says they may say together. `[1, 4]` becomes `[1][4]`, so that readers of
    the answer need to know one form only. No mark is added or changed: the model alone says whom it has a sentence
    from.
    """

    def __init__(
        self,
        exists: Callable[[int], bool],
        judge: Callable[[str, Sequence[int]], Mapping[int, Judgement]] = nobody_objects,
    ) -> None:
        """`exists` says whether a number names evidence, `judge` what a sentence's marks are worth."""
        self._exists = exists
        self._judge = judge
        self._held = ""
        self._shown: str = ""
        self._findings: list[Finding] = []
        self.used: list[int] = []

    def feed(self, text: str) -> str:
        """The text that can be shown now."""
        text = self._held + text
        if "[" not in text:  # most pieces of a stream
            self._held = ""
            self._shown = (self._shown + text)[-_REMEMBERED:]
            return text
        keep = _open_at(text)
        text, self._held = text[:keep], text[keep:]
        return self._passed(text)

    def flush(self) -> str:
        """What was held back, when no more text comes."""
        text, self._held = self._held, ""
        return self._passed(text)

    def take_findings(self) -> Sequence[Finding]:
        """See TextFilter."""
        found, self._findings = self._findings, []
        return found

    def _passed(self, text: str) -> str:
        done: list[str] = []
        start = 0
        for row in MARKS.finditer(text):
            self._show(done, text[start : row.start()])
            self._show(done, self._checked(row.group()))
            start = row.end()
        self._show(done, text[start:])
        return "".join(done)

    def _show(self, done: list[str], text: str) -> None:
        done.append(text)
        self._shown = (self._shown + text)[-_REMEMBERED:]

    def _checked(self, row: str) -> str:
        """The row without the marks that must not stand."""
        claim = claim_before(self._shown)
        known = [mark for mark in numbers(row) if self._exists(mark)]
        judged: Mapping[int, Judgement] = self._judge(claim, known) if claim and known else {}
        wrong = {mark: one for mark, one in judged.items() if one.verdict is Verdict.WRONG}
        metrics.FINDINGS.labels("citation", "streaming").inc(len(wrong))
        for mark, one in wrong.items():
            self._findings.append(Finding(FindingKind.CITATION, claim[-_SHOWN_IN_FINDING:], one.reason, mark))
        return MARK.sub(lambda match: self._kept(match[1], wrong), row)

    def _kept(self, listed: str, wrong: Mapping[int, Judgement]) -> str:
        kept = [mark for mark in numbers(listed) if self._exists(mark) and mark not in wrong]
        self.used.extend(mark for mark in kept if mark not in self.used)
        return "".join(f"[{mark}]" for mark in kept)


def _open_at(text: str) -> int:
    """Where in the text something begins that may go on as a mark or a row of marks; its length if nothing does."""
    tail = max(0, len(text) - _LONGEST_ROW)
    for match in MARKS.finditer(text, text.find("[", tail) if "[" in text[tail:] else len(text)):
        if _OPEN_ROW.fullmatch(text, match.start()):
            return match.start()
    start = text.rfind("[")
    if start >= 0 and _PREFIX.fullmatch(text, start) and len(text) - start < _LONGEST_MARK:
        return start
    return len(text)
