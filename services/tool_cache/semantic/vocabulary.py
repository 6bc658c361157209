"""The tables of a language, made ready to look words up."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import resources

import yaml

from services.tool_cache.semantic import inflection
from services.tool_cache.semantic.tokens import folded

Words = tuple[str, ...]


@dataclass(frozen=True)
class Item:
    """A word or phrase as the gate understands it.

    `kind`: word, verb, adjective, extreme (superlative), role, compare, aux, not, break, question, date, number,
    relative, drop. `acts`: it may do something to another (people, firms, and whatever is not known). `human`: verbs
    that only people do, so that a thing beside it is what it is done to. `alone`: verbs without an object.
    """

    kind: str
    value: str
    acts: bool = False
    human: bool = False
    tense: str = ""
    person: str = ""
    noun_too: bool = False
    alone: bool = False
    voice: str = ""
    plural: bool = False
    # Written like a name.
    name: bool = False


@dataclass
class Vocabulary:
    """What is known of one language. Keys are folded words."""

    language: str
    dropped: frozenset[str]
    not_plural: frozenset[str]
    openings: dict[Words, Item] = field(default_factory=dict[Words, Item])
    questions: dict[Words, Item] = field(default_factory=dict[Words, Item])
    asking: frozenset[str] = frozenset()
    phrases: dict[Words, list[Item]] = field(default_factory=dict[Words, list[Item]])
    words: dict[str, Item] = field(default_factory=dict[str, Item])
    verbs: dict[str, Item] = field(default_factory=dict[str, Item])
    # Length of the longest phrase that begins with a word.
    longest: dict[str, int] = field(default_factory=dict[str, int])
    # Prepositions that say "of" behind a word: before a thing, and before anything.
    like_of: dict[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    like_of_any: dict[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    documents: frozenset[str] = frozenset()
    attributes: frozenset[str] = frozenset()
    # Words after which a question only asks for what they name.
    asked_by_name: dict[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])

    def knows(self, word: str) -> bool:
        """Whether a word belongs to this language, as far as it is known."""
        return word in self.words or word in self.verbs or word in self.dropped or (word,) in self.phrases


_PRONOUNS = set("we i me you they them he him she her it us who yo tu ellos usted nos le te".split())
_KINDS = {"q": "question", "cmp": "compare", "thing": "word"}


@cache
def vocabulary(language: str) -> Vocabulary:
    """The vocabulary of "en" or "es"."""
    text = (resources.files(__package__ or "") / f"words_{language}.yaml").read_text(encoding="utf-8")
    tables: dict[str, str] = yaml.safe_load(text)
    made = Vocabulary(language, frozenset(tables["dropped"].split()), frozenset(tables["not_plural"].split()))
    made.asking = frozenset(tables["asking"].split())
    for line in tables["openings"].splitlines():
        made.openings |= {_words(phrase): Item("drop", "") for phrase in line.split("|")}
    for name, phrases in _lines(tables["questions"]):
        made.questions |= {_words(phrase): Item("question", name) for phrase in phrases}
    for name, phrases in _lines(tables["phrases"]):
        for phrase in phrases:
            made.phrases.setdefault(_words(phrase), []).append(_item(name))
    made.documents, made.attributes = frozenset(tables["documents"].split()), frozenset(tables["attributes"].split())
    for known, table in ((made.like_of, "like_of"), (made.like_of_any, "like_of_any")):
        for roles, words in _lines(tables[table]):
            for word in words[0].split():
                known[word] = known.get(word, frozenset()) | set(roles.split())
    made.asked_by_name = {name: frozenset(words[0].split()) for name, words in _lines(tables["asked_by_name"])}
    _add_kept(made, tables["kept"])
    _add_adjectives(made, tables["adjectives"], tables["compared"])
    _add_nouns(made, tables["nouns"])
    for entry in _entries(tables["verbs"]):
        _add_verb(made, entry)
    for phrase in (*made.openings, *made.questions, *made.phrases):
        made.longest[phrase[0]] = max(made.longest.get(phrase[0], 0), len(phrase))
    return made


def _words(phrase: str) -> Words:
    return tuple(folded(word) for word in phrase.split())


def _lines(table: str) -> Iterator[tuple[str, list[str]]]:
    for line in table.splitlines():
        name, _, phrases = line.rpartition(": ")
        yield name, [phrase for phrase in phrases.split("|") if phrase.strip()]


def _entries(table: str) -> list[str]:
    return [entry.strip() for entry in table.replace("\n", " ").split(",") if entry.strip()]


def _item(name: str) -> Item:
    kind, _, value = name.partition(":")
    return Item(_KINDS.get(kind, kind), value)


def _add_kept(made: Vocabulary, table: str) -> None:
    for group in table.replace("\n", "|").split("|"):
        if group:
            head = folded(group.split()[0])
            made.words |= {folded(word): Item("word", f"_{head}", acts=head in _PRONOUNS) for word in group.split()}


def _add_adjectives(made: Vocabulary, table: str, compared: str) -> None:
    for entry in _entries(table):
        first, *_ = words = entry.split()
        for word in words:
            plural = word + ("s" if word[-1] in "aeo" else "es") if made.language == "es" else word
            made.words |= {folded(form): Item("adjective", folded(first)) for form in (word, plural)}
    for line in compared.splitlines():
        name, _, forms = line.partition(": ")
        more, _, most = forms.partition("|")
        made.words |= {folded(word): Item("word", f"more {name}") for word in more.split()}
        made.words |= {folded(word): Item("extreme", name) for word in most.split()}


def _add_nouns(made: Vocabulary, table: str) -> None:
    plural = inflection.spanish_plural if made.language == "es" else inflection.english_plural
    for entry in _entries(table):
        acts, words = entry.startswith("!"), entry.lstrip("!").split()
        for word in words:
            item = Item("word", folded(words[0]), acts=acts)
            made.words.setdefault(folded(word), item)
            if (form := folded(plural(word))) not in made.not_plural:
                made.words.setdefault(form, replace(item, plural=True))


def _add_verb(made: Vocabulary, entry: str) -> None:
    human, alone, words = entry.startswith("!"), entry.startswith("-"), entry.lstrip("!-").split()
    name = folded(words[0].partition(":")[0].partition("~")[0].rstrip("*"))
    for word in words:
        noun_too = "*" in word
        base, *irregular = word.replace("*", "").split(":")
        base, _, stem = base.partition("~")
        forms = (
            inflection.english_verb(base, irregular)
            if made.language == "en"
            else inflection.spanish_verb(base, stem, irregular[0] if irregular else "")
        )
        for form, tense, person in forms:
            nominal = noun_too and tense == "n" and person == ""
            item = Item("verb", name, human=human, tense=tense, person=person, noun_too=nominal, alone=alone)
            made.verbs.setdefault(folded(form), item)
