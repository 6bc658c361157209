"""Takes out of an answer, while it streams, whatever would lead its reader, or the reader's browser, somewhere unknown.

What may be shown is a link whose address is, to the letter, that of a source which the answer cites, or one that the
user gave. Images, HTML and schemes that run something never pass unless the tenant says so. The text of a removed link
stays.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence

from services.orchestrator import metrics
from services.orchestrator.citing.claims import MARK
from services.orchestrator.events import Finding, FindingKind
from services.orchestrator.shield.canary import Canary
from services.orchestrator.shield.cited import CitedSources
from services.orchestrator.shield.cleaning import Cleaned, Cleaning, visible

# No link is longer; what is still open after so much is none, and its brackets go.
_MAX_HELD = 4_000
# A link waits no longer for the mark of its sentence: nobody watches a text stand still for more.
_MAX_AWAITED_CHARS = 600
# Blanks before a definition; with more it is none.
_MAX_INDENT_CHARS = 4
_SPACE = re.compile(r"\s")
# A sentence ends at its stop, with the marks behind it, once something follows that cannot go on with it; and at a
# line's end.
_SENTENCE = re.compile(rf"[.!?…][\"»”’)*_]*(?:\s?{MARK.pattern}){{0,8}}[ \t]+(?=[^\sa-zà-ÿ\[]|\[[^\s\d])|\n")
_REMOVED_WHAT = {"link": "a link", "image": "an image", "html": "HTML"}
_WITHHELD = {"en": "(The rest of this answer was withheld.)", "es": "(El resto de esta respuesta se ha retenido.)"}


class LinkFilter:
    """See TextFilter. Holds back whole words, and what may still become a link, an image or a tag.

    With `cited` also a link to a source that is not cited so far, with what follows it, until its sentence has ended.
    """

    def __init__(
        self,
        known: Callable[[str], bool],
        nameable: Callable[[str], bool],
        canary: Canary,
        *,
        cited: CitedSources | None = None,
        images: bool = False,
        language: str = "en",
    ) -> None:
        """`known`: whether an answer may lead to an address; `nameable`: whether it may name a host or a mailbox.

        `cited`: whose marks are there already, checked; beside what is known, an answer may lead to the cited ones.
        """
        self._known = known
        self._cited = cited
        self._cleaning = Cleaning(self._may_lead, nameable, images=images, language=language)
        self._canary = canary
        self._withheld = _WITHHELD[language]
        self._held = ""
        self._line = ""
        self._cut = self._awaits = False
        self._findings: list[Finding] = []

    def feed(self, text: str) -> str:
        """What can be shown now."""
        if self._cut:
            return ""
        self._held += visible(text)
        if self._canary.found(self._held):
            return self._cut_off()
        settled = _settled(self._held[: self._canary.safe(self._held)])
        if not settled and len(self._held) > _MAX_HELD:
            settled = self._broken_up()
        return self._passed(settled)

    def flush(self) -> str:
        """What was held back, when no more text comes."""
        return "" if self._cut else self._passed(len(self._held), last=True)

    def take_findings(self) -> Sequence[Finding]:
        """See TextFilter."""
        found, self._findings = self._findings, []
        return found

    def _broken_up(self) -> int:
        """Ends whatever is open for too long. A blank where there is none: readers take addresses to end there."""
        self._held = self._held.replace("[", "(").replace("<", "(")
        safe = self._canary.safe(self._held)
        settled = _settled(self._held[:safe])
        if settled or not safe:
            return settled
        self._held = f"{self._held[:safe]} {self._held[safe:]}"
        return safe + 1

    def _cut_off(self) -> str:
        self._cut, self._held = True, ""
        reason = "the answer gave away the system prompt and was cut"
        self._findings.append(Finding(FindingKind.PROMPT_LEAK, "", reason))
        metrics.REMOVED_LINKS.labels("prompt").inc()
        return self._withheld

    def _passed(self, length: int, *, last: bool = False) -> str:
        """As much of what is held as can be decided on, of the `length` that is whole."""
        if not length:
            return ""
        cleaned = self._cleaned(length)
        if not self._awaits:
            return self._shown(length, cleaned)
        done: list[str] = []
        at = 0
        for cut in _sentence_ends(self._held, length):
            done.append(self._decided(cut - at))
            at = cut
        if at < length:
            cleaned = self._cleaned(length - at)
            if not self._awaits:
                done.append(self._shown(length - at, cleaned))
            elif last or length - at > _MAX_AWAITED_CHARS:
                done.append(self._decided(length - at))
        return "".join(done)

    def _decided(self, length: int) -> str:
        """A sentence that has ended: its links may lead to what it cites."""
        cleaned = self._cleaned(length)
        if self._awaits and self._cited is not None:
            self._cited.note(cleaned.text)
            cleaned = self._cleaned(length)
        return self._shown(length, cleaned)

    def _cleaned(self, length: int) -> Cleaned:
        """Notes whether a link was taken out of it that may yet be cited."""
        self._awaits = False
        return self._cleaning.clean(self._held[:length], begins_line=not self._line.strip(" \t"))

    def _may_lead(self, address: str) -> bool:
        if self._known(address) or (self._cited is not None and address in self._cited):
            return True
        self._awaits = self._awaits or (self._cited is not None and self._cited.may_come(address))
        return False

    def _shown(self, length: int, cleaned: Cleaned) -> str:
        text, self._held = self._held[:length], self._held[length:]
        self._canary.passed(text)
        self._line = (self._line + text).rpartition("\n")[2][:_MAX_INDENT_CHARS]
        if self._cited is not None:
            self._cited.note(cleaned.text)
        for kind in cleaned.removed:
            metrics.REMOVED_LINKS.labels(kind).inc()
            reason = f"{_REMOVED_WHAT[kind]} that leads to no source of this answer was removed"
            self._findings.append(Finding(FindingKind.LINK, "", reason))
        return cleaned.text


def _settled(text: str) -> int:
    """How much of the text is whole: it ends with a blank, and nothing is open there."""
    if "[" not in text and "<" not in text:  # most pieces of a stream
        return len(text) if text[-1:].isspace() or not text else len(text) - len(text.rsplit(None, 1)[-1])
    blanks = [match.end() for match in _SPACE.finditer(text)]
    end = blanks[-1] if blanks else 0
    for begin, close in sorted((*_bracketed(text, end), *_tags(text, end)), reverse=True):
        if begin < end < close:
            # The word before may go on there.
            before = bisect_right(blanks, begin)
            end = blanks[before - 1] if before else 0
    return end


def _sentence_ends(text: str, end: int) -> Iterator[int]:
    """Places up to `end` where a sentence has ended, and no link or tag is open."""
    constructs = sorted((*_bracketed(text, end), *_tags(text, end)))
    at = reached = 0
    for match in _SENTENCE.finditer(text):
        place = match.end()
        while at < len(constructs) and constructs[at][0] < place:
            reached = max(reached, constructs[at][1])
            at += 1
        if reached <= place <= end:
            yield place


def _bracketed(text: str, end: int) -> Iterator[tuple[int, int]]:
    """Where things in brackets begin before `end`, with their targets, and end; beyond the text what may go on."""
    beyond = len(text) + 1
    at = text.find("[")
    while 0 <= at < end:
        begin = at - 1 if at and text[at - 1] == "!" else at
        close, following = _closed(text, at, "[", "]"), "["
        while close >= 0 and following == "[":
            following = text[close + 1 : close + 2]
            if following and following in "([":
                close = _closed(text, close + 1, following, ")" if following == "(" else "]")
        if close < 0 or not following:
            yield begin, beyond
            return
        is_definition = following == ":" and "\n" not in text[close:]
        yield begin, beyond if is_definition else close + 1
        at = text.find("[", close + 1)


def _closed(text: str, at: int, opening: str, closing: str) -> int:
    """Where what opens at `at` closes; -1 while it does not."""
    depth = 0
    place = at
    while place < len(text):
        sign = text[place]
        if sign == "\\":
            place += 1
        elif sign == opening:
            depth += 1
        elif sign == closing:
            depth -= 1
            if not depth:
                return place
        place += 1
    return -1


def _tags(text: str, end: int) -> Iterator[tuple[int, int]]:
    """The same of tags."""
    at = text.find("<")
    while 0 <= at < end:
        follows = text[at + 1 : at + 2]
        if follows and (follows.isalpha() or follows in "/!?"):
            close = text.find(">", at)
            yield at, len(text) + 1 if close < 0 else close + 1
        at = text.find("<", at + 1)
