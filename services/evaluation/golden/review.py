"""Review by people: which items are to be looked at, and what somebody said of them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from services.evaluation.golden import lock, sets
from services.evaluation.golden.item import TEST, Item
from services.evaluation.golden.line import write
from services.evaluation.golden.sets import BrokenSet

QUEUE, REJECTED = "review.jsonl", "rejected.jsonl"

Verdict = Literal["open", "accepted", "edited", "rejected"]


class ReviewRefused(ValueError):
    """The verdict cannot be taken. The message says why."""


class Drawn(BaseModel):
    """A line of review.jsonl: an item that was drawn, and the verdict on it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: str = Field(description="Of the item.")
    verdict: Verdict = Field(default="open", description="What the reviewer decided.")
    reviewer: str = Field(default="", description="Who it was.")
    reason: str = Field(default="", description="Why it was rejected, or what was changed.")
    time: str = Field(default="", description="When, in UTC.")
    passages: list[str] = Field(default=[], description="What it was written from.")


def _now() -> datetime:
    return datetime.now(UTC)


class Review:
    """The queue of one set. Each verdict is on disk before the method returns; nothing is kept in memory only."""

    def __init__(self, folder: Path, *, clock: Callable[[], datetime] = _now) -> None:
        """Raises BrokenSet."""
        self._folder = folder
        self._clock = clock
        self.about = sets.read_about(folder)

    def drawn(self) -> list[Drawn]:
        """The queue, in its order. Raises BrokenSet."""
        path = self._folder / QUEUE
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        found: list[Drawn] = []
        for number, line in enumerate(text.split("\n"), 1):
            if line.strip():
                try:
                    found.append(Drawn.model_validate_json(line))
                except ValidationError as error:
                    raise BrokenSet(f"{path}: line {number}: {error.errors()[0]['msg']}") from None
        return found

    def draw(self, items: Sequence[Item], passages: Mapping[str, list[str]] | None = None) -> None:
        """Adds items to the queue, with what each was written from; verdicts that are there stay."""
        known = self.drawn()
        names = {one.id for one in known}
        new = [Drawn(id=one.id, passages=(passages or {}).get(one.id, [])) for one in items if one.id not in names]
        self._write([*known, *new])

    def open_items(self) -> list[tuple[Item, list[str]]]:
        """Items without a verdict in the queue's order, each with what it was written from. Raises BrokenSet.

        None of a locked test half: it would be read, and no reading noted, for a verdict that is refused.
        """
        items = {name: one for name, one in self._items().items() if not self._is_locked(one)}
        return [(items[one.id], one.passages) for one in self.drawn() if one.verdict == "open" and one.id in items]

    def accept(self, item_id: str, reviewer: str) -> None:
        """The item is right as it is. Raises ReviewRefused and BrokenSet."""
        item = self._known(item_id, reviewer)
        self._replace(item_id, replace(item, reviewer=reviewer))
        self._note(item_id, "accepted", reviewer, "")

    def edit(self, item_id: str, reviewer: str, *, question: str, reference: str | None) -> None:
        """The item is right once it says this. Raises ReviewRefused and BrokenSet."""
        item = self._known(item_id, reviewer)
        if not question.strip():
            raise ReviewRefused("a question is not empty")
        changed = replace(item, question=question.strip(), reference=reference, reviewer=reviewer)
        names = [name for name in ("question", "reference") if getattr(changed, name) != getattr(item, name)]
        self._replace(item_id, changed)
        self._note(item_id, "edited", reviewer, ", ".join(names))

    def reject(self, item_id: str, reviewer: str, reason: str) -> None:
        """Takes the item out of the set; it is kept in rejected.jsonl. Raises ReviewRefused and BrokenSet."""
        item = self._known(item_id, reviewer)
        if not reason.strip():
            raise ReviewRefused("a rejection has a reason")
        # First kept, then taken out: a crash in between leaves it in both, and the verdict open.
        path = self._folder / REJECTED
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        if (line := write(item)) not in text.split("\n"):
            sets.write_text(path, f"{text}{line}\n")
        self._replace(item_id, None)
        self._note(item_id, "rejected", reviewer, " ".join(reason.split()))

    def _items(self) -> dict[str, Item]:
        return {one.id: one for half in sets.HALVES for one in sets.read_half(self._folder, half).items}

    def _known(self, item_id: str, reviewer: str) -> Item:
        if not reviewer.strip():
            raise ReviewRefused("a review has a reviewer: say who you are")
        item = self._items().get(item_id)
        if item is None:
            raise ReviewRefused(f"there is no item `{item_id}` in {self._folder}")
        if self._is_locked(item):
            raise ReviewRefused(f"`{item_id}` is in the locked test half; raise `version` in set.yaml to change it")
        return item

    def _is_locked(self, item: Item) -> bool:
        # Raising the version says that the half is meant to change.
        return item.split == TEST and lock.locked_version(self._folder) >= sets.read_about(self._folder).version

    def _replace(self, item_id: str, item: Item | None) -> None:
        for half in sets.HALVES:
            items = sets.read_half(self._folder, half).items
            if any(one.id == item_id for one in items):
                kept = [item if one.id == item_id else one for one in items]
                sets.write_half(self._folder, half, [one for one in kept if one is not None])

    def _note(self, item_id: str, verdict: Verdict, reviewer: str, reason: str) -> None:
        time = f"{self._clock():%Y-%m-%dT%H:%M:%SZ}"
        said = {"verdict": verdict, "reviewer": reviewer.strip(), "reason": reason, "time": time}
        known = self.drawn()
        if all(one.id != item_id for one in known):
            known.append(Drawn(id=item_id))
        self._write([one.model_copy(update=said) if one.id == item_id else one for one in known])

    def _write(self, drawn: Sequence[Drawn]) -> None:
        lines = (f"{one.model_dump_json(exclude_defaults=True)}\n" for one in drawn)
        sets.write_text(self._folder / QUEUE, "".join(lines))
