"""Picks the sentences of passages that answer a question, or says that none does."""

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from services.understudy.answer_kind import answer_kind
from services.understudy.evidence import Passage, clean
from services.understudy.glossary import equivalents
from services.understudy.sql_request import codes, proper_nouns, quoted, without_codes
from services.understudy.statements import Statement, statements
from services.understudy.words import alike, content, fold, language, stem, stems

# Words of asking, not of the matter asked for.
FRAME = frozenset(
    stem(word)
    for word in """say says said state states document documents documento documentos dice dicen establece establecen
    indica explain explica summarize resume describe exist existe existen happens happen pasa ocurre tell means
    significa apply applies aplica aplican regarding find busca know saber possible posible necesito need want quiero
    kind mentioned menciona please favor set sets put fija fijan""".split()
)
# Share of what is asked that a passage must speak of, half by all of it and half by its best two sentences in a row.
# Lower where the languages differ: only cognates, names and the glossary's words can be recognised there. Chosen on one
# half of XQuAD's articles, by `services.understudy.trials.refusals`; on the other half, read once, with eight passages:
# answered 0.69 in Spanish and 0.71 in English (0.27 and 0.34 over passages of the other language), refused without the
# passage 0.95 and 0.94 (0.97 and 0.96).
MIN_REACH, MIN_REACH_ACROSS = 0.65, 0.52
# Of a question about what happened, what the quoted sentence must tell by itself.
MIN_TOLD = 0.4
# A few passages say little of how rare a word is: they count as so many. A word in none of them is telling or not asked
# for in these words; it weighs as one that half of them hold.
_LEAST_PASSAGES, _UNSEEN_WEIGHT = 8, 0.4
_MIN_SENTENCE_WORDS = 4
_MAX_CHARS, _MAX_FOLLOWING_CHARS = 420, 240


@dataclass(frozen=True)
class Quote:
    """A sentence with the marks of the passages that hold it."""

    text: str
    title: str
    numbers: tuple[int, ...]


@dataclass(frozen=True)
class _Scored:
    score: float
    passage: Passage
    statement: Statement
    following: Statement | None

    @property
    def text(self) -> str:
        """The statement with what introduces it, as it is quoted."""
        return _told(self.statement)

    @property
    def after(self) -> str:
        """The sentence after it."""
        return self.following.text if self.following else ""

    @property
    def opener(self) -> str:
        """The sentence that introduces the items of a table or list, when the statement is that or one of those."""
        return self.statement.lead or (self.statement.text if self.statement.items else "")


@dataclass
class _Chosen:
    """A statement that is quoted, the passages that hold it, and the items of its table that are asked for too."""

    first: _Scored
    words: set[str]
    numbers: list[int]
    items: list[str]


class Asked:
    """What a question is about, as it can be recognised in the given texts (each a list of stems)."""

    def __init__(self, question: str, texts: Sequence[Sequence[str]]) -> None:
        self.stems = [one for one in dict.fromkeys(stems(question)) if one not in FRAME]
        seen = Counter(word for text in texts for word in set(text))
        self._forms = {one: _forms(one, seen) for one in self.stems}
        found = {one: sum(not forms.isdisjoint(text) for text in texts) for one, forms in self._forms.items()}
        self._weights = {one: _weight(count, len(texts)) for one, count in found.items()}
        passages = max(_LEAST_PASSAGES, len(texts))
        self._rarities = {one: _rarity(count, passages) if count else _UNSEEN_WEIGHT for one, count in found.items()}

    def coverage(self, found: Iterable[str]) -> float:
        """Share of the weight of what is asked that `found` holds, 0 to 1."""
        return self._share(self._weights, found)

    def reach(self, whole: Iterable[str], sentences: Sequence[Sequence[str]]) -> float:
        """How far a passage may answer, 0 to 1: by all of it, and by its two sentences in a row that say most."""
        pairs = [[*one, *after] for one, after in zip(sentences, [*sentences[1:], ()], strict=False)]
        closest = max((self._share(self._rarities, pair) for pair in pairs), default=0)
        return (self._share(self._rarities, whole) + closest) / 2

    def told(self, text: str) -> float:
        """Share of what is asked that a text says by itself, 0 to 1."""
        return self._share(self._rarities, stems(text))

    def _share(self, weights: Mapping[str, float], found: Iterable[str]) -> float:
        known, total = frozenset(found), sum(weights.values())
        covered = sum(weights[one] for one, forms in self._forms.items() if forms & known)
        return covered / total if total else 0


def _weight(count: int, total: int) -> float:
    """Half by itself, half by rarity: a few passages say little of rarity."""
    return 0.5 + 0.5 * _rarity(count, total) if count else 1.0


def _rarity(count: int, total: int) -> float:
    """BM25's inverse document frequency, as a share of that of a word in no passage."""
    return math.log(1 + (total - count + 0.5) / (count + 0.5)) / math.log(2 * total + 2)


def _forms(one: str, seen: Mapping[str, int]) -> frozenset[str]:
    """The stems in use that mean the same as `one`, in either language."""
    others = equivalents(one)
    return frozenset(word for word in seen if alike(one, word) or word in others or any(alike(o, word) for o in others))


def extract(question: str, passages: Sequence[Passage], limit: int = 3) -> list[Quote]:
    """At most `limit` sentences, best first; none when the passages do not speak of what is asked."""
    texts = {one.number: clean(one.text) for one in passages}
    whole = {one.number: stems(f"{_names(one)} {texts[one.number]}") for one in passages}
    asked, kind = _matter(question, list(whole.values())), answer_kind(question)
    spoken = language(question)
    scored: dict[bool, list[_Scored]] = {True: [], False: []}
    for rank, passage in enumerate(passages):
        same = (passage.language or language(passage.text)) == spoken
        least = MIN_REACH if same else MIN_REACH_ACROSS
        if asked.reach(whole[passage.number], _sentences(passage, texts)) < least:
            continue
        if not _holds_names(question, passage, same):
            continue
        prior = 0.4 * asked.coverage(whole[passage.number]) + 0.15 / (1 + rank)
        own = [
            one
            for one in _scored(asked, passage, texts[passage.number])
            if kind.fits(one.text, one.after) and not (kind.happened and asked.told(one.text) < MIN_TOLD)
        ]
        scored[same] += [replace(one, score=one.score + prior) for one in own]
    return _best(scored[True] or scored[False], limit)


def _sentences(passage: Passage, texts: Mapping[int, str]) -> list[list[str]]:
    """The stems of each statement, with what heads and introduces it."""
    told = statements(texts[passage.number], passage.section.rsplit(" > ", 1)[-1])
    return [stems(f"{passage.title} {passage.section} {one.lead} {one.text}") for one in told]


def _matter(question: str, texts: Sequence[Sequence[str]]) -> Asked:
    """What is asked, without codes: every passage that may answer holds them, so they tell nothing of its sentences."""
    rest = Asked(without_codes(question), texts)
    return rest if rest.stems else Asked(question, texts)


def _names(passage: Passage) -> str:
    return f"{passage.document} {passage.title} {passage.section}"


def _scored(asked: Asked, passage: Passage, text: str) -> list[_Scored]:
    """Statements by what they say of the matter themselves, then with their heading and the sentence before."""
    heading = stems(f"{passage.title} {passage.section}")
    scored: list[_Scored] = []
    told = statements(text, passage.section.rsplit(" > ", 1)[-1])
    before, paragraph = list[str](), -1
    for index, one in enumerate(told):
        if one.paragraph != paragraph:
            before, paragraph = [], one.paragraph
        own, lead = stems(one.text), stems(one.lead)
        # An item that adds nothing to what introduces it is not asked for by itself: the whole list is.
        telling = asked.coverage([*own, *lead]) > asked.coverage(lead) if lead else _tells(one)
        own += lead
        if telling:
            following = told[index + 1] if index + 1 < len(told) and not one.items and not one.lead else None
            context = 0.3 * asked.coverage([*own, *heading]) + 0.3 * asked.coverage([*own, *before])
            scored.append(_Scored(asked.coverage(own) + context, passage, one, following))
        before = own
    return scored


def _tells(one: Statement) -> bool:
    return len(content(" ".join((one.text, *one.items)))) >= _MIN_SENTENCE_WORDS


def _told(one: Statement) -> str:
    return _listed(one.lead, [one.text]) if one.lead else _listed(one.text, one.items) if one.items else one.text


def _listed(lead: str, items: Sequence[str]) -> str:
    """Items after the sentence that introduces them, cut between items."""
    text, mark = lead, " "
    for item in items:
        item = item.rstrip(" .;,")
        if len(text) + len(item) > _MAX_CHARS and mark == "; ":
            return f"{text}; …"
        text, mark = f"{text}{mark}{item}", "; "
    return text


def _holds_names(question: str, passage: Passage, same: bool) -> bool:
    """Codes, numbers and names of the question must be in the passage: a false premise mostly fails here."""
    whole = fold(f"{_names(passage)} {passage.text}")
    if any(fold(name) not in whole for name, _, _ in (*codes(question), *quoted(question))):
        return False
    known = set(stems(whole))
    for name, _, _ in proper_nouns(question):
        words = [stem(word) for word in content(name) if len(word) > 2]
        if same and words and not name.isupper() and not any(alike(word, one) for word in words for one in known):
            return False
    numbers = re.findall(r"(?<![\w.,-])\d+(?:\.\d+)*(?![\w%-])", question)
    return all(re.search(rf"(?<![\d.]){re.escape(one)}(?!\d|\.\d)", whole) for one in numbers)


def _best(scored: list[_Scored], limit: int) -> list[Quote]:
    scored.sort(key=lambda one: -one.score)
    chosen: list[_Chosen] = []
    for one in scored:
        if one.score < 0.75 * scored[0].score:
            break
        own, number = set(stems(one.text)), one.passage.number
        list_mate = next((other for other in chosen if one.opener and one.opener == other.first.opener), None)
        if list_mate and list_mate.first.passage.number == number:
            # Other items of the same list only when they are asked for as much.
            if one.statement.lead and list_mate.items and one.score >= 0.99 * list_mate.first.score:
                list_mate.items.append(one.statement.text)
            continue
        twin = next((other for other in chosen if len(own & other.words) > 0.8 * len(own | other.words)), None)
        if twin is None and len(chosen) < limit:
            chosen.append(_Chosen(one, own, [number], [one.statement.text] if one.statement.lead else []))
        elif twin and number not in twin.numbers and len(twin.numbers) < 3:
            twin.numbers.append(number)
    return [_quote(one) for one in chosen] + (_following(chosen[0].first) if len(chosen) == 1 else [])


def _quote(one: _Chosen) -> Quote:
    text = _listed(one.first.statement.lead, one.items) if len(one.items) > 1 else one.first.text
    return Quote(shorten(text), one.first.passage.title, tuple(one.numbers))


def _following(only: _Scored) -> list[Quote]:
    """The next sentence: a lone one is often only the beginning of the answer."""
    following = only.following
    if following is None or following.paragraph != only.statement.paragraph:
        return []
    text = _told(following)
    return [Quote(text, only.passage.title, (only.passage.number,))] if len(text) <= _MAX_FOLLOWING_CHARS else []


def shorten(text: str) -> str:
    """At most a few lines, cut between words."""
    return text if len(text) <= _MAX_CHARS else text[:_MAX_CHARS].rsplit(" ", 1)[0] + "…"
