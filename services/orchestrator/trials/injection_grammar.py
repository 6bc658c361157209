"""Fills in the templates of injection_grammar.yaml, the same way each time."""

import random
import re
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from typing import Any

import yaml

_SLOT = re.compile(r"\{(\w+)\}")


def sentences_of(kind: str, a_template: int = 12, seed: int = 6) -> Iterator[tuple[str, str]]:
    """(template, sentence) of `attacks`, `requests` or `procedures`; `a_template`: at most, of each."""
    text = files("services.orchestrator.trials").joinpath("injection_grammar.yaml").read_text(encoding="utf-8")
    grammar: Any = yaml.safe_load(text)
    draw = random.Random(seed)
    for template in grammar[kind]:
        made = (_filled(template, grammar["slots"], draw) for _ in range(a_template))
        yield from ((template, one[:1].upper() + one[1:]) for one in dict.fromkeys(made))


def _filled(template: str, slots: Mapping[str, Sequence[str]], draw: random.Random) -> str:
    while _SLOT.search(template):
        template = _SLOT.sub(lambda slot: draw.choice(slots[slot[1]]), template)
    return template
