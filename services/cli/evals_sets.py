"""`sabueso evals build|review|check|lock|power`: golden sets, from having them written to freezing their test half."""

import getpass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Group
from rich.markdown import Markdown
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from services.cli.console import Json, complaints, fail, out, print_json
from services.cli.evals_build import build

if TYPE_CHECKING:
    from services.evaluation.golden.item import Item
    from services.evaluation.golden.review import Review

app = typer.Typer(no_args_is_help=True, help="Golden sets: questions with right answers, to evaluate with.")
app.command()(build)

Folder = Annotated[Path, typer.Argument(help="Folder of the set.")]
Reviewer = Annotated[str, typer.Option(help="Who you are; noted with each verdict.")]


@app.command()
def review(
    folder: Folder,
    reviewer: Reviewer = "",
    draw: Annotated[float, typer.Option(min=0, max=1, help="First draw this share of the development half.")] = 0,
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
            _ask_all(queue, reviewer or getpass.getuser())
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
            "passages": passages,
        }
        for item, passages in queue.open_items()
    ]
    verdicts = [one.model_dump(exclude={"passages"}) for one in drawn if one.verdict != "open"]
    return {"set": queue.about.name, "open": items, "verdicts": verdicts}


def _ask_all(queue: "Review", reviewer: str) -> None:
    found = queue.open_items()
    for number, (item, passages) in enumerate(found, 1):
        out.print(_panel(item, passages, f"{number} of {len(found)}"))
        match typer.prompt("[a]ccept, [e]dit, [r]eject, [s]kip, [q]uit", default="s").strip().lower()[:1]:
            case "a":
                queue.accept(item.id, reviewer)
            case "e":
                question = typer.prompt("Question", default=item.question)
                reference = typer.prompt("Right answer", default=item.reference or "") or None
                queue.edit(item.id, reviewer, question=question, reference=reference)
            case "r":
                queue.reject(item.id, reviewer, typer.prompt("Why"))
            case "q":
                return
            case _:
                pass


def _panel(item: "Item", passages: list[str], place: str) -> Panel:
    parts = [
        Text(item.question, style="bold"),
        Text(""),
        Text(item.reference if item.reference is not None else "(right is a refusal)", style="green"),
    ]
    for passage in passages:
        parts += [Text(""), Text(passage.strip(), style="dim")]
    sources = ", ".join(item.sources or item.made_from) or "no source"
    return Panel(Group(*parts), title=f"{place} · {item.stratum.value} · {item.language}", subtitle=sources)


def _say_queue(queue: "Review") -> None:
    verdicts = [one.verdict for one in queue.drawn()]
    told = ", ".join(f"{verdicts.count(one)} {one}" for one in ("open", "accepted", "edited", "rejected"))
    out.print(f"{queue.about.name}: {told}.")


@app.command()
def check(
    folders: Annotated[list[Path], typer.Argument(metavar="SET...", help="Folders of sets.")], as_json: Json = False
) -> None:
    """Check that sets can be used: fields, halves apart, test half as it was locked. Exit status 1: one cannot."""
    from services.evaluation.golden import checking

    found = [checking.checked(one) for one in folders]
    if as_json:
        print_json({"sets": [one.facts() for one in found]})
    else:
        table = Table("set", "version", "dev", "test", "strata", "reviewed", "test half", box=None)
        for one in found:
            strata = ", ".join(f"{name} {count}" for name, count in one.strata.items())
            table.add_row(one.name, str(one.version), str(one.dev), str(one.test), strata, one.reviewed, one.lock)
        out.print(table)
    for complaint in (one.complaint for one in found if one.complaint):
        complaints.print(complaint, markup=False, soft_wrap=True)
    if any(one.complaint for one in found):
        raise typer.Exit(1)


@app.command()
def lock(folder: Folder, as_json: Json = False) -> None:
    """Freeze the test half: from now on each reading is noted, and a changed one is refused."""
    from services.evaluation.golden import lock as locking
    from services.evaluation.golden.sets import BrokenSet

    try:
        made = locking.lock(folder)
        readings = locking.readings(folder)
    except (BrokenSet, locking.ReadingRefused, OSError) as error:
        fail(str(error))
    if as_json:
        print_json({**made.model_dump(), "readings": [vars(one) for one in readings]})
        return
    out.print(
        f"Version {made.version}: {made.item_count} items, locked on {made.locked_on}, read {len(readings)} times."
    )
    for one in readings:
        out.print(f"  {one.time}  {one.reader}: {one.reason}", markup=False, soft_wrap=True)


@app.command()
def power(
    pairs: Annotated[int, typer.Option(min=0, help="Questions that there are; 0: a table for several numbers.")] = 0,
    difference: Annotated[float, typer.Option(min=0, max=1, help="Of two shares, that should show.")] = 0.05,
    discordant: Annotated[float, typer.Option(min=0, max=1, help="Questions that only one of two gets right.")] = 0.2,
    as_json: Json = False,
) -> None:
    """How many questions show which difference, where two configurations answer the same ones."""
    from services.evaluation.golden import power as powers

    try:
        facts = {
            "difference": difference,
            "discordant": discordant,
            "pairs_needed": powers.pairs_for_shares(difference, discordant),
            **({"power": powers.power_for_shares(pairs, difference, discordant)} if pairs else {}),
            **({"least_difference": powers.least_difference(pairs, discordant)} if pairs else {}),
        }
    except ValueError as error:
        fail(str(error))
    if as_json:
        print_json(facts)
    elif pairs:
        out.print(
            f"{pairs} pairs show a difference of {difference:.2f} with probability {facts['power']:.2f}; "
            f"with 0.80 one of {facts['least_difference']:.3f}. For {difference:.2f}: {facts['pairs_needed']:,} pairs."
        )
    else:
        out.print(Markdown(powers.table()))
