"""Takes out of an answer, while it streams, whatever would lead its reader, or the reader's browser, somewhere unknown.

What may be shown is a link whose address is, to the letter, that of a source of the run or one that the user gave.
Images, HTML and schemes that run something never pass unless the tenant says so. The text of a removed link stays.
"""

import html
import re
import urllib.parse
from collections.abc import Callable, Sequence

from services.orchestrator.events import Finding, FindingKind
from services.orchestrator.shield.addresses import TOP, host_of, is_file
from services.orchestrator.shield.canary import Canary

# No link is longer; what is still open after so much is none, and its brackets go.
_MAX_HELD = 4_000
# Blanks before a definition; with more it is none.
_MAX_INDENT_CHARS = 4
_SPACE = re.compile(r"\s")
# Joiners stay between signs of scripts that need them.
_INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\u3164"
    "\ufeff\uffa0\ufff0-\ufffb\U000e0000-\U000e0fff]|(?<=[\x20-\x7e])[\u200c\u200d]|[\u200c\u200d](?=[\x20-\x7e])"
)
_LABEL = r"\[((?:\\.|[^\[\]\\]|\[(?:\\.|[^\[\]\\]){0,500}\]){0,2000})\]"
_TARGET = r"\(((?:\\.|[^()\\]|\((?:\\.|[^()\\]){0,2000}\)){0,3000})\)"
_INLINE = re.compile(rf"(!?){_LABEL}{_TARGET}", re.DOTALL)
_REFERENCE = re.compile(
    rf"(!){_LABEL}(?!\()(?:\[[^\[\]]{{0,200}}\])?|(?<!\\){_LABEL}\[([^\[\]\d][^\[\]]{{0,200}})\]", re.DOTALL
)
# Nothing but a title may follow the address: `[1]: the contract says so` is a sentence.
_DEFINITION = re.compile(
    r"^[ \t]{0,3}\[[^\[\]]{1,200}\]:[ \t]*\n?[ \t]*(<[^<>\n]{0,3000}>|\S{1,3000})"
    r"(?:[ \t]+(?:\"[^\"\n]{0,500}\"|'[^'\n]{0,500}'|\([^()\n]{0,500}\)))?[ \t]*$",
    re.MULTILINE,
)
_TAG = re.compile(r"<(?:/?([A-Za-z][A-Za-z0-9-]*)\b[^<>]{0,2000}|![^<>]{0,2000}|\?[^<>]{0,2000})>", re.DOTALL)
_AUTOLINK = re.compile(r"<((?:[A-Za-z][A-Za-z0-9+.-]{1,30}:|[\w.+-]{1,64}@)[^\s<>]{1,2000})>")
_BARE = re.compile(
    r"(?:\b[A-Za-z][A-Za-z0-9+.-]{1,30}\s?:[\\/]{2}|(?<![\w/])[\\/]{2}(?=[\w-]+\.)|\bwww\.|"
    r"\b(?:javascript|data|vbscript|blob|mailto|tel|sms|file)\s?:(?=[^\s]))[^\s<>\"'`|]{1,3000}"
    rf"|(?<![\w@./-])(?:[a-z0-9-]{{1,63}}\.){{1,5}}(?:{TOP})(?::\d{{1,5}})?[/?][^\s<>\"'`|]{{1,3000}}",
    re.IGNORECASE,
)
_NAMED = re.compile(
    rf"(?:[\w.%+-]{{1,64}}@)?(?<![/\w-])(?:[a-z0-9-]{{1,63}}\.){{1,5}}(?:{TOP})(?![\w-])", re.IGNORECASE
)
_PERCENT = re.compile(r"(?<!\S)\S*?(?:%3a%2f%2f|%2f%2f|https?%3a)\S*", re.IGNORECASE)
# Elements that show or fetch nothing by themselves.
_HARMLESS = frozenset("br p b i u em strong sub sup ul ol li table tr td th thead tbody hr code pre blockquote".split())
_ESCAPE = re.compile(r"\\([!-/:-@\[-`{-~])")
_END = ".,;:!?)]}'\"*_"
# What an address has and a word has not.
_SIGNS = ".:/\\%&#?"
REMOVED = {"en": "(link removed)", "es": "(enlace retirado)"}
_WITHHELD = {"en": "(The rest of this answer was withheld.)", "es": "(El resto de esta respuesta se ha retenido.)"}


class LinkFilter:
    """See TextFilter. Holds back whole words, and what may still become a link, an image or a tag."""

    def __init__(
        self,
        known: Callable[[str], bool],
        nameable: Callable[[str], bool],
        canary: Canary,
        *,
        images: bool = False,
        language: str = "en",
    ) -> None:
        """`known`: whether an answer may lead to an address; `nameable`: whether it may name a host or a mailbox."""
        self._nameable = nameable
        self._known = known
        self._canary = canary
        self._images = images
        self._removed = REMOVED[language]
        self._withheld = _WITHHELD[language]
        self._held = ""
        self._line = ""
        self._cut = False
        self._findings: list[Finding] = []

    def feed(self, text: str) -> str:
        """What can be shown now."""
        if self._cut:
            return ""
        self._held += _INVISIBLE.sub("", text)
        if self._canary.found(self._held):
            return self._cut_off()
        settled = _settled(self._held)
        if not settled and len(self._held) > _MAX_HELD:
            self._held = self._held.replace("[", "(").replace("<", "(")
            settled = len(self._held) - 1
        settled = min(settled, self._canary.safe(self._held))
        return self._passed(settled)

    def flush(self) -> str:
        """What was held back, when no more text comes."""
        return "" if self._cut else self._passed(len(self._held))

    def take_findings(self) -> Sequence[Finding]:
        """See TextFilter."""
        found, self._findings = self._findings, []
        return found

    def _cut_off(self) -> str:
        self._cut, self._held = True, ""
        reason = "the answer gave away the system prompt and was cut"
        self._findings.append(Finding(FindingKind.PROMPT_LEAK, "", reason))
        return self._withheld

    def _passed(self, length: int) -> str:
        text, self._held = self._held[:length], self._held[length:]
        self._canary.passed(text)
        before = "." if self._line.strip() else "\n"  # whether a line begins here
        self._line = (self._line + text).rpartition("\n")[2][:_MAX_INDENT_CHARS]
        return self._cleaned(_DEFINITION.sub(self._definition, before + text)[1:] if "]:" in text else text)

    def _cleaned(self, text: str) -> str:
        if not any(sign in text for sign in "[<:./%\\"):
            return text
        text = _INLINE.sub(self._inline, text)
        text = _REFERENCE.sub(self._reference, text)
        text = _AUTOLINK.sub(lambda match: self._shown(match[0], match[1], self._removed), text)
        text = _TAG.sub(self._tag, text)
        text = _PERCENT.sub(lambda match: self._shown(match[0], urllib.parse.unquote(match[0]), self._removed), text)
        text = _BARE.sub(self._bare, text)
        return _NAMED.sub(
            lambda match: match[0] if self._nameable(match[0]) else self._shown("", "", self._removed), text
        )

    def _definition(self, match: re.Match[str]) -> str:
        address = match[1].strip("<>")
        return self._shown(match[0], address, "") if any(map(address.rstrip(_END).__contains__, _SIGNS)) else match[0]

    def _inline(self, match: re.Match[str]) -> str:
        label, target = match[2], match[3].strip()
        target = target[1 : target.find(">")] if target.startswith("<") else _SPACE.split(target, maxsplit=1)[0]
        if match[1] and not self._images:
            self._note("an image")
            return self._cleaned(label)
        if not self._known(_plain(target)):
            # `see [1](the annex)` is a mark with a remark: there is no address in it.
            if not match[1] and label.isdecimal() and not _leads(target):
                return match[0]
            self._note("an image" if match[1] else "a link")
            return self._cleaned(label)
        return f"{match[1]}[{self._cleaned(label)}]({match[3]})"

    def _reference(self, match: re.Match[str]) -> str:
        label = match[2] if match[1] else match[3]
        if match[1]:
            self._note("an image")
            return label
        if label.isdecimal():
            return match[0]
        return f"{label} ({match[4]})"

    def _tag(self, match: re.Match[str]) -> str:
        name = (match[1] or "").lower()
        if name in _HARMLESS and "=" not in match[0]:
            return match[0]
        if _AUTOLINK.fullmatch(match[0]):
            return match[0]
        self._note("HTML")
        return ""

    def _bare(self, match: re.Match[str]) -> str:
        found = match[0]
        if is_file(re.split("[/?]", found)[0]):
            return found
        kept = found.rstrip(_END)
        return self._shown(kept, kept, self._removed) + found[len(kept) :]

    def _shown(self, written: str, address: str, otherwise: str) -> str:
        if self._known(_plain(address)):
            return written
        self._note("a link")
        return otherwise

    def _note(self, what: str) -> None:
        self._findings.append(
            Finding(FindingKind.LINK, "", f"{what} that leads to no source of this answer was removed")
        )


def _plain(target: str) -> str:
    """An address as a browser would take it from Markdown."""
    return html.unescape(_ESCAPE.sub(r"\1", target)).strip()


def _leads(target: str) -> bool:
    return bool(host_of(target)) and any(map(target.__contains__, _SIGNS))


def _settled(text: str) -> int:
    """How much of the text is whole: it ends with a blank, and nothing is open before it."""
    end = max((match.end() for match in _SPACE.finditer(text)), default=0)
    opened = _first_open(text, "[", "]", end)
    return min(end, opened, _first_open_tag(text, end))


def _first_open(text: str, opening: str, closing: str, end: int) -> int:
    """Where something in brackets begins that is not closed, or may still get a target; `end` if nothing does."""
    at = text.find(opening)
    while 0 <= at < end:
        close = _closed(text, at, opening, closing)
        if close < 0:
            return _beginning(text, at)
        following = text[close + 1 : close + 2]
        if not following:
            return _beginning(text, at)
        if following in "([":
            target = _closed(text, close + 1, following, ")" if following == "(" else "]")
            if target < 0:
                return _beginning(text, at)
            close = target
        elif following == ":" and "\n" not in text[close:]:
            return _beginning(text, at)
        if close >= end:
            return _beginning(text, at)
        at = text.find(opening, close + 1)
    return end


def _beginning(text: str, at: int) -> int:
    return at - 1 if at and text[at - 1] == "!" else at


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


def _first_open_tag(text: str, end: int) -> int:
    at = text.find("<")
    while 0 <= at < end:
        follows = text[at + 1 : at + 2]
        if follows and (follows.isalpha() or follows in "/!?"):
            close = text.find(">", at)
            if close < 0 or close >= end:
                return at
        at = text.find("<", at + 1)
    return end
