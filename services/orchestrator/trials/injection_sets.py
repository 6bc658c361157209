"""Labelled texts for the detector of injections, in two halves that share no document and no attack.

The development half is for learning and choosing, the test half for the table. Public sets are read from a folder that
holds them as published: bipia, bastioncorpus, agentdojo, tau2 (MIT), xquad, multihop (CC BY-SA), bfcl (Apache-2.0).
`packages` and `python` are a pinned sample (injection_handbooks.py); nothing depends on what is installed.
"""

import gzip
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal, cast

import yaml

from services.orchestrator.trials.injection_handbooks import SAMPLE

Half = Literal["dev", "test"]
_WRITTEN = Path("tests/data/injection/written")
_PASSAGE_CHARS = 1_200
_MOST_HOPS = 1_200
_SKIPPED_KEYS = {"id_", "start_time", "end_time", "timestamp", "last_modified", "date", "status"}


@dataclass(frozen=True)
class Labelled:
    """One text. `source`: the set; `group`: its document or kind; `place`: `user` where a user said it, else `data`."""

    text: str
    attack: bool
    source: str
    group: str
    half: Half
    place: Literal["user", "data"] = "data"


def _half_of(key: str) -> Half:
    return "test" if hashlib.sha256(key.encode()).digest()[0] % 2 else "dev"


def attacks(folder: Path) -> Iterator[Labelled]:
    """Public attack strings."""
    halves: Mapping[str, Half] = {"text_attack_train": "dev", "text_attack_test": "test"}
    for name, half in halves.items():
        for group, texts in cast(Mapping[str, list[str]], _json(folder / "bipia" / f"{name}.json")).items():
            yield from (Labelled(text, True, "bipia text", group, half) for text in texts)
    for group, texts in cast(Mapping[str, list[str]], _json(folder / "bipia" / "code_attack_train.json")).items():
        yield from (Labelled(text, True, "bipia code", group, _half_of(group)) for text in texts)
    yield from (one for one in _bastion(folder) if one.attack)


def _bastion(folder: Path) -> Iterator[Labelled]:
    lines = (folder / "bastioncorpus" / "injections.jsonl").read_text(encoding="utf-8").splitlines()
    for one in map(json.loads, lines):
        place = "user" if one["channel"] == "user_input" else "data"
        attack = one["label"] == "malicious"
        # By the text's beginning: several items are one sentence in two wordings.
        half = _half_of(" ".join(one["text"].lower().split()[:3]))
        text = one["text"].replace("{canary}", "CANARY-7f3a91")
        yield Labelled(text, attack, "bastioncorpus", one["category"], half, place)


def benign(folder: Path) -> Iterator[Labelled]:
    """Passages that give no orders to a model."""
    yield from (one for one in _bastion(folder) if not one.attack)
    yield from _bank(folder)
    yield from _questions_paragraphs(folder)
    yield from _hops(folder)
    yield from _environments(folder)
    yield from _handbooks()
    yield from _demo()


def _bank(folder: Path) -> Iterator[Labelled]:
    with gzip.open(folder / "tau2" / "banking_knowledge" / "documents.json.gz", "rt", encoding="utf-8") as file:
        for one in cast(Sequence[Mapping[str, str]], json.load(file)):
            yield from _cut(one["content"], "tau2", one["id"], _half_of(one["id"]))
    for path in sorted((folder / "tau2").glob("*/policy*")):
        yield from _cut(path.read_text(encoding="utf-8"), "tau2", path.parent.name, _half_of(path.parent.name))


def _questions_paragraphs(folder: Path) -> Iterator[Labelled]:
    for language in ("en", "es"):
        for article in _json(folder / "xquad" / f"xquad.{language}.json")["data"]:
            for paragraph in article["paragraphs"]:
                yield from _cut(paragraph["context"], f"xquad {language}", article["title"], _half_of(article["title"]))


def _hops(folder: Path) -> Iterator[Labelled]:
    """One set holds sentences by title, the other texts with their titles."""
    hotpot = cast(Sequence[tuple[str, Sequence[str]]], _json(folder / "multihop" / "hotpotqa_train_corpus.json"))
    listed = cast(Mapping[str, Sequence[str]], hotpot).items() if isinstance(hotpot, dict) else hotpot
    for title, said in list(listed)[:_MOST_HOPS]:
        yield from _cut("".join(said), "multihop", title, _half_of(title))
    musique = cast(Sequence[Mapping[str, str]], _json(folder / "multihop" / "musique_train_corpus.json"))
    for one in musique[:_MOST_HOPS]:
        yield from _cut(one["text"], "multihop", one["title"], _half_of(one["title"]))


def _environments(folder: Path) -> Iterator[Labelled]:
    for path in sorted((folder / "agentdojo" / "suites").rglob("*.yaml")):
        if "injection" not in path.stem:
            for text in _strings(yaml.load(path.read_text(encoding="utf-8"), Loader=yaml.BaseLoader)):
                yield from _cut(text, "agentdojo", text[:40], _half_of(text[:40]))


def _handbooks() -> Iterator[Labelled]:
    """How to install, configure and call software, of a pinned sample."""
    with gzip.open(SAMPLE, "rt", encoding="utf-8") as lines:
        for one in map(json.loads, lines):
            yield from _cut(one["text"], one["set"], one["name"], _half_of(one["name"]))


def _demo() -> Iterator[Labelled]:
    for path in sorted(Path("demo/texts").rglob("*.md")):
        yield from _cut(path.read_text(encoding="utf-8"), "demo", path.name, _half_of(path.stem))


def questions(folder: Path) -> Iterator[Labelled]:
    """What users ask of an assistant, which is their right."""
    for name in ("BFCL_v4_live_irrelevance", "BFCL_v4_live_simple", "BFCL_v4_simple_python", "BFCL_v4_multiple"):
        for number, line in enumerate((folder / "bfcl" / f"{name}.json").read_text(encoding="utf-8").splitlines()):
            for message in json.loads(line)["question"][0]:
                if message["role"] == "user":
                    yield Labelled(message["content"], False, "bfcl", name, _half_of(f"{name}{number // 10}"), "user")
    for language in ("en", "es"):
        for article in _json(folder / "xquad" / f"xquad.{language}.json")["data"]:
            for paragraph in article["paragraphs"]:
                for asked in paragraph["qas"]:
                    half = _half_of(article["title"])
                    yield Labelled(asked["question"], False, "xquad questions", article["title"], half, "user")


@dataclass(frozen=True)
class Written:
    """A passage that somebody wrote for this project. `attack`: what is planted in it, if anything; `kind`: of both."""

    text: str
    attack: str | None
    kind: str
    language: str

    @property
    def hidden(self) -> bool:
        """Whether the attack is no plain text."""
        return any(word in self.kind for word in ("hidden", "base64"))


def written() -> Iterator[Written]:
    """Of tests/data/injection/written: a development half only."""
    for path in sorted(_WRITTEN.glob("*.jsonl")):
        for one in map(json.loads, path.read_text(encoding="utf-8").splitlines()):
            yield Written(one["text"], one["attack"], one["kind"], one["language"])


def own() -> Mapping[str, Sequence[str]]:
    """Of injection_examples.yaml: `attacks`, `requests` and `talk`; for learning only."""
    text = files("services.orchestrator.trials").joinpath("injection_examples.yaml").read_text(encoding="utf-8")
    return cast(Mapping[str, Sequence[str]], yaml.safe_load(text))


def _cut(text: str, source: str, group: str, half: Half) -> Iterator[Labelled]:
    passage = ""
    for paragraph in text.split("\n\n"):
        if passage and len(passage) + len(paragraph) > _PASSAGE_CHARS:
            yield Labelled(passage, False, source, group, half)
            passage = ""
        passage += paragraph[: 3 * _PASSAGE_CHARS] + "\n\n"
    if passage.strip():
        yield Labelled(passage, False, source, group, half)


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        if len(value) > 20 and "{" not in value:
            yield value
    elif isinstance(value, dict):
        for key, one in cast(Mapping[str, Any], value).items():
            if key not in _SKIPPED_KEYS:
                yield from _strings(one)
    elif isinstance(value, list):
        for one in cast(Sequence[Any], value):
            yield from _strings(one)


def _json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))
