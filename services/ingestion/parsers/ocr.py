"""Reads pictures of text with tesseract, where it is installed.

The program is called with pipes alone: the parsing process may not write files, and the wrappers that there are do.
"""

import functools
import os
import resource
import shutil
import subprocess
import time
from dataclasses import dataclass

NOT_INSTALLED = "tesseract is not installed"

# Those of our users; others are read where none of these is installed.
_LANGUAGES = ("spa", "eng")
_LEAST_CONFIDENCE = 30
_DEFAULT_SECONDS = 120
_SHARE_OF_TIME = 0.7
_MOST_SECONDS_A_PAGE = 60


@dataclass(frozen=True)
class ReadWord:
    """A word with its place in pixels, y downwards. `paragraph` and `line` tell which words belong together."""

    text: str
    left: int
    top: int
    right: int
    bottom: int
    line_height: int
    paragraph: tuple[int, int]
    line: tuple[int, int, int]


@dataclass(frozen=True)
class Tesseract:
    """The installed program. `deadline` is in seconds of the monotonic clock: later than that it reads nothing."""

    program: str
    languages: str
    deadline: float

    def read(self, picture: bytes, dots_per_inch: int = 300) -> list[ReadWord] | None:
        """Words of a PNG, JPEG, TIFF or PNM in reading order. None when it fails or there is no time left."""
        seconds = min(self.deadline - time.monotonic(), _MOST_SECONDS_A_PAGE)
        if seconds <= 0:
            return None
        command = (self.program, "stdin", "stdout", "-l", self.languages, "--dpi", str(dots_per_inch), "tsv")
        environment = os.environ | {"OMP_THREAD_LIMIT": "1"}
        try:
            done = subprocess.run(
                command, input=picture, capture_output=True, timeout=seconds, check=True, env=environment
            )
        except (subprocess.SubprocessError, OSError):
            return None
        return _words(done.stdout.decode("utf-8", "replace"))

    def read_paragraphs(self, picture: bytes) -> list[str] | None:
        """Paragraphs of a picture, as `read`."""
        words = self.read(picture)
        if words is None:
            return None
        paragraphs: dict[tuple[int, int], list[str]] = {}
        for word in words:
            paragraphs.setdefault(word.paragraph, []).append(word.text)
        return [" ".join(texts) for texts in paragraphs.values()]


def find() -> Tesseract | None:
    """The program on PATH with its languages, or None."""
    program = shutil.which("tesseract")
    languages = _languages(program) if program else ""
    if not program or not languages:
        return None
    return Tesseract(program, languages, time.monotonic() + _SHARE_OF_TIME * _seconds())


def _seconds() -> float:
    """The parsing process may use as much processor time as its caller waits."""
    soft = resource.getrlimit(resource.RLIMIT_CPU)[0]
    return _DEFAULT_SECONDS if soft == resource.RLIM_INFINITY else soft


@functools.cache
def _languages(program: str) -> str:
    try:
        done = subprocess.run((program, "--list-langs"), capture_output=True, timeout=10, check=True, text=True)
    except (subprocess.SubprocessError, OSError):
        return ""
    installed = [line.strip() for line in done.stdout.splitlines()[1:]]
    known = [language for language in _LANGUAGES if language in installed]
    return "+".join(known or [language for language in installed if language not in ("", "osd")][:3])


def _words(tsv: str) -> list[ReadWord]:
    """From rows of level, page, block, paragraph, line, word, left, top, width, height, confidence, text."""
    words: list[ReadWord] = []
    heights: dict[tuple[int, int, int], int] = {}
    for row in tsv.splitlines()[1:]:
        fields = row.split("\t")
        if len(fields) < 11:
            continue
        level, _, block, paragraph, line, _, left, top, width, height = (int(field) for field in fields[:10])
        place = (block, paragraph, line)
        if level == 4:
            heights[place] = height
        text = fields[11].strip() if len(fields) > 11 else ""
        if level == 5 and text and float(fields[10]) >= _LEAST_CONFIDENCE:
            place_height = heights.get(place, height)
            words.append(ReadWord(text, left, top, left + width, top + height, place_height, (block, paragraph), place))
    return words
