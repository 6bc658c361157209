"""Takes out of a whole piece of an answer what would lead its reader, or the reader's browser, somewhere unknown.

Every writing of a link that Markdown and its readers know: inline, by reference, in angle brackets, bare, HTML, images.
"""

import html
import re
import urllib.parse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from services.orchestrator.shield.addresses import TOP, host_of, is_file

# Stand for the address of an inline link that may stay, so that nothing else is looked for in it. No text has them.
_OPEN, _CLOSE = "\ufdd0", "\ufdd1"
# Joiners stay between signs of scripts that need them.
_INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\u3164"
    f"{_OPEN}{_CLOSE}\ufeff\uffa0\ufff0-\ufffb\U000e0000-\U000e0fff]"
    "|(?<=[\x20-\x7e])[\u200c\u200d]|[\u200c\u200d](?=[\x20-\x7e])"
)
_SPACE = re.compile(r"\s")
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
_END = ".,;:!?)]}'\"*_~"
# What may close behind an address. Readers of Markdown take an address to go on until a blank or `<`.
_CLOSING = re.compile(r"[.,;:!?)\]}'\"*_~`|>]*")
_MARK = re.compile(r"\[\d")
_ENDS = re.compile(r"[ \t\n\r\f\v<]|$")
# So many signs at the end of an address may be its own or the sentence's.
_MOST_CLOSING = 16
# What an address has and a word has not.
_SIGNS = ".:/\\%&#?"
_PART_OF_LINK = re.compile(r"[\[<:./%\\]")
REMOVED = {"en": "(link removed)", "es": "(enlace retirado)"}


def visible(text: str) -> str:
    """The text without signs that nobody sees, which would take an address or a mark apart."""
    return text if text.isascii() else _INVISIBLE.sub("", text)


@dataclass(frozen=True)
class Cleaned:
    """A piece as it may be shown, and what was taken out of it: `link`, `image` or `html`, each as often."""

    text: str
    removed: Sequence[str]


class Cleaning:
    """Cleans pieces of one answer. Images, HTML and schemes that run something pass only where the tenant says so."""

    def __init__(
        self, known: Callable[[str], bool], nameable: Callable[[str], bool], *, images: bool, language: str
    ) -> None:
        """`known`: whether an answer may lead to an address; `nameable`: whether it may name a host or a mailbox."""
        self._known = known
        self._nameable = nameable
        self._images = images
        self._removed = REMOVED[language]
        self._taken: list[str] = []
        self._kept: list[str] = []

    def clean(self, text: str, *, begins_line: bool) -> Cleaned:
        """`text` must be whole: no link, image or tag begins before it or ends behind it."""
        self._taken, self._kept = [], []
        if "]:" in text:
            text = _DEFINITION.sub(self._definition, ("\n" if begins_line else ".") + text)[1:]
        text = self._cleaned(text)
        if self._kept:
            text = re.sub(f"{_OPEN}(\\d+){_CLOSE}", lambda match: self._kept[int(match[1])], text)
        return Cleaned(text, self._taken)

    def _cleaned(self, text: str) -> str:
        if _PART_OF_LINK.search(text) is None:
            return text
        text = _INLINE.sub(self._inline, text)
        text = _REFERENCE.sub(self._reference, text)
        text = _AUTOLINK.sub(lambda match: self._shown(match[0], match[1], self._removed), text)
        text = _TAG.sub(self._tag, text)
        text = _PERCENT.sub(lambda match: self._shown(match[0], urllib.parse.unquote(match[0]), self._removed), text)
        text = self._without_bare(text)
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
            self._taken.append("image")
            return self._cleaned(label)
        if not self._known(_plain(target)):
            # `see [1](the annex)` is a mark with a remark: there is no address in it.
            if not match[1] and label.isdecimal() and not _leads(target):
                return match[0]
            self._taken.append("image" if match[1] else "link")
            return self._cleaned(label)
        # Without its title: that is shown to nobody, and what stands there is no citation.
        self._kept.append(f"<{target}>" if match[3].strip().startswith("<") else target)
        written = f"{match[1]}[{self._cleaned(label)}]({_OPEN}{len(self._kept) - 1}{_CLOSE})"
        return written + _gap(match.string, match.end())

    def _reference(self, match: re.Match[str]) -> str:
        label = match[2] if match[1] else match[3]
        if match[1]:
            self._taken.append("image")
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
        self._taken.append("html")
        return ""

    def _without_bare(self, text: str) -> str:
        done: list[str] = []
        at = 0
        while match := _BARE.search(text, at):
            done.append(text[at : match.start()])
            kept, written = self._bare(match)
            done.append(written)
            at = match.start() + len(kept)
        return "".join((*done, text[at:])) if done else text

    def _bare(self, match: re.Match[str]) -> tuple[str, str]:
        """What of the match is done with, and what stands for it."""
        found = match[0]
        if is_file(re.split("[/?]", found)[0]):
            return found, found
        mark = _MARK.search(found)
        whole = found[: mark.start()] if mark else found
        for kept in (found, *_endings(whole)):
            if self._known(_plain(kept)):
                closing = _CLOSING.match(match.string, match.start() + len(kept))
                end = closing.end() if closing else match.end()
                taken = match.string[match.start() : end]
                return taken, taken + _gap(match.string, end, marks=False)
        self._taken.append("link")
        return whole.rstrip(_END) or found, self._removed

    def _shown(self, written: str, address: str, otherwise: str) -> str:
        if self._known(_plain(address)):
            return written
        self._taken.append("link")
        return otherwise


def _plain(target: str) -> str:
    """An address as a browser would take it from Markdown."""
    return html.unescape(_ESCAPE.sub(r"\1", target)).strip()


def _leads(target: str) -> bool:
    return bool(host_of(target)) and any(map(target.__contains__, _SIGNS))


def _endings(found: str) -> Iterator[str]:
    """What the address of a bare link may be: all of it, or without what closes behind it; the longest first."""
    closing = min(_MOST_CLOSING, len(found) - len(found.rstrip(_END)))
    yield from (found[: len(found) - cut] for cut in range(closing + 1))


def _gap(text: str, end: int, *, marks: bool = True) -> str:
    """A blank where something follows that readers of Markdown may take for a part of the address before.

    `marks`: those may follow.
    """
    closing = _CLOSING.match(text, end)
    follows = closing.end() if closing else end
    if _ENDS.match(text, follows) or (marks and _MARK.match(text, follows)):
        return ""
    return " "
