"""Picks the sentences of passages that answer a question, or says that none does."""

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from services.runtime.expressions.quantities import quantities
from services.understudy.answer_kind import answer_kind
from services.understudy.bounds import goes_for
from services.understudy.evidence import Passage, clean
from services.understudy.glossary import equivalents
from services.understudy.paraphrase import attribute, matter, paraphrased, says
from services.understudy.premise import Lack, Said, premise
from services.understudy.premise_words import FRAME
from services.understudy.sql_request import codes, proper_nouns, quoted, without_codes
from services.understudy.statements import Statement, statements
from services.understudy.strictness import denied, names_of, other_rank, turned_round
from services.understudy.support import support
from services.understudy.wanted import FIGURES, MEASURES, Wanted, wanted
from services.understudy.words import alike, content, fold, language, stem, stems

# How well a sentence must support an answer (`support`): less where the languages differ, for only cognates, names and
# the glossary's words can be recognised there. Chosen on one half of XQuAD's articles, by
# `services.understudy.trials.refusals`, so that about 0.95 are refused without the passage: of that half of all of it,
# with eight passages, 0.951 in Spanish and 0.948 in English, and answered with it 0.68 and 0.72.
MIN_SUPPORT, MIN_SUPPORT_ACROSS = 5.8, 5.6
# What is taken off where the deed that is asked for is told in no word that is known.
_UNTOLD_DEED = 1.0
# And where nothing is told that could be the number, the date or the cause that is asked for; or the name or place.
_UNTOLD_FIGURE, _UNTOLD_NAME = 0.8, 0.4
_FAR_CLOSER = 1.3
# Passages that reach less are not read further: half by all of it, half by its best two sentences in a row.
_MIN_REACH = 0.4
# Of a question about what happened, what the quoted sentence must tell by itself.
MIN_TOLD = 0.4
# A few passages say little of how rare a word is: they count as so many. A word in none of them is telling or not asked
# for in these words; it weighs as one that half of them hold.
_LEAST_PASSAGES, _UNSEEN_WEIGHT = 8, 0.4
# Among so many sentences one shares half of a question's words by chance: in other words it has to share more.
_MANY_SENTENCES, _MIN_SCORE_AMONG_MANY = 24, 1.4
_NUMBER = re.compile(r"(?<![\w.,-])\d+(?:\.\d+)*(?![\w%-])")
_MIN_SENTENCE_WORDS = 3
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
    before: str = ""

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


@dataclass(frozen=True)
class Found:
    """What passages say of a question. `lacks`: without quotes, what stood between the closest sentence and an answer.

    `closest` is that sentence.
    """

    quotes: tuple[Quote, ...] = ()
    lacks: Lack | None = None
    closest: str = ""


def extract(question: str, passages: Sequence[Passage], limit: int = 3) -> list[Quote]:
    """At most `limit` sentences, best first; none when the passages do not speak of what is asked."""
    return list(read(question, passages, limit).quotes)


def read(question: str, passages: Sequence[Passage], limit: int = 3) -> Found:
    """At most `limit` sentences, best first, or what is missing for one."""
    texts = {one.number: clean(one.text) for one in passages}
    whole = {one.number: stems(f"{_names(one)} {texts[one.number]}") for one in passages}
    asked, spoken = _matter(question, list(whole.values())), language(question)
    fitting: dict[bool, list[_Scored]] = {True: [], False: []}
    lacking: list[tuple[float, Lack, str]] = []
    best = closest_lacking = 0.0
    for rank, passage in enumerate(passages):
        told_in = language(passage.text)
        same = told_in == spoken
        reach = asked.reach(whole[passage.number], _sentences(passage, texts))
        if reach < _MIN_REACH or not _holds_names(question, passage, same):
            continue
        prior = 0.4 * asked.coverage(whole[passage.number]) + 0.15 / (1 + rank)
        for one in _scored(asked, passage, texts[passage.number]):
            supported, lack = _judged(question, asked, one, reach, told_in)
            if supported < (MIN_SUPPORT if same else MIN_SUPPORT_ACROSS):
                continue
            if lack is None:
                fitting[same].append(replace(one, score=one.score + prior))
                best = max(best, supported)
            else:
                lacking.append((one.score, lack, one.text))
                closest_lacking = max(closest_lacking, supported)
    # Where what speaks of it far more closely does not say it, what speaks of it less does not either.
    near = closest_lacking < best + _FAR_CLOSER
    quotes = _best(fitting[True] or fitting[False], limit, wanted(question)) if near else []
    if not quotes and not lacking:
        quotes = _in_other_words(question, passages, texts)
    if quotes or not lacking:
        return Found(tuple(quotes))
    _, lack, closest = max(lacking, key=lambda one: one[0])
    return Found((), lack, shorten(closest))


def _in_other_words(question: str, passages: Sequence[Passage], texts: Mapping[int, str]) -> list[Quote]:
    """The sentence that answers best where none repeats the question's words, after the one that says of what."""
    told = [statements(texts[one.number], one.section.rsplit(" > ", 1)[-1]) for one in passages]
    found = paraphrased(
        question,
        [
            (_names(one), language(one.text), [each.text for each in own])
            for one, own in zip(passages, told, strict=True)
        ],
    )
    least = _MIN_SCORE_AMONG_MANY if sum(map(len, told)) > _MANY_SENTENCES else 0
    if not found or found[0].score < least:
        return []
    best = found[0]
    passage = passages[best.line.rank]
    lines = sorted({one.at: one for one in (best.about, best.line) if one is not None}.items())
    return [Quote(shorten(one.text), passage.title, (passage.number,)) for _, one in lines]


def _judged(question: str, asked: Asked, one: _Scored, reach: float, told_in: str) -> tuple[float, Lack | None]:
    """How well a statement supports an answer, and what it lacks for one; 0 where it cannot be the answer at all."""
    kind, told = answer_kind(question), asked.told(one.text)
    if not kind.fits(one.text, one.after) or (kind.happened and told < MIN_TOLD):
        return 0, None
    # A heading says what all below it is about.
    headed = f"{one.passage.title} {one.passage.section} {one.text}"
    told = (told + asked.told(headed)) / 2
    supported = support(question, stems(headed), reach, told, language(question), told_in)
    lack = premise(question).lack(Said(one.text, one.before, one.after, _names(one.passage), told_in))
    if lack is None or lack.slight:
        lack = _strict_lack(question, one, told_in) or lack
    if lack is not None and not lack.slight:
        return supported, lack
    return supported - _untold(question, one.text) - (_UNTOLD_DEED if lack is not None else 0), None


def _untold(question: str, text: str) -> float:
    """What is taken off for lack of what the question wants to be told."""
    asks = wanted(question)
    off = {"number": _UNTOLD_FIGURE, "point": _UNTOLD_FIGURE, "cause": _UNTOLD_FIGURE, "who": _UNTOLD_NAME}
    off["where"] = _UNTOLD_NAME
    return off[asks.form] if asks.form in off and not asks.told(text) else 0


def _strict_lack(question: str, one: _Scored, told_in: str) -> Lack | None:
    """What no answer may lack, however it is worded."""
    near = "\n".join((_names(one.passage), one.before, one.text, one.after))
    whole = f"{_names(one.passage)}\n{clean(one.passage.text)}"
    if rank := other_rank(question, near):
        return Lack(rank)
    if turned_round(question, one.text):
        return Lack(contrary=True)
    spoken, asks = language(question), wanted(question)
    words = matter(question, asks)
    if spoken == told_in and denied(question, words, [one.before, one.text, one.after]):
        return Lack(contrary=True)
    named = attribute(question)
    if named and not any(says(word, frozenset(stems(whole)), spoken, told_in) for word in named):
        return Lack(" ".join(named))
    if asks.form in MEASURES and not asks.told(f"{one.text}\n{one.after}"):
        return Lack(asks.head)
    if asks.form == "kind" and spoken == told_in and not asks.shown(f"{one.text}\n{one.after}"):
        return Lack(asks.head)
    return None


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
            previous = told[index - 1].text if index and told[index - 1].paragraph == one.paragraph else ""
            scored.append(_Scored(asked.coverage(own) + context, passage, one, following, previous))
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
    named = [stem(word) for word in names_of(question) for word in content(word) if len(word) > 3]
    if not same and named and not any(alike(word, one) or word in whole for word in named for one in known):
        return False
    numbers = [
        one for one in _NUMBER.finditer(question) if not re.search(rf"(?<![\d.]){re.escape(one[0])}(?!\d|\.\d)", whole)
    ]
    asked = {one.start: one for one in quantities(question)} if numbers else {}
    return all(one.start() in asked and goes_for(asked[one.start()], question, whole) for one in numbers)


def _best(scored: list[_Scored], limit: int, asks: Wanted) -> list[Quote]:
    scored.sort(key=lambda one: -one.score)
    # Where the best one holds the figure that is asked for, those without one say nothing more of it.
    enough = bool(scored) and asks.form in FIGURES and asks.told(scored[0].text)
    scored = [one for one in scored if asks.told(one.text)] if enough else scored
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
    alone = len(chosen) == 1 and not enough
    return [_quote(one) for one in chosen] + (_following(chosen[0].first) if alone else [])


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
