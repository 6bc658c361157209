"""Tells kinds of questions apart: a linear head over the question's embedding and its words."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from services.orchestrator.routing.encoder import Floats
from services.orchestrator.routing.wording import tokens

# Ridge and weight of the words beside the embedding, chosen on development questions, each told by those unlike it.
RIDGE, WORDS_WEIGHT = 0.3, 0.2


@dataclass(frozen=True)
class Head:
    """Ridge regression to one target a label (Hoerl & Kennard 1970): learned in closed form, without iterations.

    `weights` is [dimensions + words, labels]; of the embedding the examples' `mean` is taken off first, because the
    vectors of such models all lie in one narrow cone.
    """

    labels: Sequence[str]
    mean: Floats
    vocabulary: Mapping[str, int]
    weights: Floats
    offset: Floats
    words_weight: float

    def scores(self, text: str, vector: Floats) -> Mapping[str, float]:
        """By label: near 1 where the question is of its kind, near 0 where it is not."""
        features = _features([text], vector[None, :] - self.mean, self.vocabulary, self.words_weight)
        return dict(zip(self.labels, map(float, (features @ self.weights + self.offset)[0]), strict=True))


def learn(
    texts: Sequence[str],
    vectors: Floats,
    labels: Sequence[str],
    *,
    ridge: float = RIDGE,
    words_weight: float = WORDS_WEIGHT,
) -> Head:
    """The head of examples, one label a text. Takes time in proportion to the cube of their number."""
    names = sorted(set(labels))
    vocabulary = {word: index for index, word in enumerate(sorted({word for text in texts for word in _words(text)}))}
    mean = vectors.mean(axis=0)
    features = _features(texts, vectors - mean, vocabulary, words_weight)
    targets = np.array([[label == name for name in names] for label in labels], np.float32)
    offset = targets.mean(axis=0)
    # The dual form: there are fewer examples than features.
    gram = features @ features.T + ridge * np.eye(len(texts), dtype=np.float32)
    weights = features.T @ cast(Floats, np.linalg.solve(gram, targets - offset))
    return Head(names, mean, vocabulary, weights, offset, words_weight)


def _features(texts: Sequence[str], centred: Floats, vocabulary: Mapping[str, int], words_weight: float) -> Floats:
    words = np.zeros((len(texts), len(vocabulary)), np.float32)
    for row, text in zip(words, texts, strict=True):
        for word in _words(text):
            if (index := vocabulary.get(word)) is not None:
                row[index] = 1
        row *= np.sqrt(words_weight) / max(float(np.linalg.norm(row)), 1)
    return np.hstack([centred, words]).astype(np.float32)


def _words(text: str) -> set[str]:
    """Words as they are, the function words too: they tell `how many` from `what does it say`. Numbers are all one."""
    return {"0" if word.isdigit() else word for word, _, _ in tokens(text)}
