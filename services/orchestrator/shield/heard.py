"""Remembers what a run has read, and who said it, so that it is recognised in what a model writes."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from typing import Any, Literal, cast

from services.orchestrator.results import Found, Pages, Passages, Reply, Rows
from services.orchestrator.shield.addresses import addresses, host_of, squeezed, undisguised
from services.runtime.recognition.injections.concepts import features, plain
from services.runtime.recognition.injections.disguises import disguised
from services.runtime.recognition.injections.sentences import sentences

Origin = Literal["documents", "tables", "web", "external"]
# Of what was read last; the rest is no longer in front of the model either.
_MAX_CHARS = 1_500_000
# Longer texts are not kept beyond their run.
_SHORT_CHARS = 8_000
# How much of what a sentence is about a call must say in order to fulfil it.
_MOST_OF_IT, _PART_OF_IT = 0.6, 0.34
# Letters of a host that is looked for however it is spaced; fewer stand in any text.
_LEAST_HOST = 6
# Words that begin with the same so many are forms of one.
_ALIKE_LETTERS = 5
_WORD = re.compile(r"[^\W_]+")
# What a sentence begins with that asks for something.
_ASKING = {f"^{name}" for name in (
    "drop", "write", "translate", "help", "encode", "decode", "send", "run", "delete", "reveal", "add", "ending", "say",
    "be", "follow", "promote", "must", "when", "important", "assistant", "new", "first", "ensure", "processing", "now",
    "reply", "letters", "you", "your", "user", "without",
)} | {"your~reply", "your~code"}  # fmt: skip
# Verbs that the detector has no use for, since handbooks are full of them.
_VERBS = frozenset(
    "break find look search book buy order check list calculate compute solve rank rate pick choose plan schedule "
    "ask answer make take get set put go try keep turn start stop pay invite enter select fill sign read consider "
    "imagine rewrite rename count sort paste type speak contact confirm approve refund update change move assign "
    "close reopen register unsubscribe vote pretend teach quiz test debug fix refactor optimise optimize "
    "implement build deploy busca buscar encuentra calcula compra reserva paga pide pregunta haz pon cambia mueve "
    "asigna cierra abre rellena firma lee cuenta ordena elige confirma aprueba actualiza registra contacta "
    "contesta imagina crea planifica".split()
)
_LEADING = frozenset("please kindly then now also and por favor luego ahora y".split())
_COMMON = frozenset(
    "the and for with from that this which what when where how who why are was were has have had not you your our "
    "their its his her into than then them they will would can could should may must does did about over per any "
    "all each out los las una uno unos unas del que con por para como mas pero sus este esta estos estas ese esa "
    "eso hay son fue ser sin sobre entre desde hasta cual cuales quien donde cuando cuanto cuantos cuantas muy "
    "todo toda todos todas nos les please mas".split()
)


def words_of(text: str) -> list[str]:
    """Folded words of a text."""
    return _WORD.findall(plain(text))


def is_content(word: str) -> bool:
    """Whether a word says something of its own."""
    return (len(word) > 2 and word not in _COMMON) or word.isdigit()


def texts_of(found: Found) -> tuple[Origin, Iterator[str]]:
    """What kind of source it is, and its texts."""
    match found:
        case Passages():
            return "documents", (text for one in found.passages for text in (one.title, one.section, one.text) if text)
        case Pages():
            return "web", (text for one in found.pages for text in (one.title, one.snippet) if text)
        case Rows():
            return "tables", (text for row in found.rows for cell in row for text in _of_cell(cell))
        case Reply():
            return "external", iter((found.text,))


def _of_cell(cell: Any) -> Iterator[str]:
    """Each text of a cell: it may be a list or an object."""
    if isinstance(cell, dict):
        for name, one in cast(Mapping[str, Any], cell).items():
            yield name
            yield from _of_cell(one)
    elif isinstance(cell, list):
        for one in cast(Sequence[Any], cell):
            yield from _of_cell(one)
    elif cell is not None:
        yield str(cell)


def _places(found: Found) -> Iterator[str]:
    """Where the texts are said to come from: whoever wrote them may have chosen that too."""
    match found:
        case Passages():
            yield from (place for one in found.passages for place in (one.source, one.document_id) if place)
        case Pages():
            yield from (one.url for one in found.pages)
        case _:
            pass


@dataclass(frozen=True)
class _Text:
    """What is remembered of one text; see _Voice."""

    wording: str
    letters: str
    addresses: frozenset[str]
    asked: frozenset[frozenset[str]]


# Passages that many runs read are taken apart once.
@lru_cache(maxsize=2_048)
def _taken_apart(text: str) -> tuple[_Text, ...]:
    """The text, and whatever is hidden in it."""
    return tuple(_read(one) for one in (text, *(hidden.plain for hidden in disguised(text))))


@dataclass(frozen=True)
class Taken:
    """What is to be remembered of a result: its texts, or what they were taken apart into, and where they come from."""

    origin: Origin
    texts: Sequence[str | tuple[_Text, ...]]

    @classmethod
    def of(cls, found: Found) -> "Taken":
        """Of all texts of a result. They are taken apart when a call is judged: most runs make none afterwards."""
        origin, texts = texts_of(found)
        return cls(origin, (*texts, *_places(found)))

    @classmethod
    def apart(cls, found: Found) -> "Taken":
        """The same of a long result. Taking it apart takes its time, which may be spent in any thread."""
        origin, texts = texts_of(found)
        return cls(origin, [_apart(text) for text in (*texts, *_places(found))])


def _apart(text: str) -> tuple[_Text, ...]:
    return _taken_apart(text) if len(text) <= _SHORT_CHARS else _taken_apart.__wrapped__(text)


def _read(text: str) -> _Text:
    plainly = undisguised(text)
    wording = f" {' '.join(words_of(plainly))} "
    return _Text(wording, squeezed(plainly), frozenset(addresses(text)), frozenset(_asked(plainly)))


@dataclass
class _Voice:
    """Texts of one kind of source. `wording`: words between blanks; `letters`: all that is left without them.

    `words`: all that were ever heard. `asked`: what each sentence that asks for something is about; `ordered`: those
    that the detector blames.
    """

    words: set[str] = field(default_factory=set[str])
    wording: list[str] = field(default_factory=list[str])
    letters: list[str] = field(default_factory=list[str])
    addresses: set[str] = field(default_factory=set[str])
    asked: set[frozenset[str]] = field(default_factory=set[frozenset[str]])
    ordered: set[frozenset[str]] = field(default_factory=set[frozenset[str]])
    chars: int = 0

    def add(self, texts: Iterable[_Text]) -> None:
        """Adds a text, and whatever is hidden in it."""
        for one in texts:
            while self.chars > _MAX_CHARS and self.wording:
                self.chars -= len(self.wording.pop(0))
                self.letters.pop(0)
            self.words.update(one.wording.split())
            self.wording.append(one.wording)
            self.letters.append(one.letters)
            self.addresses.update(one.addresses)
            self.asked.update(one.asked)
            self.chars += len(one.wording)


@dataclass
class Heard:
    """What tools returned, by origin; and what the user said, in `said`, which is never held against a call."""

    _said: _Voice = field(default_factory=_Voice)
    _apart_voices: dict[Origin, _Voice] = field(default_factory=dict[Origin, _Voice])
    _waiting: list[Taken] = field(default_factory=list[Taken])
    _said_words: set[str] = field(default_factory=set[str])
    _said_beginnings: set[str] = field(default_factory=set[str])

    def trust(self, text: str) -> None:
        """Adds what the user or the application has said."""
        self._said.add(_apart(text))
        words = words_of(text)
        self._said_words.update(words)
        self._said_beginnings.update(word[:_ALIKE_LETTERS] for word in words)

    def note(self, taken: Taken) -> None:
        """Adds what a tool returned."""
        self._waiting.append(taken)

    @property
    def _voices(self) -> dict[Origin, _Voice]:
        """All that was heard, taken apart."""
        while self._waiting:
            taken = self._waiting.pop(0)
            for text in taken.texts:
                self._voice(taken.origin).add(_apart(text) if isinstance(text, str) else text)
        return self._apart_voices

    def _voice(self, origin: Origin) -> _Voice:
        return self._apart_voices.setdefault(origin, _Voice())

    def note_text(self, origin: Origin, text: str) -> None:
        """Adds one text, also what is hidden in it."""
        self._waiting.append(Taken(origin, (text,)))

    def note_order(self, origin: Origin, text: str) -> None:
        """Adds a sentence that looks like an order to the model."""
        if about := _about(undisguised(text)):
            self._voice(origin).ordered.add(about)

    @property
    def nothing(self) -> bool:
        """Whether nothing was read yet."""
        return not self._waiting and not self._apart_voices

    def knows_word(self, word: str) -> bool:
        """Whether the user said a word, or one that begins alike: `contratos` for `contracts`."""
        return word in self._said_words or (
            len(word) >= _ALIKE_LETTERS and word[:_ALIKE_LETTERS] in self._said_beginnings
        )

    def said(self, text: str) -> bool:
        """Whether the user said this."""
        return _holds(self._said, squeezed(text))

    def sayers(self, text: str) -> list[Origin]:
        """Who said this, however it is spaced and joined; nobody where the user did."""
        key = squeezed(text)
        if not key or _holds(self._said, key):
            return []
        return [origin for origin, voice in self._voices.items() if _holds(voice, key)]

    def sayers_of_address(self, address: str) -> list[Origin]:
        """Who said an address, or its host; nobody where the user did."""
        return self.sayers(re.sub(r"^(?:[a-z]+:[\\/]*)?(?:www\.)?", "", address.lower()))

    def sayers_of_a_word(self, text: str) -> list[Origin]:
        """Who said a word of `text` that has a meaning of its own and that the user did not say."""
        new = {word for word in words_of(text) if self._is_new(word)}
        return [origin for origin, voice in self._voices.items() if not new.isdisjoint(voice.words)]

    def phrase_of(self, text: str, least: int) -> Origin | None:
        """Whose text holds a run of words as it stands in `text`, with at least `least` of its own, from 2 on.

        Words that the user said, and words without a meaning of their own, are not counted.
        """
        words = words_of(text)
        new = [place for place, word in enumerate(words) if self._is_new(word)]
        runs = {tuple(words[start : end + 1]) for start, end in zip(new, new[least - 1 :], strict=False)}
        for origin, voice in self._voices.items():
            possible = [run for run in runs if voice.words.issuperset(run)]
            if possible and _any_stands_in(voice, possible):
                return origin
        return None

    def _is_new(self, word: str) -> bool:
        return is_content(word) and not self.knows_word(word)

    def asked_by(self, text: str) -> Origin | None:
        """Whose request `text` would fulfil: it says most of what a sentence that asks for something is about.

        Of a sentence that looks like an order to the model, a third is enough.
        """
        content = _about(text)
        if all(self.knows_word(word) for word in content):
            return None
        for origin, voice in self._voices.items():
            for about_what, least in ((voice.asked, _MOST_OF_IT), (voice.ordered, _PART_OF_IT)):
                for about in about_what:
                    shared = about & content
                    if len(shared) >= min(2, len(about)) and len(shared) >= least * len(about):
                        if not all(self.knows_word(word) for word in shared):
                            return origin
        return None

    def spelt_out(self, text: str) -> list[Origin]:
        """Who said an address that `text` holds however it is spaced; nobody where the user did."""
        letters = squeezed(text)
        found: list[Origin] = []
        for origin, voice in self._voices.items():
            hosts = {squeezed(host_of(one)) for one in voice.addresses}
            if any(len(host) >= _LEAST_HOST and host in letters and not _holds(self._said, host) for host in hosts):
                found.append(origin)
        return found


def _holds(voice: _Voice, key: str) -> bool:
    return any(key in letters for letters in voice.letters)


def _any_stands_in(voice: _Voice, runs: Iterable[tuple[str, ...]]) -> bool:
    """Each text is gone through once, however many runs there are."""
    beginnings: dict[tuple[str, str], list[tuple[str, ...]]] = defaultdict(list)
    for run in runs:
        beginnings[run[0], run[1]].append(run)
    for wording in voice.wording:
        words = wording.split()
        for place, pair in enumerate(pairwise(words)):
            if any(tuple(words[place : place + len(run)]) == run for run in beginnings.get(pair, ())):
                return True
    return False


def _asked(text: str) -> Iterator[frozenset[str]]:
    """What sentences that ask for something are about."""
    for start, end in sentences(text):
        sentence = plain(text[start:end])
        first = next((word for word in words_of(sentence)[:4] if word not in _LEADING), "")
        if "?" in sentence or first in _VERBS or _ASKING & set(features(sentence)):
            if about := _about(sentence):
                yield about


def _about(text: str) -> frozenset[str]:
    return frozenset(word for word in words_of(text) if is_content(word))
