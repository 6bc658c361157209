"""Finds the clauses that recur over several documents, also where their languages differ."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from services.understudy.clauses import Clause, clauses, figures
from services.understudy.evidence import Passage, gives_orders
from services.understudy.extract import Asked, shorten
from services.understudy.qualifier import qualified
from services.understudy.words import fold, sentences, stems


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
        counts = Counter(word for one in own for word in one.words)
        frequent = {word for word, count in counts.items() if count * 2 >= len(own)}

        def telling(text: str) -> float:
            return 2 * len(shared & figures(text)) + len(frequent & set(stems(text))) - 0.004 * len(text)

        candidates = [text for text in sentences(own[0].text) if not gives_orders(fold(text))]
        return shorten(max(candidates, key=telling, default=""))


def recurring_clauses(question: str, passages: Sequence[Passage], limit: int = 6) -> tuple[list[Recurring], int]:
    """What recurs, most documents first, and the number of documents looked at.

    Two documents of up to five make it recur, three of more. Where some of it is called as the question calls it
    (special conditions, penalties), the rest is left out.
    """
    found = clauses(passages)
    named = qualified(question, found)
    groups: list[Recurring] = []
    for one in found if named is None else named:
        likeness, home = max(((_likeness(one, group), group) for group in groups), key=_first, default=(0.0, None))
        if home is not None and likeness >= 1:
            home.clauses.append(one)
        else:
            groups.append(Recurring([one]))
    total = len({passage.document for passage in passages})
    least = 2 if total <= 5 else 3
    kept = [group for group in groups if len(group.documents) >= least]
    # Titles and introductions recur too, but say nothing; they are all there is where nothing is numbered.
    kept = [group for group in kept if group.number] or kept
    chosen = _on_topic(question, kept) if named is None else kept
    chosen.sort(key=lambda group: (-len(group.documents), group.number))
    return chosen[:limit], total


def _first(pair: tuple[float, Recurring]) -> float:
    return pair[0]


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
    """1 or more when two clauses say the same, else 0.

    By number and figures whatever the wording, for one house writes one clause in several ways and languages; without
    figures by number and some words, without a number by most of the words.
    """
    # What tells most pairs apart comes first: there are thousands of them.
    if one.number and other.number and one.number != other.number:
        return 0
    if bool(one.figures) != bool(other.figures) or (one.figures and one.figures.isdisjoint(other.figures)):
        return 0
    common = len(one.words & other.words)
    union = common / max(1, len(one.words) + len(other.words) - common)
    if one.number and other.number:
        shared = common / max(1, min(len(one.words), len(other.words)))
        enough = bool(one.figures) or (shared >= 0.35 if one.language == other.language else union >= 0.12)
    else:
        enough = union >= 0.6 and one.figures == other.figures
    return 1 + union if enough else 0
