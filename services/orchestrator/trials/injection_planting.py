"""Plants attacks in other texts, the same way each time, and says which sentences are theirs."""

import random
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

import yaml

from services.runtime.recognition.injections.sentences import sentences

# What of them begins with the attack, and what begins or ends with it.
_FIRST, _AT_THE_ENDS = 0.2, 0.5
# Sentences of a short passage.
_FEW = (2, 6)
_SEPARATORS = (" ", "\n", "\n\n")


def planted(attack: str, carrier: str, draw: random.Random) -> tuple[str, int, int]:
    """(text, start, end): the attack between two sentences of the carrier, before or after all of them."""
    ends = [0, *(end for _, end in sentences(carrier))]
    chance = draw.random()
    at = ends[0] if chance < _FIRST else ends[-1] if chance < _AT_THE_ENDS else draw.choice(ends)
    between = draw.choice(_SEPARATORS)
    before = carrier[:at].rstrip() + (between if at else "")
    return f"{before}{attack}{between}{carrier[at:].lstrip()}", len(before), len(before) + len(attack)


def part_of(carrier: str, draw: random.Random) -> str:
    """A few sentences of it that follow each other, as short passages are."""
    spans = list(sentences(carrier))
    count = draw.randint(*_FEW)
    first = draw.randrange(max(1, len(spans) - count + 1))
    some = spans[first : first + count]
    return carrier[some[0][0] : some[-1][1]].strip() if some else carrier


def own_planted(name: str) -> tuple[Sequence[tuple[str, str]], Sequence[tuple[str, str]]]:
    """(kind, text) of attacks and of calm texts in `injection_planted.yaml` or the like; for learning only."""
    text = files("services.orchestrator.trials").joinpath(name).read_text(encoding="utf-8")
    listed: Any = yaml.safe_load(text)
    attacks, calm = (
        [(kind, one) for kind, some in listed[side].items() for one in some] for side in ("attacks", "calm")
    )
    return attacks, calm
