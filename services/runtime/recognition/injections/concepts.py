"""Says what the words of a sentence stand for where somebody gives orders to a model, and in which order they stand."""

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.resources import files
from typing import cast

import yaml

from services.runtime.recognition.folding import fold
from services.runtime.recognition.injections.gestures import gestures

# How many known words, and how many words at all, two may stand apart and still belong together.
_REACH_KNOWN, _REACH_WORDS = 5, 9
_NEXT_WORDS = 2
_LONG_WORDS = 40
# So many letters a word has at least before it is recognised with its inner letters in another order.
_SCRAMBLED_LETTERS = 6
_MAX_REMEMBERED = 50_000
_WORD = re.compile(r"[a-z0-9_@$]+")
_TOOL = re.compile(r"[a-z]{2,20}(?:_[a-z0-9]{2,20}){1,4}")
_LEET = str.maketrans("013457@$", "oieastas")
_TOP = r"\.(?:com|net|org|xyz|io|co|info|biz|ru|example|onion|top)\b"
_PLACE, _ENDS_PLACE = re.compile(rf"https?:/|www\.|\b[a-z0-9-]{{2,40}}{_TOP}"), re.compile(_TOP)
_MAIL = re.compile(r"[\w.+-]{1,64}@[\w-]{1,63}\.\w")
# What ends a turn, or makes believe that somebody else speaks.
MARKS = re.compile(
    r"<\|[a-z_]{2,30}\|>|\[/?inst\]|<</?sys>>|#{2,4} ?(?:system|instruc|sistema|new|nuev)\w*|"
    r"^\W{0,9}(?:system|assistant|developer|sistema|asistente)(?: \w+)? ?[:\]]|"
    r"</?(?:system|instructions?|information|important|admin|user|assistant|tool_\w+|document|untrusted|data)\b"
    r"[^<>]{0,40}>|(?<![-=#*])[-=#*]{3,40} ?(?:end|begin|start|fin|new|system|inicio)\b|"
    r"\[(?:system|admin|end|assistant|sistema|inst|developer|context)\b[^\]]{0,40}\]|role[\"']? ?: ?[\"']system"
)
# Those without `<`, `[` and `#` are rows of these signs, or begin with who speaks.
_RULE, _SPEAKER = re.compile(r"[-=*]{3}"), re.compile(r"\W{0,9}(?:system|assistant|developer|sistema|asistente)")
_ASKED = re.compile(r"\?\W{0,6}$")
_TELLING = {"reply", "code", "order", "assistant", "secret", "user", "work", "your", "language", "letters", "records"}
# Signs of program text: so many to a word, and it is none that a model would read as an order.
_CODE = re.compile(r"[(){}=<>;$\[\]\\|]|::|->|--")
_BULLET = re.compile(r"\s*(?:[-*•+>#|]|\d{1,3}[.)]|[a-z][.)])+\s")
_QUOTES = frozenset('"“«`')
# What is in each of them, and the expression.
_FORMS = {
    "asks": ("?", _ASKED),
    "mail": ("@", _MAIL),
    "colon": (":", re.compile(r":\s*$")),
    "bullet": (" ", re.compile(rf"^{_BULLET.pattern}")),
}
_PLEASE = ("please", "por", "favor", "bitte", "and", "y", "also", "then", "now", "kindly")


@dataclass
class Lexicon:
    """Concepts by word. `names[i]` names concept i; a word that stands for none is -1.

    `apart[i][j]` and `near[i][j]` name two that follow each other.
    """

    names: Sequence[str]
    _exact: Mapping[str, int]
    _stems: Mapping[str, int]
    _scrambled: Mapping[str, int]
    _known: dict[str, int] = field(default_factory=dict[str, int])

    def __post_init__(self) -> None:
        self.apart = [[f"{one}>{other}" for other in self.names] for one in self.names]
        self.near = [[f"{one}~{other}" for other in self.names] for one in self.names]

    def of(self, words: Sequence[str]) -> list[int]:
        """The concepts of folded words in small letters."""
        found = list(map(self._known.get, words))
        if None not in found:
            return cast(list[int], found)
        return [self._new(word) if one is None else one for word, one in zip(words, found, strict=True)]

    def _new(self, word: str) -> int:
        if len(self._known) >= _MAX_REMEMBERED:
            self._known.clear()
        self._known[word] = self._look_up(word[:40])
        return self._known[word]

    def _look_up(self, word: str) -> int:
        if word.isdecimal() or len(word) < 2:
            return -1
        found = self._plain(word)
        if found < 0 and not word.isalpha():
            found = self._plain(word.translate(_LEET))
        return found if found >= 0 else self._scrambled.get(_scramble(word), -1)

    def _plain(self, word: str) -> int:
        if word in self._exact:
            return self._exact[word]
        for length in range(len(word), 2, -1):
            if word[:length] in self._stems:
                return self._stems[word[:length]]
        return -1


def _scramble(word: str) -> str:
    return word[0] + "".join(sorted(word[1:-1])) + word[-1] if len(word) >= _SCRAMBLED_LETTERS else word


@lru_cache(maxsize=1)
def lexicon() -> Lexicon:
    """Of concepts.yaml."""
    text = files("services.runtime.recognition.injections").joinpath("concepts.yaml").read_text(encoding="utf-8")
    listed = cast(Mapping[str, str], yaml.safe_load(text))
    names = list(listed)
    words = [(word, number) for number, name in enumerate(names) for word in listed[name].split()]
    exact = {word: number for word, number in words if not word.endswith("*")}
    stems = {word[:-1]: number for word, number in words if word.endswith("*")}
    scrambled = {_scramble(word): exact[word] for word in _SCRAMBLED if word in exact}
    for word in _SCRAMBLED:
        if (number := next((stems[word[:n]] for n in range(len(word), 2, -1) if word[:n] in stems), None)) is not None:
            scrambled[_scramble(word)] = number
    return Lexicon(names, exact, stems, scrambled)


# Those that no order to drop its rules can do without; with more of them ordinary words would be taken for these.
_SCRAMBLED = ("ignore", "disregard", "previous", "instructions", "prompt", "system", "reveal", "override", "bypass")


@lru_cache(maxsize=4096)
def _folded_character(character: str) -> str:
    return fold(character).text.lower()


class _Folding(dict[int, str]):
    def __missing__(self, code: int) -> str:
        self[code] = _folded_character(chr(code))
        return self[code]


_FOLDING = _Folding()


def _western() -> tuple[bytes, bytes]:
    """The folded form of each octet of code page 1252, and those octets that have none of one character there."""
    table, others = bytearray(256), bytearray()
    for octet in range(256):
        folded = _folded_character(bytes((octet,)).decode("cp1252", errors="replace"))
        coded = folded.encode("cp1252", errors="ignore")
        if len(folded) == len(coded) == 1:
            table[octet] = coded[0]
        else:
            others.append(octet)
    return bytes(table), bytes(others)


_WESTERN, _NOT_WESTERN = _western()


def plain(text: str) -> str:
    """The folded form in small letters: no accents, no look-alikes, nothing invisible."""
    if text.isascii():
        return text.lower()
    octets = text.encode("cp1252", errors="ignore")
    # Most text of Western languages: folding it by octets is many times faster.
    if len(octets) == len(text) and len(octets.translate(None, _NOT_WESTERN)) == len(octets):
        return octets.translate(_WESTERN).decode("cp1252")
    if len(_FOLDING) > _MAX_REMEMBERED:
        _FOLDING.clear()
    return unicodedata.normalize("NFC", text).translate(_FOLDING)


def words_of(sentence: str) -> list[str]:
    """The words of a folded sentence."""
    words = _WORD.findall(sentence)
    if len(words) > 7 and len(sentence) < 2.2 * len(words):  # l i k e  t h i s
        words = _WORD.findall(re.sub(r"(?<=\b\w) (?=\w\b)", "", sentence))
    return words


def features(sentence: str, words: Sequence[str] | None = None) -> set[str]:
    """What a folded sentence has of an order: concepts, pairs of them in order, its first word, addresses, marks.

    Nothing where it says nothing of the kind. `words`: as `words_of` gives them.
    """
    words = words_of(sentence) if words is None else words
    known = lexicon()
    placed = [(place, number) for place, number in enumerate(known.of(words)) if number >= 0]
    marked = _may_be_marked(sentence) and MARKS.search(sentence) is not None
    first = next((place for place, word in enumerate(words[:4]) if word not in _PLEASE), 0)
    found = set(gestures(sentence, words))
    if not marked and not found and (not placed or (len(placed) < 2 and placed[0][0] > first)):
        return found
    names, apart, near = known.names, known.apart, known.near
    found.update([names[number] for _, number in placed])
    for at, (place, number) in enumerate(placed[:-1], start=1):
        for other_place, other in placed[at : at + _REACH_KNOWN]:
            if other_place - place > _REACH_WORDS:
                break
            found.add(apart[number][other])
            if other_place - place <= _NEXT_WORDS:
                found.add(near[number][other])
    begins = next((number for place, number in placed[:4] if place >= first), -1) if placed else -1
    if begins >= 0 and placed[0][0] <= first + 1:
        found.add(f"^{names[begins]}")
        found.update(f"^{names[begins]}&{one}" for one in {names[number] for _, number in placed} & _TELLING)
    if marked:
        found.add("mark")
    found.update(_form(sentence, words))
    return found


def _may_be_marked(sentence: str) -> bool:
    """Whether it is worth looking for marks, which takes its time."""
    if "<" in sentence or "[" in sentence or "#" in sentence:
        return True
    if ("-" in sentence or "=" in sentence or "*" in sentence) and _RULE.search(sentence):
        return True
    return (":" in sentence or "]" in sentence) and ("role" in sentence or _SPEAKER.match(sentence) is not None)


def _form(sentence: str, words: Sequence[str]) -> Iterator[str]:
    """How the sentence is written."""
    if "_" in sentence and any("_" in word and _TOOL.fullmatch(word) for word in words):
        yield "tool"
    if not _QUOTES.isdisjoint(sentence):
        yield "quotes"
    if len(_CODE.findall(sentence)) * 3 > len(words):
        yield "code signs"
    # What ends an address is found faster than where it begins.
    dotted = "." in sentence and (":/" in sentence or "www." in sentence or _ENDS_PLACE.search(sentence))
    if dotted and _PLACE.search(sentence):
        yield "place"
    yield from (name for name, (sign, pattern) in _FORMS.items() if sign in sentence and pattern.search(sentence))
    if len(words) > _LONG_WORDS:
        yield "long"
    elif len(words) < 8:
        yield "short"
