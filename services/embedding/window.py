"""Cuts texts to what a model can see, with the model's own tokenizer."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tokenizers import Tokenizer

from services.embedding.encoder import Kind
from services.runtime.onnx_models import CHARACTERS_PER_TOKEN, tokenizable


@dataclass(frozen=True)
class Window:
    """The part of a text that the model sees.

    `ids` and `type_ids` are prefix and special tokens included; `own` are the places of the text's own tokens in them.
    `text` is that part as text, with its prefix.
    """

    ids: list[int]
    type_ids: list[int]
    own: list[int]
    text: str
    truncated: bool


class Windower:
    """Tokenizes texts. Safe to call from several threads."""

    def __init__(self, tokenizer: Tokenizer, prefixes: dict[Kind, str], max_tokens: int) -> None:
        """`prefixes` are what the model was trained with, such as `query: `."""
        tokenizer.no_padding()
        tokenizer.no_truncation()
        self._tokenizer = tokenizer
        self._prefixes = prefixes
        self.max_tokens = max_tokens

    @classmethod
    def load(cls, folder: Path, prefixes: dict[Kind, str], max_tokens: int) -> "Windower":
        """Reads `tokenizer.json` of a model's folder."""
        return cls(Tokenizer.from_file(str(folder / "tokenizer.json")), prefixes, max_tokens)

    def count(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each text, without prefix and special tokens."""
        encodings = self._tokenizer.encode_batch([tokenizable(text) for text in texts], add_special_tokens=False)
        return [len(one.ids) for one in encodings]

    def windows(self, texts: Sequence[str], kind: Kind) -> list[Window]:
        """One window a text, in order."""
        return [self._window(tokenizable(text), self._prefixes[kind]) for text in texts]

    def _window(self, text: str, prefix: str) -> Window:
        head = text[: CHARACTERS_PER_TOKEN * self.max_tokens]
        encoding = self._tokenizer.encode(prefix + head)
        # Each look at one of these makes a list of all tokens anew.
        ids, type_ids, offsets = encoding.ids, encoding.type_ids, encoding.offsets
        special = encoding.special_tokens_mask
        places = list(range(len(ids)))
        truncated = len(head) < len(text)
        if len(places) > self.max_tokens:
            # The closing special tokens stay, as in training.
            closing = next((n for n, mark in enumerate(reversed(special)) if not mark), 0)
            places = places[: self.max_tokens - closing] + places[len(places) - closing :]
            truncated = True
        own = [n for n, at in enumerate(places) if not special[at] and offsets[at][1] > len(prefix)]
        seen = offsets[places[own[-1]]][1] if own and truncated else len(prefix) + len(head)
        return Window(
            ids=[ids[at] for at in places],
            type_ids=[type_ids[at] for at in places],
            # A text may consist of signs that the tokenizer drops; it still has a vector.
            own=own or list(range(len(places))),
            text=(prefix + head)[:seen],
            truncated=truncated,
        )
