"""What the detector of injections learns from: the development halves of public sets, and our own, as features."""

import hashlib
import random
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from services.orchestrator.trials import injection_sets as sets
from services.orchestrator.trials.injection_grammar import sentences_of
from services.orchestrator.trials.injection_planting import own_planted, part_of, planted
from services.runtime.recognition.injections.reading import read

# Parts that are learnt from in turn, and judged by what the others taught.
FOLDS = 5
# So many texts are made of each template; attacks are planted in so many carriers each, and a part of our own.
_A_TEMPLATE, _PLANTED, _OWN_SHARE = 5, {"planted": 3, "natural": 4}, 0.4
_PLANTED_OTHERS = 2
_SEED = 3
# What strangers plant counts for more than a template's choices, and so do calm texts that bid.
_COUNTS = {"planted": 3.0, "natural": 3.0}
_CALM_COUNTS = 4.0
_OWN = ("injection_planted.yaml", "injection_natural.yaml")
# Of what is planted, so much is in a short passage; of benign passages, so many are learnt from as short ones too.
_SHORT, _PARTS = 0.5, 0.4
# And so much stands among what is asked of people.
_AMONG_CALLS = 0.2
_ORDERS = ("to the machine", "false turns", "rules turned", "deeds")
_KIND_OF = dict.fromkeys(
    ("change the tone", "recommend a product", "conditional trigger", "table cell", "e-mail signature", "multi-step"),
    "reply",
) | {"unrelated request": "task"}
_REPLIES = ("shape of the answer", "slipped in")


@dataclass(frozen=True)
class Example:
    """A text as its sentences: features of the words, and of the surroundings.

    `kind`: `order`, `reply`, `task`, `calm`, or `user` for what users rightly ask. `group`: its document, or its kind
    of attack. `inside`: it is planted in another text, and only its own sentences are here. `counts`: its weight.
    """

    kind: str
    source: str
    group: str
    sentences: Sequence[tuple[Sequence[str], Sequence[str]]]
    inside: bool = False
    counts: float = 1.0

    @property
    def fold(self) -> int:
        """Which of the folds its group is in."""
        return fold_of(self.group)

    @property
    def attack(self) -> bool:
        """Whether it is to be found."""
        return self.kind not in ("calm", "user")

    @property
    def plain_question(self) -> bool:
        """Whether it could be a heading of any list of questions: it is no use to learn such as attacks."""
        first = self.sentences[0] if self.sentences and not self.inside else ((), ())
        return "alone:asks" in first[1] and "can>you" not in first[0]


def fold_of(group: str) -> int:
    """Which of the folds a group is in."""
    return hashlib.sha256(group.encode()).digest()[1] % FOLDS


def examples(folder: Path) -> Iterator[Example]:
    """All of the development half, and our own; attacks by themselves and planted."""
    draw = random.Random(_SEED)
    carriers: dict[int, list[str]] = defaultdict(list)
    calls: dict[int, list[str]] = defaultdict(list)
    for one in (*sets.benign(folder), *sets.questions(folder)):
        if one.half == "dev":
            calm = one.place == "data"
            yield _example(one.text, "calm" if calm else "user", one.source, one.group)
            if calm and one.source != "bastioncorpus":
                carriers[fold_of(one.group)].append(one.text)
    yield from (_example(text, "calm", "own", text) for text in sets.own()["talk"])
    yield from (_example(text, "calm", "own", template) for template, text in sentences_of("procedures"))
    for source, text in _own_calm():
        yield _example(text, "calm", source, text, counts=_CALM_COUNTS)
        if source == "own passages":
            calls[fold_of(text)].append(text)
    for some in carriers.values():
        yield from (_example(part_of(one, draw), "calm", "parts", one) for one in some if draw.random() < _PARTS)
    yield from _written()
    for text, kind, source, group in _attacks(folder):
        counts = _COUNTS.get(source, 1.0)
        alone = _example(text, kind, source, group, counts=counts)
        yield alone
        if source != "own" or draw.random() < _OWN_SHARE:
            for _ in range(_PLANTED.get(source, _PLANTED_OTHERS)):
                carrier = draw.choice((calls if draw.random() < _AMONG_CALLS else carriers)[alone.fold])
                whole, start, end = planted(text, part_of(carrier, draw) if draw.random() < _SHORT else carrier, draw)
                yield _example(whole, alone.kind, source, group, (start, end), counts)


def _own_calm() -> Iterator[tuple[str, str]]:
    """(set, text)."""
    for name in _OWN:
        for kind, text in own_planted(name)[1]:
            yield "own notes" if kind.startswith("notes") else "own passages", text


def _written() -> Iterator[Example]:
    """Whole passages as people wrote them, with what is planted in them."""
    for one in sets.written():
        if one.attack is None:
            yield _example(one.text, "calm", "written", one.text, counts=_CALM_COUNTS)
        elif not one.hidden:
            start = one.text.index(one.attack)
            within = start, start + len(one.attack)
            yield _example(one.text, _KIND_OF.get(one.kind, "order"), "written", one.text, within, _COUNTS["natural"])


def _attacks(folder: Path) -> Iterator[tuple[str, str, str, str]]:
    """(text, kind or nothing, set, group)."""
    for one in sets.attacks(folder):
        if one.half == "dev":
            yield one.text, "order" if one.source == "bastioncorpus" else "", one.source, one.group
    for name, kind in (("attacks", "order"), ("requests", "")):
        yield from ((text, kind, "own", text) for text in sets.own()[name])
        yield from ((text, kind, "own", template) for template, text in sentences_of(name, _A_TEMPLATE))
    for group, text in own_planted(_OWN[0])[0]:
        kind = "order" if group in _ORDERS else "reply" if group in _REPLIES else "task"
        yield text, kind, "planted", text
    for group, text in own_planted(_OWN[1])[0]:
        yield text, group.split()[0], "natural", text


def _example(
    text: str, kind: str, source: str, group: str, within: tuple[int, int] | None = None, counts: float = 1.0
) -> Example:
    start, end = within or (0, len(text))
    found = [(one.found, around) for one, around in read(text) if one.start < end and one.end > start]
    said = {name for words, _ in found[:2] for name in words}
    return Example(
        kind or ("reply" if said & {"reply", "code"} else "task"), source, group, found, within is not None, counts
    )


def shares(known: Sequence[Example], blamed: Sequence[bool]) -> Mapping[str, float]:
    """Of each set, what is blamed."""
    found: dict[str, list[bool]] = defaultdict(list)
    for one, is_blamed in zip(known, blamed, strict=True):
        side = "planted" if one.inside else "attack" if one.attack else one.kind
        found[f"{side} {one.source}"].append(is_blamed)
        if not one.source.startswith(("own", "planted", "natural", "parts", "written")):
            found[f"{side} all"].append(is_blamed)
    return {name: round(sum(some) / len(some), 4) for name, some in sorted(found.items())}
