"""The text of an answer on its way to the reader: through the filters, in paragraphs, with its citations."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from services.orchestrator.events import Cited, Event, Text
from services.orchestrator.results import Source
from services.orchestrator.text_filter import TextFilter


@dataclass
class AnswerText:
    """`used`: the marks that the filters have let through so far, in order; `sources` are those of the marks.

    `held`: what is said is collected and not shown.
    """

    filters: Sequence[TextFilter]
    used: Callable[[], Sequence[int]]
    sources: Mapping[int, Source]
    held: bool = False
    said: bool = False
    _pieces: list[str] = field(default_factory=list[str])
    _gap: bool = False

    @property
    def text(self) -> str:
        """All that was said: as it was shown, or as it is held."""
        return "".join(self._pieces)

    def say(self, text: str, *, last: bool = False) -> Iterator[Event]:
        """The events that show `text`, and the citations that it uses first. `last`: nothing is held back."""
        if self.held:
            self._add(text)
            return
        before = len(self.used())
        for one in self.filters:
            text = one.feed(text) + (one.flush() if last else "")
        if text:
            yield Text(self._add(text))
        used = self.used()
        for mark in used[before:] if len(used) > before else ():
            yield Cited(mark, self.sources[mark])
        for one in self.filters:
            if found := one.take_findings():
                yield from found

    def pause(self) -> None:
        """What is said next begins a new paragraph."""
        self._gap = self.said

    def release(self) -> str:
        """The text that was held. What is said from now on is shown."""
        text, self._pieces = self.text, []
        self.held = self.said = self._gap = False
        return text

    def _add(self, text: str) -> str:
        if not text:
            return ""
        piece = "\n\n" + text if self._gap else text
        self.said, self._gap = True, False
        self._pieces.append(piece)
        return piece
