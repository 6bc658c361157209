"""All chunks by their words: what is near a question, what belongs together, what is the same."""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from services.evaluation.golden.building.chunk import Chunk, plain

_WORD = re.compile(r"[^\W_]+(?:[-./][^\W_]+)*")
# In more than this share of the chunks, a word links nothing.
_COMMON = 0.1
_SAME = 0.6
_LEAST_LINKS = 2


def words(text: str) -> set[str]:
    """Words of three characters and more, and numbers and codes whole."""
    return {one for one in _WORD.findall(plain(text)) if len(one) > 2 or has_digit(one)}


def has_digit(word: str) -> bool:
    """Whether it is a number or a code."""
    return any(letter.isdigit() for letter in word)


def overlap(left: set[str], right: set[str]) -> float:
    """Jaccard's index of two sets of words; 0 where there are none."""
    return len(left & right) / len(left | right) if left | right else 0.0


class Corpus:
    """An index by words: enough to check what a model claims, and needs no other service."""

    def __init__(self, chunks: Sequence[Chunk]) -> None:
        self.chunks = list(chunks)
        self._words = [words(f"{one.title} {one.section} {one.text}") for one in self.chunks]
        self._places: dict[str, list[int]] = defaultdict(list)
        for place, said in enumerate(self._words):
            for word in said:
                self._places[word].append(place)

    def nearest(self, text: str, count: int) -> list[Chunk]:
        """Chunks that share the rarest words with a text, best first."""
        scores: Counter[int] = Counter()
        for word in sorted(words(text)):
            for place in self._places.get(word, ()):
                scores[place] += self._weight(word)  # pyright: ignore[reportArgumentType]
        return [self.chunks[place] for place, _ in sorted(scores.items(), key=lambda one: (-one[1], one[0]))[:count]]

    def linked(self, chosen: Iterable[Chunk], count: int, sides: Mapping[str, str]) -> list[tuple[Chunk, Chunk]]:
        """Pairs of one of `chosen` and a chunk of another document in its language, linked by rare words.

        Each chunk is in one pair at most, both documents are on one of the `sides`. Chunks that say nearly the same are
        no pair: one of them would suffice.
        """
        index = {one.id: place for place, one in enumerate(self.chunks)}
        found: list[tuple[float, int, int]] = []
        for chunk in chosen:
            first = index[chunk.id]
            links: dict[int, list[float]] = defaultdict(list)
            for word in self._words[first]:
                if len(self._places[word]) <= max(2, _COMMON * len(self.chunks)):
                    for place in self._places[word]:
                        links[place].append(self._weight(word))
            found += [
                (math.fsum(weights), first, place)
                for place, weights in links.items()
                if len(weights) >= _LEAST_LINKS and self._pair(first, place, sides)
            ]
        return self._apart(found, count)

    def _pair(self, first: int, second: int, sides: Mapping[str, str]) -> bool:
        left, right = self.chunks[first], self.chunks[second]
        other = left.document != right.document and left.language == right.language
        together = sides.get(left.document) == sides.get(right.document)
        return other and together and overlap(self._words[first], self._words[second]) < _SAME

    def _apart(self, found: list[tuple[float, int, int]], count: int) -> list[tuple[Chunk, Chunk]]:
        taken: set[int] = set()
        pairs: list[tuple[Chunk, Chunk]] = []
        for _, first, second in sorted(found, key=lambda one: (-one[0], one[1], one[2])):
            if len(pairs) < count and not {first, second} & taken:
                taken |= {first, second}
                pairs.append((self.chunks[first], self.chunks[second]))
        return pairs

    def _weight(self, word: str) -> float:
        return math.log(1 + len(self.chunks) / len(self._places[word]))
