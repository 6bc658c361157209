"""Picks the sentences of passages that answer a question, or says that none does."""

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from services.understudy.evidence import Passage, clean, gives_orders
from services.understudy.glossary import translations
from services.understudy.sql_request import codes, proper_nouns, quoted
from services.understudy.words import alike, content, fold, language, sentences, stem, stems

# Words of asking, not of the matter asked for.
_FRAME = frozenset(
    stem(word)
    for word in """say says said state states document documents documento documentos dice dicen establece establecen
    indica explain explica summarize resume describe exist existe existen happens happen pasa ocurre tell means
    significa apply applies aplica aplican regarding find busca know saber possible posible necesito need want quiero
    kind mentioned menciona please favor""".split()
)
# Share of what is asked, weighted by rarity, that a passage must speak of. Measured on XQuAD (150 questions, 8
# passages, most of one article): 0.6 accepts 75 % in Spanish and 67 % in English, and refuses 91 % and 95 % of those
# whose passage is left out. Lower where the languages differ (39 % and 90 %): only cognates, names and the glossary's
# words can be recognised there.
MIN_COVERAGE, MIN_COVERAGE_ACROSS = 0.6, 0.4
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
    text: str
    following: str


class Asked:
    """What a question is about, as it can be recognised in the given texts (each a list of stems)."""

    def __init__(self, question: str, texts: Sequence[Sequence[str]]) -> None:
        self.stems = [one for one in dict.fromkeys(stems(question)) if one not in _FRAME]
        seen = Counter(word for text in texts for word in set(text))
        self._forms = {one: _forms(one, seen) for one in self.stems}
        found = {one: sum(not forms.isdisjoint(text) for text in texts) for one, forms in self._forms.items()}
        self._weights = {one: _weight(count, len(texts)) for one, count in found.items()}

    def coverage(self, found: Iterable[str]) -> float:
        """Share of the weight of what is asked that `found` holds, 0 to 1."""
        known = frozenset(found)
        total = sum(self._weights.values())
        covered = sum(self._weights[one] for one, forms in self._forms.items() if forms & known)
        return covered / total if total else 0


def _weight(count: int, total: int) -> float:
    """Half by itself, half by rarity (BM25's inverse document frequency): a few passages say little of rarity."""
    rarest = math.log(2 * total + 2)
    return 0.5 + 0.5 * math.log(1 + (total - count + 0.5) / (count + 0.5)) / rarest if count else 1.0


def _forms(one: str, seen: Mapping[str, int]) -> frozenset[str]:
    """The stems in use that mean the same as `one`, in either language."""
    others = translations(one)
    return frozenset(word for word in seen if alike(one, word) or word in others or any(alike(o, word) for o in others))


def extract(question: str, passages: Sequence[Passage], limit: int = 3) -> list[Quote]:
    """At most `limit` sentences, best first; none when the passages do not speak of what is asked."""
    texts = {one.number: clean(one.text) for one in passages}
    whole = {one.number: stems(f"{_names(one)} {texts[one.number]}") for one in passages}
    asked = Asked(question, list(whole.values()))
    spoken = language(question)
    scored: dict[bool, list[_Scored]] = {True: [], False: []}
    for rank, passage in enumerate(passages):
        same = (passage.language or language(passage.text)) == spoken
        reach = asked.coverage(whole[passage.number])
        if reach < (MIN_COVERAGE if same else MIN_COVERAGE_ACROSS) or not _holds_names(question, passage, same):
            continue
        prior = 0.4 * reach + 0.15 / (1 + rank)
        own = _scored(asked, passage, texts[passage.number])
        scored[same] += [replace(one, score=one.score + prior) for one in own]
    return _best(scored[True] or scored[False], limit)


def _names(passage: Passage) -> str:
    return f"{passage.document} {passage.title} {passage.section}"


def _scored(asked: Asked, passage: Passage, text: str) -> list[_Scored]:
    """Sentences by what they say of the matter themselves, then with their heading and the sentence before."""
    heading = stems(f"{passage.title} {passage.section}")
    scored: list[_Scored] = []
    for paragraph in text.split("\n\n"):
        before: list[str] = []
        texts = [one for one in sentences(paragraph) if not gives_orders(fold(one))]
        for sentence, following in zip(texts, [*texts[1:], ""], strict=True):
            own = stems(sentence)
            if len(content(sentence)) >= _MIN_SENTENCE_WORDS:
                context = 0.3 * asked.coverage([*own, *heading]) + 0.3 * asked.coverage([*own, *before])
                scored.append(_Scored(asked.coverage(own) + context, passage, sentence, following))
            before = own
    return scored


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
    chosen: list[tuple[_Scored, set[str], list[int]]] = []
    for one in scored:
        if one.score < 0.75 * scored[0].score:
            break
        own, number = set(stems(one.text)), one.passage.number
        twin = next((other for other in chosen if len(own & other[1]) > 0.8 * len(own | other[1])), None)
        if twin is None and len(chosen) < limit:
            chosen.append((one, own, [number]))
        elif twin and number not in twin[2] and len(twin[2]) < 3:
            twin[2].append(number)
    quotes = [Quote(shorten(one.text), one.passage.title, tuple(numbers)) for one, _, numbers in chosen]
    if len(chosen) == 1 and 0 < len(chosen[0][0].following) <= _MAX_FOLLOWING_CHARS:
        # A lone sentence is often only the beginning of the answer.
        only = chosen[0][0]
        quotes.append(Quote(only.following, only.passage.title, (only.passage.number,)))
    return quotes


def shorten(text: str) -> str:
    """At most a few lines, cut between words."""
    return text if len(text) <= _MAX_CHARS else text[:_MAX_CHARS].rsplit(" ", 1)[0] + "…"
