"""Puts a backup back, after looking whether it is whole and whether there is room; and compares afterwards."""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from services.cli.backup import manifest as manifests
from services.cli.backup.manifest import Manifest
from services.cli.backup.part import Part, Refused

# Jobs come last: they begin to run as soon as they are there.
_LAST = ("spool", "valkey")


def whole(folder: Path) -> Manifest:
    """Reads the manifest and every file. Raises Refused for what is no whole backup."""
    manifest = manifests.read(folder)
    if damages := manifests.damages(folder, manifest):
        raise Refused(f"{folder} is damaged: {'; '.join(damages[:5])}")
    return manifest


def matched(manifest: Manifest, parts: Sequence[Part]) -> tuple[dict[str, Part], list[str]]:
    """The parts that are both saved and have a place, in the order of restoring; and those saved that have none."""
    places: Mapping[str, Part] = {part.name: part for part in parts}
    names = sorted(manifest.parts, key=lambda name: _LAST.index(name) if name in _LAST else -1)
    return {name: places[name] for name in names if name in places}, [name for name in names if name not in places]


def restore(folder: Path, parts: Sequence[Part], say: Callable[[str], None], *, replace: bool) -> list[str]:
    """What is other than it was saved, a sentence each. Raises Refused; before anything was changed, if it can be."""
    manifest = whole(folder)
    places, homeless = matched(manifest, parts)
    if not places:
        saved = ", ".join(manifest.parts)
        raise Refused(f"nothing of {folder} has a place to go: it holds {saved}; say --vector-store, --valkey-url …")
    occupied = [found for part in places.values() if (found := part.occupied())]
    if occupied and not replace:
        raise Refused(f"there is something already: {'; '.join(occupied)}. --replace puts the backup in its place")
    for name, part in places.items():
        part.restore(folder / name, manifest.parts[name].saved, replace=replace)
        say(f"{name}: restored")
    os.sync()
    for name in homeless:
        say(f"{name}: left alone, for no place was said")
    return compare(manifest, places)


def compare(manifest: Manifest, places: Mapping[str, Part]) -> list[str]:
    """What is other than it was saved, a sentence each."""
    return [one for name, part in places.items() for one in part.check(manifest.parts[name].saved)]
