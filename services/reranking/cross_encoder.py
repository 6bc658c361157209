"""Scores query and text together with a cross-encoder in ONNX Runtime."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from tokenizers import Encoding, Tokenizer

from services.reranking.scorer import BrokenModel, Floats, Scored, Scores
from services.runtime.onnx_models import CHARACTERS_PER_TOKEN, OnnxGraph, model_file, tokenizable

# Names the model.
SETTING = "SABUESO_RERANKING_MODEL"


_GPU_BATCH_ITEMS = 32


@dataclass(frozen=True)
class Load:
    """How a cross-encoder is run: `parallel_runs` at a time, each with `threads`.

    A run holds `batch_items` pairs (0: one on a processor, 32 on a GPU) and `batch_tokens` with the padding at most.
    """

    threads: int = 1
    parallel_runs: int = 1
    batch_items: int = 0
    batch_tokens: int = 16_384


class CrossEncoderScorer:
    """A sequence classifier over pairs, such as bge-reranker or ms-marco-MiniLM; its logit is the score."""

    reads_token_vectors = False

    def __init__(self, folder: Path, *, name: str, max_tokens: int, load: Load) -> None:
        """`max_tokens` are of query and text together, special tokens included.

        `name` becomes part of `model`. Raises ModelNotFound when the folder holds no graph or no tokenizer.
        """
        self._graph = OnnxGraph(model_file(folder, SETTING), load.threads)
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.no_padding()
        # The longer of the two is cut first: a long query does not push the text out, nor a long text the query.
        self._tokenizer.enable_truncation(  # pyright: ignore[reportUnknownMemberType]
            max_tokens, strategy="longest_first"
        )
        self._characters = CHARACTERS_PER_TOKEN * max_tokens
        best = _GPU_BATCH_ITEMS if self._graph.on_gpu else 1
        self._batch_items = 1 if self._graph.alone else load.batch_items or best
        self._batch_tokens = load.batch_tokens
        self._threads = ThreadPoolExecutor(load.parallel_runs, thread_name_prefix="cross-encoder")
        self.model = f"{name}@{self._graph.revision}"

    async def prepare(self, query: Scored, candidates: Sequence[Scored]) -> tuple[Scored, Sequence[Scored]]:
        """Nothing to fetch: it reads texts."""
        return query, candidates

    def compute(self, query: Scored, candidates: Sequence[Scored]) -> Scores:
        """Logits; of a classifier with two labels, how far the second is above the first."""
        asked = tokenizable(query.text)
        texts = [tokenizable(candidate.text[: self._characters]) for candidate in candidates]
        pairs = [self._tokenizer.encode(asked, text) for text in texts]
        batches = list(self._batches(pairs))
        scores = np.empty(len(pairs), np.float32)
        for batch, logits in zip(
            batches, self._threads.map(self._run, [[pairs[n] for n in b] for b in batches]), strict=True
        ):
            scores[batch] = logits
        truncated = [
            len(candidate.text) > self._characters or _is_cut(pair, text)
            for candidate, pair, text in zip(candidates, pairs, texts, strict=True)
        ]
        return Scores(scores, truncated)

    def _batches(self, pairs: Sequence[Encoding]) -> Iterator[list[int]]:
        """Places of pairs of like length: less padding."""
        batch: list[int] = []
        for n in sorted(range(len(pairs)), key=lambda n: len(pairs[n].ids)):
            # In ascending order the newest is the longest, and what all are padded to.
            tokens = (len(batch) + 1) * len(pairs[n].ids)
            if batch and (len(batch) == self._batch_items or tokens > self._batch_tokens):
                yield batch
                batch = []
            batch.append(n)
        if batch:
            yield batch

    def _run(self, pairs: Sequence[Encoding]) -> Floats:
        answers, _ = self._graph.run([(pair.ids, pair.type_ids) for pair in pairs])
        logits = np.asarray(answers[0], np.float32).reshape(len(pairs), -1)
        if logits.shape[1] > 2:
            raise BrokenModel(f"the model {self.model} has {logits.shape[1]} labels: it is not a reranker")
        return logits[:, -1] - logits[:, 0] if logits.shape[1] == 2 else logits[:, 0]


def _is_cut(pair: Encoding, text: str) -> bool:
    """Whether the end of the text, the second of the pair, is not in the encoding."""
    if not pair.overflowing:
        return False
    ends = [end for (_, end), part in zip(pair.offsets, pair.sequence_ids, strict=True) if part == 1]
    return max(ends, default=0) < len(text.rstrip())
