"""A golden set on disk: a folder with set.yaml, dev.jsonl and test.jsonl. The test half is opened by `lock` only."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import yaml
from pydantic import BaseModel, ConfigDict, Field

from services.evaluation.golden.item import DEV, TEST, Item
from services.evaluation.golden.line import SCHEMA_VERSION, WrongLine, fingerprint, parse_all, write_all
from services.runtime import yaml_files

ABOUT = "set.yaml"


class BrokenSet(ValueError):
    """A set that cannot be used. The message names the file and what is wrong with it."""


class About(BaseModel):
    """set.yaml: what a set is, and who made it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(pattern=r"^[a-z0-9-]+$", description="Of the set; in reports.")
    version: int = Field(ge=1, description="Raised with every change of an item.")
    schema_version: int = Field(default=SCHEMA_VERSION, ge=1, le=SCHEMA_VERSION, description="Of the lines.")
    licence: str = Field(min_length=1, description="SPDX identifier of the items' texts.")
    languages: list[str] = Field(min_length=1, description="Of the questions.")
    made_by: str = Field(min_length=1, description="Who or what wrote it.")
    description: str = Field(default="", description="What it asks about, and what it does not.")
    asked_on: str = Field(default="", description="Day on which relative dates are meant; empty: there are none.")


@dataclass(frozen=True)
class GoldenSet:
    """Items of one half, or of several, with what set.yaml says of them."""

    about: About
    items: tuple[Item, ...]

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the items, in hex digits."""
        return fingerprint(self.items)


def read(folder: Path) -> GoldenSet:
    """The development half. Raises BrokenSet."""
    return read_half(folder, DEV)


def read_half(folder: Path, half: str) -> GoldenSet:
    """One half as it is on disk, without the lock: for `lock`, and for whoever writes the set. Raises BrokenSet."""
    about = read_about(folder)
    path = folder / f"{half}.jsonl"
    try:
        items = parse_all(path.read_text(encoding="utf-8")) if path.exists() or half == DEV else []
    except (OSError, UnicodeDecodeError, WrongLine) as error:
        raise BrokenSet(f"{path}: {error}") from None
    for item in items:
        if item.split != half:
            raise BrokenSet(f"{path}: `{item.id}` says split {item.split}")
        if item.language not in about.languages:
            raise BrokenSet(f"{path}: `{item.id}` is in {item.language}, which {ABOUT} does not name")
    return GoldenSet(about, tuple(items))


def read_about(folder: Path) -> About:
    """What set.yaml says. Raises BrokenSet."""
    try:
        return yaml_files.read(folder / ABOUT, About)
    except (OSError, yaml_files.WrongYaml) as error:
        raise BrokenSet(f"{folder / ABOUT}: {error}") from None


def write_half(folder: Path, half: str, items: Sequence[Item]) -> None:
    """Replaces a half in one step; a reader sees the old one or the new one."""
    written = [replace(one, split=half) for one in items]
    write_text(folder / f"{half}.jsonl", write_all(written))


def write_about(folder: Path, about: About) -> None:
    """Writes set.yaml."""
    folder.mkdir(parents=True, exist_ok=True)
    form = about.model_dump(mode="json", exclude_defaults=True) | {"schema_version": about.schema_version}
    text = yaml.safe_dump(form, allow_unicode=True, sort_keys=False, width=110)  # pyright: ignore[reportUnknownMemberType]
    write_text(folder / ABOUT, text)


def write_text(path: Path, text: str) -> None:
    """Writes a file so that a crash leaves either the old content or the new one, and both on disk."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    with part.open("w", encoding="utf-8", newline="\n") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)


def half_of(items: Sequence[Item], half: str) -> list[Item]:
    """Those of a half."""
    return [one for one in items if one.split == half]


HALVES = (DEV, TEST)
