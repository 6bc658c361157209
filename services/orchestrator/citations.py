"""Checks the citation marks of an answer while it streams."""

import re
from collections.abc import Callable

# `[1]`, and `[1, 4]` as some models write it. Four digits are a year in brackets, not a mark.
# Bounded, so that no text is held back for long.
_MARK = re.compile(r"\[ ?(\d{1,3}(?: ?, ?\d{1,3}){0,7}) ?\]")
_LONGEST_MARK = 49
# What may still become a mark when more text comes.
_PREFIX = re.compile(r"\[[\d, ]*")


class CitationFilter:
    """Passes text through, drops marks that name no evidence, and collects the marks used.

    Only what may become a mark is held back: from `[`, while digits, commas and spaces follow. `[1, 4]` becomes
    `[1][4]`, so that readers of the answer need to know one form only.
    """

    def __init__(self, exists: Callable[[int], bool]) -> None:
        """`exists` says whether a number names evidence."""
        self._exists = exists
        self._held = ""
        self.used: list[int] = []

    def feed(self, text: str) -> str:
        """The text that can be shown now."""
        text = self._held + text
        self._held = ""
        start = text.rfind("[")
        if start >= 0 and _PREFIX.fullmatch(text, start) and len(text) - start < _LONGEST_MARK:
            text, self._held = text[:start], text[start:]
        return _MARK.sub(self._checked, text)

    def flush(self) -> str:
        """What was held back, when no more text comes."""
        text, self._held = self._held, ""
        return text

    def _checked(self, match: re.Match[str]) -> str:
        marks = [int(number) for number in match[1].split(",")]
        kept = [mark for mark in dict.fromkeys(marks) if self._exists(mark)]
        self.used.extend(mark for mark in kept if mark not in self.used)
        return "".join(f"[{mark}]" for mark in kept)
