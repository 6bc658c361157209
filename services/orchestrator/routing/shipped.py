"""Vectors of our own examples that ship with the product, so that a start does not wait for them to be encoded."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import as_file, files
from pathlib import Path
from typing import cast

import numpy as np

from services.orchestrator.routing.encoder import Encoded, Floats

_NAME = "examples.npz"
_STEPS = 127
# A model computes a text a little differently on another processor, and in another batch.
_SAME = 0.98
_PROBES = 8


@dataclass(frozen=True)
class Shipped:
    """Vectors by the hash of their texts; they are of use only where the same model encodes the questions."""

    model: str
    vectors: Mapping[str, Floats]

    def probes(self, texts: Sequence[str]) -> list[str]:
        """A few of the texts that are known, from all over, to be encoded and shown to `agrees`."""
        known = [text for text in dict.fromkeys(texts) if hash_of(text) in self.vectors]
        return known[:: max(1, len(known) // _PROBES)][:_PROBES]

    def agrees(self, texts: Sequence[str], encoded: Encoded) -> bool:
        """Whether the service that encoded the texts gives the vectors that are known of them."""
        known = [self.vectors.get(hash_of(text)) for text in texts]
        return encoded.model == self.model and all(
            one is not None and len(one) == len(vector) and float(one @ vector) >= _SAME
            for one, vector in zip(known, encoded.vectors, strict=True)
        )

    def of(self, texts: Sequence[str]) -> Mapping[str, Floats]:
        """The vectors of those texts that are known."""
        found = {text: self.vectors.get(hash_of(text)) for text in texts}
        return {text: vector for text, vector in found.items() if vector is not None}


@cache
def committed() -> Shipped:
    """Those of the default model, made by `python -m services.orchestrator.trials.router --vectors`."""
    with as_file(files("services.orchestrator.routing").joinpath(_NAME)) as path:
        return read(path)


def read(path: Path) -> Shipped:
    """What `write` has written."""
    with np.load(path) as made:
        rows = made["steps"].astype(np.float32)
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        names: list[str] = made["hashes"].tolist()
        return Shipped(str(made["model"]), dict(zip(names, rows, strict=True)))


def write(folder: Path, texts: Sequence[str], encoded: Encoded) -> None:
    """Writes them into the package, each number in one byte."""
    largest = np.abs(encoded.vectors).max(axis=1, keepdims=True)
    steps = cast(Floats, np.round(encoded.vectors / largest * _STEPS)).astype(np.int8)
    hashes = np.array([hash_of(text) for text in texts])
    with (folder / _NAME).open("wb") as file:
        np.savez_compressed(file, model=np.array(encoded.model), hashes=hashes, steps=steps)


def hash_of(text: str) -> str:
    """What a text is known by."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]
