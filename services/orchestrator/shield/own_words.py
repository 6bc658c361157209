"""Takes out of an answer what its model only repeats of what it was told: our rules, and how to use the tools.

Small models do. Such words are no answer: where nothing else is left, the run says what it found by itself.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from services.orchestrator import prompts
from services.orchestrator.events import Finding
from services.orchestrator.text_filter import TextFilter

# What a transcript and the readers of calls say to a model besides the prompts.
_TOLD = (
    "[Your reply was not the JSON object that was asked for. Nothing was run. Write it again, complete.]",
    "[Your call could not be read: it is no JSON. Write it again, complete.]",
)
_NOTHING = "(no text)"
_USES = re.compile(r"Use it\b.*?(?=Examples:|$)", re.DOTALL)
_WORD = re.compile(r"\w+")
_END = re.compile(r"(?<=[.!?\]])\s+|\n+\s*[-*]?\s*")
# What may stand around a sentence of ours, and what ends it.
_AROUND, _ENDS = " \t\n[]()\"'*-•>`“”«».!?:", "[.!?\\])\"'”»\n]"
# Shorter ones are anybody's, unless they come after one of ours. In longer ones one word may be another.
_LEAST_WORDS, _LEAST_WORDS_AFTER, _LEAST_CHANGED_WORDS = 4, 3, 8
# A sentence that breaks off is ours from so many words on.
_LEAST_BROKEN = 6
# No sentence of ours has more characters: what is held for longer is none.
_MOST_HELD = 600


def sentences_of(texts: Iterable[str]) -> Iterator[tuple[str, ...]]:
    """The sentences of texts, as words in small letters, those alone that nobody else would write."""
    for text in texts:
        for sentence in _END.split(text):
            words = _words(sentence)
            if len(words) >= _LEAST_WORDS_AFTER:
                yield words


def ours(rules: str, tools: Iterable[str]) -> Sequence[tuple[str, ...]]:
    """All that we say to models, the longest sentences first. `rules`: the shield's; `tools`: how each is described.

    What a tool is may be an answer; when to use it is none.
    """
    uses = [" ".join(match[0].split()) for text in tools for match in _USES.finditer(text)]
    return _ours(rules, tuple(uses))


@lru_cache(maxsize=64)
def _ours(rules: str, uses: tuple[str, ...]) -> Sequence[tuple[str, ...]]:
    told = (prompts.system_message(()).text, prompts.FINAL, rules, *_TOLD, *uses)
    return sorted(set(sentences_of(told)), key=lambda one: (-len(one), one))


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.casefold() for word in _WORD.findall(text))


@dataclass
class OwnWords:
    """See TextFilter. Holds back the beginning of a turn as long as it may be a sentence of ours, then nothing more.

    `before`: what the text passes first, which so sees all of it.
    """

    own: Sequence[tuple[str, ...]]
    before: TextFilter
    _held: str = ""
    _passes: bool = False
    _dropped: bool = False

    def feed(self, text: str) -> str:
        """See TextFilter."""
        text = self.before.feed(text)
        if self._passes:
            return text
        self._held += text
        return self._settled(last=False)

    def flush(self) -> str:
        """See TextFilter. What comes next is another turn."""
        text = self.before.flush()
        if not self._passes:
            self._held += text
            text = self._settled(last=True)
        self._held, self._passes, self._dropped = "", False, False
        return text

    def take_findings(self) -> Sequence[Finding]:
        """See TextFilter."""
        return self.before.take_findings()

    def _settled(self, *, last: bool) -> str:
        """What of the held text can be shown now."""
        while not self._passes:
            if last and self._held.strip() == _NOTHING:
                self._held = ""
            begin = len(self._held) - len(self._held.lstrip(_AROUND))
            end = self._sentence(begin, last=last)
            if end is None:
                return ""
            if not end:
                self._passes = True
                break
            self._held, self._dropped = self._held[end:], True
        text, self._held = self._held, ""
        return text.lstrip(_AROUND) if self._dropped else text

    def _sentence(self, begin: int, *, last: bool) -> int | None:
        """Where a sentence of ours ends that the held text begins with; 0 if it is none, None while that is open."""
        found = list(_WORD.finditer(self._held, begin))
        if not found:
            return None if not last and len(self._held) < _MOST_HELD else len(self._held) if self._dropped else 0
        whole = found if last or found[-1].end() < len(self._held) else found[:-1]
        words = [one[0].casefold() for one in whole]
        open_ = False
        for own in self.own:
            if len(own) < (_LEAST_WORDS_AFTER if self._dropped else _LEAST_WORDS) or not _alike(own, words):
                continue
            if len(words) >= len(own):
                end = found[len(own) - 1].end()
                if end == len(self._held) or re.match(_ENDS, self._held[end:]):
                    return None if open_ else end
            elif last and len(words) >= _LEAST_BROKEN and words == list(own[: len(words)]):
                return len(self._held)
            elif not last:
                open_ = True
        return None if open_ and len(self._held) < _MOST_HELD else 0


def _alike(own: Sequence[str], words: Sequence[str]) -> bool:
    """Whether words begin as a sentence of ours does; of a long one, one word may be another."""
    count = min(len(own), len(words))
    changed = sum(one != other for one, other in zip(own[:count], words[:count], strict=True))
    return changed <= (len(own) >= _LEAST_CHANGED_WORDS)
