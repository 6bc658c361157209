"""What words do to a sentence: which deny, which bound, which are contraries of each other, which mean the same."""

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from importlib.resources import files
from itertools import pairwise
from typing import Any, NamedTuple

import yaml

from services.orchestrator.citing.words import Word, is_negator, words

_LEAST_PREFIX = 3
# Words that are told apart by their accents alone: `bajó` is no preposition, and `sí` no condition.
_ACCENTED = {"bajó": "descendio", "sí": "yes"}
_PLAIN = ("label", "plain")
_NO_LABELS: frozenset[str] = frozenset()


class Term(NamedTuple):
    """A word of a text, or several that are one term, with what the lists say of it.

    `labels`: names of lists; `contraries`: pair and side, 1 or -1, of each pair; `sense`: what it is the same as, empty
    where it stands for itself; `party`: who it is; `converse`: 1 for giving, -1 for receiving.
    """

    text: str
    start: int
    end: int
    labels: frozenset[str] = _NO_LABELS
    contraries: tuple[tuple[int, int], ...] = ()
    sense: str = ""
    party: str = ""
    converse: int = 0
    capitalised: bool = False


# What is left where a denial is taken out of these.
_AFFIRMED = {"cannot": "can", "nobody": "everybody", "none": "all", "nothing": "everything", "nadie": "todos"}


def without_denials(text: str) -> str:
    """The text with its negations and prohibitions taken out."""
    for term in reversed(terms(text)):
        if term.labels & {"negators", "mayn't"} and "harmless" not in term.labels:
            text = f"{text[: term.start]}{_AFFIRMED.get(term.text, '')}{text[term.end :]}"
    return " ".join(text.split())


@lru_cache(maxsize=4_096)
def terms(text: str) -> tuple[Term, ...]:
    """The terms of a sentence, in order."""
    return tuple(_joined(text, words(text)))


def _joined(text: str, found: Sequence[Word]) -> Iterator[Term]:
    at, phrases = 0, _lists().phrases
    while at < len(found):
        first = last = found[at]
        joined, length = first.folded, 1
        if joined in phrases and (length := _phrase_length(text, found, at, phrases[joined])) > 1:
            last = found[at + length - 1]
            joined = "_".join(word.folded for word in found[at : at + length])
        if first.text not in (first.folded, first.folded.capitalize()):
            joined = _ACCENTED.get(first.text.lower(), joined)
        yield Term(joined, first.start, last.start + len(last.text), *_looked_up(joined), first.capitalised)
        at += length


def _phrase_length(text: str, found: Sequence[Word], at: int, phrases: Sequence[Sequence[str]]) -> int:
    """How many words from here on are one term."""
    for phrase in phrases:
        if at + len(phrase) > len(found):
            continue
        here = found[at : at + len(phrase)]
        if all(_is(word.folded, part) for word, part in zip(here, phrase, strict=True)) and all(
            not text[one.start + len(one.text) : other.start].strip(" -") for one, other in pairwise(here)
        ):
            return len(phrase)
    return 1


def _is(word: str, part: str) -> bool:
    return word.startswith(part[:-1]) if part.endswith("*") else word == part


@lru_cache(maxsize=65_536)
def _looked_up(text: str) -> tuple[frozenset[str], tuple[tuple[int, int], ...], str, str, int]:
    lists = _lists()
    entries = lists.of(text)
    labels = {name for kind, name in entries if kind == "label"}
    if is_negator(text) and "without" not in labels:
        labels.add("negators")
    pairs = tuple((int(name[1:]), 1 if name[0] == "+" else -1) for kind, name in entries if kind == "contrary")
    sense = next((name for kind, name in entries if kind == "sense"), "")
    party = next((name for kind, name in entries if kind == "party"), "")
    converse = next((1 if name == "+" else -1 for kind, name in entries if kind == "converse"), 0)
    return frozenset(labels), pairs, sense, party, converse


class _Lists:
    """The lists by word. An entry that ends with `*` stands for all words that begin so; the longest counts."""

    def __init__(self, entries: Mapping[tuple[str, str], Sequence[str]]) -> None:
        self._exact: dict[str, list[tuple[str, str]]] = {}
        self._prefixes: dict[str, list[tuple[str, str]]] = {}
        phrases: dict[str, set[tuple[str, ...]]] = {}
        for entry, listed in entries.items():
            for word in listed:
                known = self._prefixes if word.endswith("*") else self._exact
                known.setdefault(word.rstrip("*"), []).append(entry)
                if "_" in word:
                    parts = tuple(word.split("_"))
                    phrases.setdefault(parts[0], set()).add(parts)
        self.phrases = {first: sorted(found, key=len, reverse=True) for first, found in phrases.items()}

    def of(self, text: str) -> Sequence[tuple[str, str]]:
        """All entries of a word: of one kind, those of the word itself rather than of its beginning."""
        found = list(self._exact.get(text, ()))
        plain = _PLAIN in found
        for length in range(len(text), _LEAST_PREFIX - 1, -1):
            kinds = {_kind(one) for one in found}
            longer = [one for one in self._prefixes.get(text[:length], ()) if _kind(one) not in kinds]
            plain = plain or _PLAIN in longer
            found += [one for one in longer if not plain or one[0] in ("sense", "party")]
        return found


def _kind(entry: tuple[str, str]) -> tuple[str, str]:
    """Of senses and parties a word has one; of labels and contraries any number."""
    return entry if entry[0] in ("label", "contrary") else (entry[0], "")


@lru_cache(maxsize=1)
def _lists() -> _Lists:
    polarity, thesaurus = _read("polarity.yaml"), _read("thesaurus.yaml")
    entries: dict[tuple[str, str], Sequence[str]] = {
        ("label", name): listed.split() for name, listed in polarity.items() if isinstance(listed, str)
    }
    for at, (first, second) in enumerate(polarity["contraries"]):
        entries["contrary", f"+{at}"], entries["contrary", f"-{at}"] = first.split(), second.split()
    for listed in polarity["parties"]:
        entries["party", listed.split()[0]] = listed.split()
    for side, listed in zip("+-", polarity["converse"], strict=True):
        entries["converse", side] = listed.split()
    for at, listed in enumerate(thesaurus):
        entries["sense", f"#{at}"] = listed.split()
    return _Lists(entries)


@lru_cache(maxsize=2)
def pairs_of(name: str) -> frozenset[int]:
    """The pairs of contraries that a list names by their first words."""
    polarity = _read("polarity.yaml")
    firsts = {word.rstrip("*") for word in polarity[name].split()}
    return frozenset(
        at for at, (first, _) in enumerate(polarity["contraries"]) if first.split()[0].rstrip("*") in firsts
    )


@lru_cache(maxsize=1)
def counterparts() -> frozenset[frozenset[str]]:
    """Pairs of parties of which the one does what the other does not."""
    return frozenset(frozenset(listed.split()) for listed in _read("polarity.yaml")["counterparts"])


@lru_cache(maxsize=2)
def _read(name: str) -> Any:
    text = files("services.orchestrator.citing").joinpath(name).read_text(encoding="utf-8")
    return yaml.safe_load(text)
