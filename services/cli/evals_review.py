"""`sabueso evals review`: people look at questions that were drawn, and say what they think of each."""

import getpass
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from services.cli.console import Json, fail, out, print_json
from services.cli.evals_review_card import card, progress

if TYPE_CHECKING:
    from services.evaluation.golden.item import Item
    from services.evaluation.golden.review import Review

_KEYS = "[a]ccept  [e]dit  [r]eject  {more}[s]kip  [q]uit"
_MORE = "[m]ore of the passages  "
_SITTING = 25


def review(
    folder: Annotated[Path, typer.Argument(help="Folder of the set.")],
    reviewer: Annotated[str, typer.Option(help="Who you are; noted with each verdict.")] = "",
    draw: Annotated[float, typer.Option(min=0, max=1, help="First draw this share of the development half.")] = 0,
    language: Annotated[str, typer.Option(help="Only items in this language, such as es.")] = "",
    limit: Annotated[int, typer.Option(min=1, max=500, help="Items in this sitting, at most.")] = _SITTING,
    accept: Annotated[str, typer.Option(metavar="ID", help="Accept an item, without asking.")] = "",
    reject: Annotated[str, typer.Option(metavar="ID", help="Reject an item, without asking; needs --why.")] = "",
    why: Annotated[str, typer.Option(help="Reason of --reject.")] = "",
    as_json: Json = False,
) -> None:
    """Look at the items that were drawn: accept, edit, or reject each with a reason.

    Every verdict is written at once, so stopping loses nothing. With --json the open items are printed instead.
    """
    from services.evaluation.golden import sets
    from services.evaluation.golden.building.sampling import for_review
    from services.evaluation.golden.review import Review, ReviewRefused
    from services.evaluation.golden.sets import BrokenSet

    try:
        queue = Review(folder)
        if draw:
            queue.draw(for_review(sets.read(folder).items, draw, queue.about.version))
        if accept:
            queue.accept(accept, reviewer)
        if reject:
            queue.reject(reject, reviewer, why)
        if as_json:
            return print_json(_queue(queue))
        if not (accept or reject):
            wanted = [one for one in queue.open_items() if language in ("", one[0].language)]
            _ask_all(queue, wanted[:limit], reviewer or getpass.getuser())
        _say_queue(queue)
    except (BrokenSet, ReviewRefused, OSError) as error:
        fail(str(error))
    return None


def _queue(queue: "Review") -> dict[str, Any]:
    drawn = queue.drawn()
    items = [
        {
            "id": item.id,
            "question": item.question,
            "reference": item.reference,
            "language": item.language,
            "stratum": item.stratum.value,
            "sources": list(item.sources),
            "calls": [call.tool for call in item.calls],
            "passages": passages,
        }
        for item, passages in queue.open_items()
    ]
    verdicts = [one.model_dump(exclude={"passages"}) for one in drawn if one.verdict != "open"]
    return {"set": queue.about.name, "open": items, "verdicts": verdicts}


def _ask_all(queue: "Review", found: "Sequence[tuple[Item, list[str]]]", reviewer: str) -> None:
    for number, (item, passages) in enumerate(found, 1):
        out.print(progress(number, len(found)))
        out.print(card(item, passages))
        if not _judged(queue, item, passages, reviewer):
            return


def _judged(queue: "Review", item: "Item", passages: list[str], reviewer: str) -> bool:
    """Asks until there is a verdict, or none wanted; whether the next item is to be shown."""
    while True:
        out.print(_KEYS.format(more=_MORE if passages else ""), style="dim", markup=False)
        match typer.prompt("Verdict", default="s").strip().lower()[:1]:
            case "a":
                queue.accept(item.id, reviewer)
            case "e":
                question = typer.prompt("Question", default=item.question)
                reference = typer.prompt("Right answer", default=item.reference or "") or None
                queue.edit(item.id, reviewer, question=question, reference=reference)
            case "r":
                queue.reject(item.id, reviewer, typer.prompt("Why"))
            case "m" if passages:
                out.print(card(item, passages, whole=True))
                continue
            case "q":
                return False
            case "s":
                pass
            case _:
                continue
        return True


def _say_queue(queue: "Review") -> None:
    verdicts = [one.verdict for one in queue.drawn()]
    told = ", ".join(f"{verdicts.count(one)} {one}" for one in ("open", "accepted", "edited", "rejected"))
    out.print(f"{queue.about.name}: {told}.")
