"""Takes out of an answer what its model only repeats of what it was told: our rules, and how to use our tools.

Small models do. Such words are no answer: where nothing else is left, the run says what it found by itself. What a
tenant's own texts say is never taken out: its descriptions of tools, its tables, those of foreign tools.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from typing import NamedTuple

from services.orchestrator import prompts
from services.orchestrator.calling.guided_model import NO_PLAN
from services.orchestrator.calling.written_calls import NotACall
from services.orchestrator.events import Finding
from services.orchestrator.planning import prompts as planning
from services.orchestrator.text_filter import TextFilter
from services.orchestrator.tool_maker import default_descriptions

# What a model is told whose turn could not be read, with the reasons that have few words.
_COMPLAINTS = (NO_PLAN, *(str(NotACall(reason)) for reason in ("it is empty", "it is no JSON", "it breaks off")))
_NOTHING = "(no text)"
_ONLY_NOTHING = re.compile(r"[\W_]*(?:\(no text\)[\W_]*)+", re.IGNORECASE)
_USES = re.compile(r"Use it\b.*?(?=Examples:|$)", re.DOTALL)
_WORD = re.compile(r"\w+")
# Lines of one paragraph are one text; a bullet begins another.
_WRAPPED = re.compile(r"(?<=[^.:!?>}\]\n])\n[ ]*(?=[^\s*•<{-])")
_END = re.compile(r"(?<=[.!?\]])\s+|\n+\s*[-*]?\s*")
# What may stand before a sentence of ours, what ends it, and what closes it besides: asterisks in a row close bold
# letters where nothing but space follows, and begin them otherwise.
_BEFORE, _ENDS = " \t\n[]()\"'*-•>`“”«».!?:", "[.!?:\\])\"'”»\n]"
_CLOSING = re.compile(r"[\])\"'”».!?:]*(?:\*{2,}(?=\s|$)|)(?:\s+[\])”»]+)*\s*")
_MAY_CLOSE = " \t\n*])\"'”».!?:"
# Shorter ones are anybody's, unless they come after one of ours. In a long complaint one word may be another. Of what
# is told to planners and specialists only long ones are looked for.
_LEAST_WORDS, _LEAST_WORDS_AFTER, _LEAST_CHANGED_WORDS, _LEAST_PLANNING_WORDS = 4, 3, 8, 8
# A sentence that breaks off is ours from so many words on.
_LEAST_BROKEN = 6
# No sentence of ours has more characters: what is held for longer is none.
_MOST_HELD = 600


class OwnSentence(NamedTuple):
    """Its words in small letters. `loose`: one of them may be another, but for a number."""

    words: tuple[str, ...]
    loose: bool = False


def sentences_of(texts: Iterable[str], *, least: int = _LEAST_WORDS_AFTER) -> Iterator[tuple[str, ...]]:
    """The sentences of texts, as words in small letters, those alone that have `least` words."""
    for text in texts:
        for sentence in _END.split(_WRAPPED.sub(" ", text)):
            words = tuple(word.casefold() for word in _WORD.findall(sentence))
            if len(words) >= least:
                yield words


def defaults_among(tools: Mapping[str, str]) -> Sequence[str]:
    """Our own descriptions, of those that `tools` (description by name) has; not what was added to them."""
    return [
        text
        for name, text in _default_descriptions().items()
        if (described := tools.get(name, "")) == text or described.startswith(f"{text}\n")
    ]


def ours(rules: str, tools: Iterable[str]) -> Sequence[OwnSentence]:
    """All that we say to models, the longest sentences first. `rules`: the shield's; `tools`: our descriptions.

    What a tool is may be an answer; when to use it is none.
    """
    uses = [" ".join(match[0].split()) for text in tools for match in _USES.finditer(text)]
    return _ours(rules, tuple(uses))


@lru_cache(maxsize=1)
def _default_descriptions() -> Mapping[str, str]:
    return default_descriptions()


@lru_cache(maxsize=64)
def _ours(rules: str, uses: tuple[str, ...]) -> Sequence[OwnSentence]:
    always = (prompts.system_message(()).text, prompts.FINAL, prompts.UNREACHED, prompts.guided_rules(()))
    told = (*always, planning.FINDINGS, rules, *uses)
    planned = (
        planning.plan_prompt({}, 6),
        planning.check_prompt({}, 6),
        planning.specialist_prompt("", date.min, ""),
    )
    strict = {*sentences_of(told), *sentences_of(planned, least=_LEAST_PLANNING_WORDS)}
    loose = set(sentences_of(_COMPLAINTS))
    found = [OwnSentence(one, one in loose and len(one) >= _LEAST_CHANGED_WORDS) for one in strict | loose]
    return sorted(found, key=lambda one: (-len(one.words), one.words))


@dataclass
class OwnWords:
    """See TextFilter. Holds back the beginning of a turn as long as it may be a sentence of ours, then nothing more.

    `before`: what the text passes first, which so sees all of it.
    """

    own: Sequence[OwnSentence]
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
            if last and _ONLY_NOTHING.fullmatch(self._held):
                self._held = ""
            if not last and _may_say_nothing(self._held):
                return ""
            begin = len(self._held) - len(self._held.lstrip(_BEFORE))
            end = self._sentence(begin, last=last)
            if end is None:
                return ""
            if not end:
                self._passes = True
                break
            after = self._held[end:]
            if not last and not after.lstrip(_MAY_CLOSE):
                return ""
            closing = _CLOSING.match(after)
            self._held, self._dropped = after[closing.end() if closing else 0 :], True
        text, self._held = self._held, ""
        return text

    def _sentence(self, begin: int, *, last: bool) -> int | None:
        """Where a sentence of ours ends that the held text begins with; 0 if it is none, None while that is open."""
        found = list(_WORD.finditer(self._held, begin))
        if not found:
            return None if not last and len(self._held) < _MOST_HELD else len(self._held) if self._dropped else 0
        whole = found if last or found[-1].end() < len(self._held) else found[:-1]
        words = [one[0].casefold() for one in whole]
        open_ = False
        for one in self.own:
            own = one.words
            if len(own) < (_LEAST_WORDS_AFTER if self._dropped else _LEAST_WORDS) or not _alike(one, words):
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


def _may_say_nothing(text: str) -> bool:
    """Whether the beginning of a turn says that there is no text, and nothing else yet."""
    at = text.rfind("(")
    rest = text[:at] if at >= 0 and _NOTHING.startswith(text[at:].lower()) else text
    said = rest != text or _NOTHING in text.lower()
    return said and _ONLY_NOTHING.fullmatch(f"{_NOTHING}{rest}") is not None


def _alike(own: OwnSentence, words: Sequence[str]) -> bool:
    """Whether words begin as a sentence of ours does."""
    changed = [other for one, other in zip(own.words, words, strict=False) if one != other]
    return not changed or (own.loose and len(changed) == 1 and not any(map(str.isdigit, changed[0])))
