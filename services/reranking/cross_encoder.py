"""Scores query and text together with a cross-encoder in ONNX Runtime."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from tokenizers import Encoding, Tokenizer

from services.reranking.scorer import BrokenModel, Floats, Scored
from services.runtime.onnx_models import CHARACTERS_PER_TOKEN, OnnxGraph, model_file, tokenizable

# Names the model.
SETTING = "SABUESO_RERANKING_MODEL"


class CrossEncoderScorer:
    """A sequence classifier over pairs, such as bge-reranker or ms-marco-MiniLM; its logit is the score."""

    reads_token_vectors = False

    def __init__(self, folder: Path, *, name: str, threads: int, max_tokens: int, batch_items: int) -> None:
        """`threads` work on one run of at most `batch_items` pairs of `max_tokens`.

        `name` becomes part of `model`. Raises ModelNotFound when the folder holds no graph or no tokenizer.
        """
        self._graph = OnnxGraph(model_file(folder, SETTING), threads)
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.no_padding()
        # The longer of the two is cut first: a long query does not push the text out.
        self._tokenizer.enable_truncation(  # pyright: ignore[reportUnknownMemberType]
            max_tokens, strategy="longest_first"
        )
        self._characters = CHARACTERS_PER_TOKEN * max_tokens
        self._batch_items = batch_items
        self.model = f"{name}@{self._graph.revision}"

    async def prepare(self, query: Scored, candidates: Sequence[Scored]) -> tuple[Scored, Sequence[Scored]]:
        """Nothing to fetch: it reads texts."""
        return query, candidates

    def score(self, query: Scored, candidates: Sequence[Scored]) -> Floats:
        """Logits; of a classifier with two labels, how far the second is above the first."""
        asked = tokenizable(query.text)
        texts = [tokenizable(candidate.text[: self._characters]) for candidate in candidates]
        pairs = [self._tokenizer.encode(asked, text) for text in texts]
        # Pairs of like length go through the model together: less padding.
        order = sorted(range(len(pairs)), key=lambda n: len(pairs[n].ids))
        scores = np.empty(len(pairs), np.float32)
        for start in range(0, len(order), self._batch_items):
            batch = order[start : start + self._batch_items]
            scores[batch] = self._run([pairs[n] for n in batch])
        return scores

    def _run(self, pairs: Sequence[Encoding]) -> Floats:
        answers, _ = self._graph.run([(pair.ids, pair.type_ids) for pair in pairs])
        logits = np.asarray(answers[0], np.float32).reshape(len(pairs), -1)
        if logits.shape[1] > 2:
            raise BrokenModel(f"the model {self.model} has {logits.shape[1]} labels: it is not a reranker")
        return logits[:, -1] - logits[:, 0] if logits.shape[1] == 2 else logits[:, 0]
