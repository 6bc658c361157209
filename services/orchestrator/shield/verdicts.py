"""What the detector says of texts, remembered for all runs, and a text without what it blames."""

import hashlib
import threading
from collections import OrderedDict, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from services.runtime.recognition.injections.detector import Detector, Suspect

# Sentences beside one that gives orders go with it when they, too, look a little like it.
_NEIGHBOUR_CHARS = 3
# Passages that many questions find are judged once. Of texts only a digest is kept.
_MAX_REMEMBERED, _MAX_REMEMBERED_SUSPECTS = 4_096, 50_000
_REDACTED = " […] "
_Span = tuple[int, int]


@dataclass
class Verdicts:
    """Remembers what the detector said of texts, for all runs."""

    detector: Detector = field(default_factory=Detector)
    _known: OrderedDict[tuple[bytes, float], tuple[Suspect, ...]] = field(
        default_factory=OrderedDict[tuple[bytes, float], tuple[Suspect, ...]]
    )
    _suspects: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def of(self, text: str, least: float) -> tuple[Suspect, ...]:
        """Suspects of a text from a score on, in order. Called from several threads."""
        key = hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=16).digest(), least
        known = self._known.get(key)
        if known is None:
            found = self.detector.suspects(text, "data", least)
            known = tuple(sorted(found, key=lambda one: (one.start, one.end)))
            with self._lock:
                self._remember(key, known)
        return known

    def _remember(self, key: tuple[bytes, float], found: tuple[Suspect, ...]) -> None:
        if key not in self._known:
            self._known[key] = found
            self._suspects += len(found)
        while len(self._known) > _MAX_REMEMBERED or self._suspects > _MAX_REMEMBERED_SUSPECTS:
            self._suspects -= len(self._known.popitem(last=False)[1])


def without(text: str, sure: Sequence[Suspect], suspects: Sequence[Suspect]) -> str:
    """The text without what gives orders, and without what looks a little like it right beside that."""
    spans = {(one.start, one.end) for one in sure}
    starting, ending = defaultdict[int, set[_Span]](set), defaultdict[int, set[_Span]](set)
    for one in suspects:
        starting[one.start].add((one.start, one.end))
        ending[one.end].add((one.start, one.end))
    waiting = list(spans)
    while waiting:  # each once: who wrote the text may have made thousands of them
        start, end = waiting.pop()
        for gap in range(-_NEIGHBOUR_CHARS, _NEIGHBOUR_CHARS + 1):
            near = (starting.pop(end + gap, set[_Span]()) | ending.pop(start + gap, set[_Span]())) - spans
            spans |= near
            waiting += near
    parts, place = list[str](), 0
    for start, end in sorted(spans):
        if end > place:
            between = text[place : max(start, place)]
            parts += [between, _REDACTED] if between.strip() or not parts else ()
            place = end
    return "".join((*parts, text[place:])).strip()
