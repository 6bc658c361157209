"""Makes answers from pairs of sentences that say the contrary of each other: one is what the source says."""

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from services.orchestrator.results import Source
from services.orchestrator.trials.citation_cases import Case
from services.orchestrator.trials.citation_claims import read_sources

_DISTRACTORS, _SENTENCES = 2, 3
WHOLE = "whole answer"


@dataclass(frozen=True)
class Pair:
    """Two sentences about one source. `kind`: in what they differ, such as `bound` or `role`."""

    source: str
    language: str
    kind: str
    right: str
    wrong: str


def paired_cases(folder: Path, *, test: bool, seed: int = 20) -> list[Case]:
    """For each pair of `folder`, the right and the wrong answer; and answers of several sentences with one wrong."""
    sources = read_sources(folder)
    pairs = [Pair(**json.loads(line)) for line in (folder / "pairs.jsonl").read_text(encoding="utf-8").splitlines()]
    return [*_single(pairs, sources, seed, test), *_whole(pairs, sources, seed, test)]


def _single(pairs: Sequence[Pair], sources: Mapping[str, Source], seed: int, test: bool) -> Iterator[Case]:
    for one in pairs:
        mark, found = _among_others(one.source, sources, random.Random(f"{seed} {one.right}"))
        for right, text in ((True, one.right), (False, one.wrong)):
            yield Case(right, one.kind, one.language, test, f"{text.rstrip('.')} [{mark}].", found)


def _whole(pairs: Sequence[Pair], sources: Mapping[str, Source], seed: int, test: bool) -> Iterator[Case]:
    """Answers of some sentences about one source."""
    groups: dict[tuple[str, str], list[Pair]] = {}
    for one in pairs:
        groups.setdefault((one.source, one.language), []).append(one)
    for (source, language), mine in groups.items():
        dice = random.Random(f"{seed} {source} {language}")
        dice.shuffle(mine)
        for start in range(0, len(mine) - _SENTENCES + 1, _SENTENCES):
            mark, found = _among_others(source, sources, dice)
            chosen = mine[start : start + _SENTENCES]
            at = dice.randrange(_SENTENCES)
            right = [one.right for one in chosen]
            wrong = [*right[:at], chosen[at].wrong, *right[at + 1 :]]
            for texts, planted in ((right, ""), (wrong, chosen[at].wrong)):
                answer = " ".join(f"{text.rstrip('.')} [{mark}]." for text in texts)
                yield Case(not planted, WHOLE, language, test, answer, found, planted)


def _among_others(source: str, sources: Mapping[str, Source], dice: random.Random) -> tuple[int, tuple[Source, ...]]:
    """The source's mark, and sources in which it stands among others."""
    ids = [source, *dice.sample([one for one in sources if one != source], _DISTRACTORS)]
    dice.shuffle(ids)
    return ids.index(source) + 1, tuple(sources[one] for one in ids)
