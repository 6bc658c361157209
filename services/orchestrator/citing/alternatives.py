"""Tells when an answer has one of a closed group where its source has another: Friday for Thursday, iron for steel."""

from collections.abc import Mapping
from functools import lru_cache
from importlib.resources import files

import yaml

from services.orchestrator.citing.alignment import Alignment
from services.orchestrator.citing.words import words

_LEAST_SHARE = 0.4


def is_another(said: str, alignment: Alignment) -> str:
    """The sentence of the source that has another of the group in the place of the answer's; or empty."""
    mine = _members(said)
    known = {one for text in alignment.sentences for one in _members(text)}
    for group in {one[0] for one in mine - known}:
        for pair in alignment.pairs:
            others = {one for one in _members(pair.place.text) if one[0] == group}
            if pair.share >= _LEAST_SHARE and len(others - mine) == 1 and not others & mine:
                return pair.place.text
    return ""


def _members(text: str) -> set[tuple[int, int]]:
    """Group and member of each word of the text that is one."""
    listed = _groups()
    return {listed[word.folded] for word in words(text) if word.folded in listed}


@lru_cache(maxsize=1)
def _groups() -> Mapping[str, tuple[int, int]]:
    text = files("services.orchestrator.citing").joinpath("alternatives.yaml").read_text(encoding="utf-8")
    return {
        word: (group, member)
        for group, members in enumerate(yaml.safe_load(text))
        for member, listed in enumerate(members)
        for word in listed.split()
    }
