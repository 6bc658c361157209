"""Tells kinds of questions apart: kernel ridge regression over the question's embedding and its words."""

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from services.orchestrator.routing.encoder import Floats
from services.orchestrator.routing.wording import stems, tokens

# Chosen on development questions, each told by those unlike it. What one example alone says tells nothing of others.
RIDGE, WORDS_WEIGHT, MIN_EXAMPLES = 0.4, 0.4, 2
# Of the Gaussian kernel, beside the linear one: a second source shows in what comes together (`our` and `market`).
BUMP, WIDTH = 2.0, 0.15
# The label of an example that needs several tools, and the score that tells how much a question is like those.
PLUS, SEVERAL = "+", "<several>"
_EDGE = "^"
# What case and punctuation tell, which the embedding does not get to see: a name (Lisbon, WHO), a text that is given.
_MARKS = {
    "<name>": re.compile(r"(?<=[\w,;:)] )[A-ZÁÉÍÓÚÑ][\w'-]+"),
    "<abbreviation>": re.compile(r"(?<=[\w,;:)] )[A-ZÁÉÍÓÚÑ]{2,}\b"),
    "<quotation>": re.compile(r"[\"“«].{2,}?[\"”»]"),
    "<colon>": re.compile(r":(?!\d)"),
}


@dataclass(frozen=True)
class Head:
    """Kernel ridge regression to one target a label (Hoerl & Kennard 1970), learned in closed form, without iterations.

    The kernel is linear in the embedding and the words, whose `weights` are [dimensions + words, labels], and Gaussian
    in the embedding, with `bumps` [examples, labels] at the examples' vectors, `centres`, in blocks that tenants share.
    Of the embedding the examples' `mean` is taken off first, because the vectors of such models all lie in one narrow
    cone.
    """

    labels: Sequence[str]
    mean: Floats
    vocabulary: Mapping[str, int]
    weights: Floats
    centres: Sequence[Floats]
    bumps: Floats
    offset: Floats
    words_weight: float

    def scores(self, texts: Sequence[str], vectors: Floats) -> list[Mapping[str, float]]:
        """Of each text by label: near 1 where it needs it, near 0 where it does not. `<several>`: it needs several."""
        words = [_words(text) for text in texts]
        features = _features(words, vectors - self.mean, self.vocabulary, self.words_weight)
        near = np.hstack([gaussian(vectors, block) for block in self.centres])
        rows = features @ self.weights + near @ self.bumps + self.offset
        return [dict(zip(self.labels, map(float, row), strict=True)) for row in rows]


@dataclass(frozen=True)
class Lesson:
    """Examples as the head learns from them: `features` and `vectors` [examples, …], `targets` [examples, labels].

    `damping`: the ridge of each example, larger where its label counts less.
    """

    labels: Sequence[str]
    mean: Floats
    vocabulary: Mapping[str, int]
    features: Floats
    vectors: Floats
    targets: Floats
    offset: Floats
    damping: Floats
    words_weight: float

    def gram(self) -> Floats:
        """The dual form of the ridge regression, for fewer examples than features."""
        return cast(Floats, self.kernel(self.features, self.vectors) + np.diag(self.damping))

    def kernel(self, features: Floats, vectors: Floats) -> Floats:
        """How alike texts are to each example: [texts, examples]."""
        return cast(Floats, features @ self.features.T + gaussian(vectors, self.vectors))

    def features_of(self, texts: Sequence[str], vectors: Floats) -> Floats:
        """Other texts as the linear kernel sees them."""
        return _features([_words(text) for text in texts], vectors - self.mean, self.vocabulary, self.words_weight)


def lesson(
    texts: Sequence[str],
    vectors: Floats,
    labels: Sequence[str],
    *,
    importance: Mapping[str, float] | None = None,
    ridge: float = RIDGE,
    words_weight: float = WORDS_WEIGHT,
) -> Lesson:
    """One label a text, or several with a plus. `importance`: how much an example of a label counts, else 1."""
    wanted = [{*label.split(PLUS), *([SEVERAL] if PLUS in label else [])} for label in labels]
    names = sorted({name for one in wanted for name in one})
    words = [_words(text) for text in texts]
    known = Counter(word for one in words for word in one)
    kept = sorted(word for word, count in known.items() if count >= MIN_EXAMPLES)
    vocabulary = {word: index for index, word in enumerate(kept)}
    mean = vectors.mean(axis=0)
    targets = np.array([[name in one for name in names] for one in wanted], np.float32)
    weight = importance or {}
    counts = np.array([weight.get(SEVERAL if PLUS in label else label, 1.0) for label in labels], np.float32)
    offset = (targets * counts[:, None]).sum(axis=0) / counts.sum()
    features = _features(words, vectors - mean, vocabulary, words_weight)
    damping = (ridge / counts).astype(np.float32)
    return Lesson(names, mean, vocabulary, features, vectors, targets - offset, offset, damping, words_weight)


def learn(
    texts: Sequence[str],
    blocks: Sequence[Floats],
    labels: Sequence[str],
    *,
    importance: Mapping[str, float] | None = None,
) -> Head:
    """The head of examples; see `lesson`. `blocks`: their vectors, which it keeps as they are.

    Takes time in proportion to the cube of their number.
    """
    made = lesson(texts, np.vstack(blocks), labels, importance=importance)
    dual = cast(Floats, np.linalg.solve(made.gram(), made.targets))
    weights = made.features.T @ dual
    return Head(made.labels, made.mean, made.vocabulary, weights, blocks, dual, made.offset, made.words_weight)


def gaussian(vectors: Floats, centres: Floats) -> Floats:
    """The Gaussian kernel of vectors of unit length: [vectors, centres]."""
    return cast(Floats, BUMP * np.exp((vectors @ centres.T - 1) / WIDTH, dtype=np.float32))


def _features(
    words: Sequence[Collection[str]], centred: Floats, vocabulary: Mapping[str, int], words_weight: float
) -> Floats:
    said = np.zeros((len(words), len(vocabulary)), np.float32)
    for row, one in zip(said, words, strict=True):
        places = [vocabulary[word] for word in one if word in vocabulary]
        row[places] = np.sqrt(words_weight / max(len(places), 1))
    return np.hstack([centred, said]).astype(np.float32)


def _words(text: str) -> set[str]:
    """Words, function words too, their stems, and pairs of words: `how many`, `does it say`. Numbers are all one."""
    words = ["0" if word.isdigit() else word for word, _, _ in tokens(text)]
    pairs = zip([_EDGE, *words], [*words, _EDGE], strict=True)
    found = {*words, *(f"{first} {second}" for first, second in pairs)}
    found.update(stem for word in words for stem in stems(word))
    found.update(mark for mark, pattern in _MARKS.items() if pattern.search(text))
    return found
