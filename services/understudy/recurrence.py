"""Finds the clauses that recur over several documents, also where their languages differ."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from services.understudy.evidence import Passage, clean, gives_orders
from services.understudy.extract import Asked, shorten
from services.understudy.words import fold, language, sentences, stems

# A number at the start of a line or sentence, with or without the word; a number without dots needs the word.
_CLAUSE = re.compile(
    r"(?:(?<=\A)|(?<=\n)|(?<=[.;:] ))[ \t]*(?:#+\s*|[-*•·]\s+)?(?:\*\*)?"
    r"(?:(?P<word>cl[áa]usula|clause|art[íi]culo|article|art\.|secci[óo]n|section|§)\s*)?"
    r"(?P<number>\d{1,2}(?:\.\d{1,2}){1,3}|(?(word)\d{1,3}|(?!)))\.?ª?[.):]?\s+(?=[\"“«(]?[A-ZÁÉÍÓÚÑ*])",
    re.IGNORECASE,
)
_NUMBERED = re.compile(
    r"(?:^|\b(?:cl[áa]usula|clause|art[íi]culo|article|secci[óo]n|section)\s+)(\d{1,2}(?:\.\d{1,2})*)\b", re.I
)
_FIGURE = re.compile(r"\d+(?:[.,]\d+)*")


@dataclass(frozen=True)
class Clause:
    """A numbered piece of a passage. `number` is empty where the text gives none."""

    number: str
    heading: str
    text: str
    passage: Passage
    language: str
    words: frozenset[str]
    figures: frozenset[str]


@dataclass
class Recurring:
    """Clauses of different documents that say the same."""

    clauses: list[Clause] = field(default_factory=list[Clause])

    @property
    def documents(self) -> list[str]:
        """Documents that hold it, each once, in order."""
        return list(dict.fromkeys(one.passage.document for one in self.clauses))

    @property
    def words(self) -> frozenset[str]:
        """Stems of all texts and headings."""
        return frozenset(word for one in self.clauses for word in (*one.words, *stems(one.heading)))

    @property
    def number(self) -> str:
        """The number that most of them carry."""
        numbers = [one.number for one in self.clauses if one.number]
        return max(set(numbers), key=numbers.count) if numbers else ""

    def marks(self, spoken: str, limit: int = 4) -> list[int]:
        """Citation numbers, one a document; passages in the language of the quoted sentence come first."""
        ordered = sorted(self.clauses, key=lambda one: one.language != spoken)
        first = {one.passage.document: one.passage.number for one in reversed(ordered)}
        return [first[document] for document in dict.fromkeys(one.passage.document for one in ordered)][:limit]

    def sentence(self, spoken: str) -> str:
        """The sentence that says it best, in the language asked for where there is one."""
        own = [one for one in self.clauses if one.language == spoken] or self.clauses
        shared = {figure for figure in own[0].figures if all(figure in one.figures for one in own)}
        common = [word for one in own for word in one.words]
        frequent = {word for word in common if common.count(word) * 2 >= len(own)}

        def telling(text: str) -> float:
            return 2 * len(shared & _figures(text)) + len(frequent & set(stems(text))) - 0.004 * len(text)

        candidates = [text for text in sentences(own[0].text) if not gives_orders(fold(text))]
        return shorten(max(candidates, key=telling, default=""))


def clauses(passages: Sequence[Passage]) -> list[Clause]:
    """The numbered clauses of passages; one without numbers is one clause, numbered by its section if it can be."""
    found: list[Clause] = []
    for passage in passages:
        text = clean(passage.text)
        spoken = passage.language or language(text)
        starts = list(_CLAUSE.finditer(text))
        if not starts or text[: starts[0].start()].strip():
            head = text[: starts[0].start()] if starts else text
            numbered = _NUMBERED.search(passage.section)
            found.append(_clause(numbered[1] if numbered else "", head, passage, spoken))
        for index, match in enumerate(starts):
            end = starts[index + 1].start() if index + 1 < len(starts) else len(text)
            found.append(_clause(match["number"], text[match.end() : end], passage, spoken))
    return [one for one in found if len(one.words) >= 3]


def _clause(number: str, text: str, passage: Passage, spoken: str) -> Clause:
    words = frozenset(one for one in stems(text) if not one[0].isdigit())
    return Clause(number, passage.section, text.strip(), passage, spoken, words, _figures(text))


def _figures(text: str) -> frozenset[str]:
    """Numbers as one writes them in either language; years and codes say nothing of a clause."""
    plain = re.sub(r"\b[A-Z]+(?:-\d+)+\b|\b(?:19|20)\d\d\b", " ", text)
    return frozenset(one.replace(",", ".") for one in _FIGURE.findall(plain))


def recurring_clauses(question: str, passages: Sequence[Passage], limit: int = 6) -> tuple[list[Recurring], int]:
    """What recurs, most documents first, and the number of documents looked at.

    Two documents of up to five make it recur, three of more. Where some of it is called as the question calls it
    (special conditions, penalties), the rest is left out.
    """
    groups: list[Recurring] = []
    for one in clauses(passages):
        home = max(groups, key=lambda group: _likeness(one, group), default=None)
        if home is not None and _likeness(one, home) >= 1:
            home.clauses.append(one)
        else:
            groups.append(Recurring([one]))
    total = len({passage.document for passage in passages})
    least = 2 if total <= 5 else 3
    kept = [group for group in groups if len(group.documents) >= least]
    # Titles and introductions recur too, but say nothing; they are all there is where nothing is numbered.
    kept = [group for group in kept if group.number] or kept
    chosen = _on_topic(question, kept)
    chosen.sort(key=lambda group: (-len(group.documents), group.number))
    return chosen[:limit], total


def _on_topic(question: str, groups: list[Recurring]) -> list[Recurring]:
    """The groups that hold the most of what the question names; all when none holds any."""
    asked = Asked(_RECUR.sub(" ", fold(question)), [list(group.words) for group in groups])
    shares = [asked.coverage(group.words) for group in groups]
    return [group for group, share in zip(groups, shares, strict=True) if share >= max(shares) - 0.01]


_RECUR = re.compile(
    r"\b(?:se repiten?|repetid[oa]s?|recur\w*|in common|en comun|comun(?:es)?|common|"
    r"habitual(?:es)?|frecuentes?|frequent|usual|typical|tipic[oa]s?|contrat[oa]s?|contracts?|"
    r"most)\b"
)


def _likeness(one: Clause, group: Recurring) -> float:
    return max((_same(one, other) for other in group.clauses[:6]), default=0)


def _same(one: Clause, other: Clause) -> float:
    """1 or more when two clauses say the same.

    By number and figures whatever the wording, for one house writes one clause in several ways and languages; without
    figures by number and some words, without a number by most of the words.
    """
    shared = len(one.words & other.words) / max(1, min(len(one.words), len(other.words)))
    union = len(one.words & other.words) / max(1, len(one.words | other.words))
    numbered = bool(one.number) and one.number == other.number
    if one.figures and other.figures and not one.figures & other.figures:
        return 0
    if numbered and one.figures and other.figures:
        return 1 + union
    if bool(one.figures) != bool(other.figures) or (one.number and other.number and not numbered):
        return 0.5 * union
    if numbered:
        enough = shared >= 0.35 if one.language == other.language else union >= 0.12
        return 1 + union if enough else union
    return union + (0.4 if union >= 0.6 and one.figures == other.figures else 0)
