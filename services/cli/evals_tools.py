"""`sabueso evals tools`: how well a model calls functions, on the questions of a public leaderboard."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import Progress
from rich.table import Table

from services.cli.console import Json, complaints, fail, out, print_json
from services.cli.evals_model import model_of

if TYPE_CHECKING:
    from services.evaluation.tools.leaderboard_run import Ran, Wanted

app = typer.Typer()
_RUNS = Path(".sabueso/evals")


@app.command()
def tools(
    bfcl: Annotated[Path, typer.Option(metavar="FOLDER", help="With BFCL_v4_<category>.json and possible_answer/.")],
    model: Annotated[str, typer.Option(help="Served name; default: the gateway's first.")] = "",
    model_url: Annotated[str, typer.Option(help="OpenAI-compatible, ends in /v1; default: the gateway's.")] = "",
    model_key: Annotated[str, typer.Option(envvar="SABUESO_EVALS_MODEL_KEY", help="Key for --model-url.")] = "",
    category: Annotated[
        list[str] | None, typer.Option(help="Such as live_simple; default: all that are there.")
    ] = None,
    limit: Annotated[int, typer.Option(min=0, help="Questions of each category, spread evenly; 0: all.")] = 0,
    out_folder: Annotated[
        Path | None, typer.Option("--out", help="Folder of the run; one that is there goes on.")
    ] = None,
    concurrency: Annotated[int, typer.Option(min=1, max=64, help="Questions at the same time.")] = 4,
    max_tokens: Annotated[int, typer.Option(min=16, max=32_768, help="Of an answer.")] = 1024,
    as_json: Json = False,
) -> None:
    """Score how a model calls functions, on BFCL v4: right functions and arguments, none where none fits.

    Stopped with Ctrl-C nothing is lost: the same command with the same --out goes on. Exit status 1: it could not run,
    2: questions failed.
    """
    from services.evaluation.runs.facts import command_line
    from services.evaluation.tools.bfcl import CATEGORIES, BrokenFile
    from services.evaluation.tools.leaderboard import Questions
    from services.evaluation.tools.leaderboard_run import Wanted

    if unknown := sorted(set(category or ()) - set(CATEGORIES)):
        fail(f"There is no category {', '.join(unknown)}; there are {', '.join(CATEGORIES)}.")
    try:
        questions = Questions.read(bfcl, category or (), limit)
    except BrokenFile as error:
        fail(str(error))
    url, key, name = model_of(model_url, model_key, model)
    folder = out_folder or _RUNS / f"bfcl-{datetime.now(UTC):%Y%m%d-%H%M%S}"
    ran = _ran(Wanted(questions, folder, url, key, name, concurrency, max_tokens, command_line()))
    if as_json:
        print_json(ran.facts)
    else:
        _show(ran)
    complaints.print(f"report: {ran.report}", markup=False, soft_wrap=True)
    if ran.failed:
        raise typer.Exit(2)


def _ran(wanted: "Wanted") -> "Ran":
    from services.evaluation.runs.folder import BrokenRun
    from services.evaluation.tools.leaderboard_run import NobodyThere, run

    with Progress(console=complaints, transient=True) as bar:
        task = bar.add_task("asked", total=len(wanted.questions.all))
        try:
            return asyncio.run(run(wanted, lambda done, of: bar.update(task, completed=done, total=of)))
        except (BrokenRun, NobodyThere, OSError) as error:
            fail(str(error))
        except KeyboardInterrupt:
            complaints.print(f"What was answered is in {wanted.folder}; --out {wanted.folder} goes on.", soft_wrap=True)
            raise


def _show(ran: "Ran") -> None:
    from services.evaluation.tools.leaderboard_report import COLUMNS, rows

    table = Table(box=None)
    for column in COLUMNS:
        # Figures may go to the next line on a narrow terminal, names are never cut.
        table.add_column(column, no_wrap=not table.columns)
    for row in rows(ran.figures):
        table.add_row(*row)
    out.print(table)
    for question, reason in ran.failed[:5]:
        complaints.print(f"{question}: {reason}", markup=False, soft_wrap=True)
    if len(ran.failed) > 5:
        complaints.print(f"… and {len(ran.failed) - 5} more failed.")
