"""Puts what was built into the folder of a set: halves, queue for review, report."""

from pathlib import Path

from services.evaluation.golden import lock, review, sets
from services.evaluation.golden.building.build import Built, markdown
from services.evaluation.golden.building.sampling import for_review
from services.evaluation.golden.sets import About

JOURNAL, REPORT = "build.journal.jsonl", "build-report.md"


class Taken(ValueError):
    """The folder holds a set that people have worked on. The message says what."""


def check_free(folder: Path) -> None:
    """Raises Taken when there are verdicts or a lock, which building anew would make worthless, and BrokenSet."""
    if not (folder / sets.ABOUT).exists():
        return
    if lock.locked_version(folder):
        raise Taken(f"{folder} holds a set with a locked test half; build into another folder")
    if judged := sum(one.verdict != "open" for one in review.Review(folder).drawn()):
        raise Taken(f"{folder} holds a set with {judged} reviewed items; build into another folder")


def publish(folder: Path, about: About, built: Built, *, review_share: float, seed: int) -> str:
    """Writes the set and returns the report, as Markdown. Raises Taken, BrokenSet and OSError."""
    check_free(folder)
    sets.write_about(folder, about)
    for half in sets.HALVES:
        sets.write_half(folder, half, sets.half_of(built.items, half))
    (folder / review.QUEUE).unlink(missing_ok=True)
    drawn = for_review(built.items, review_share, seed)
    review.Review(folder).draw(drawn, built.passages)
    text = markdown(built.report, len(drawn))
    sets.write_text(folder / REPORT, text)
    return text
