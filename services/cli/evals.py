"""`sabueso evals run|report|compare|gate|baseline`: golden sets asked of a running stack, and what comes of it."""

import asyncio
import getpass
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.table import Table

from services.cli import evals_sets, evals_tools
from services.cli.config import Settings
from services.cli.console import Json, complaints, fail, out, print_json
from services.cli.evals_shown import compared_facts, facts, lost, show, show_compared

if TYPE_CHECKING:
    from services.evaluation.runs.command import JudgeChoice, Wanted
    from services.evaluation.runs.run import Finished
    from services.evaluation.runs.variant import Variant

app = typer.Typer(no_args_is_help=True, help="Evaluate: golden sets, runs, reports, the gate.")
app.registered_commands += [*evals_sets.app.registered_commands, *evals_tools.app.registered_commands]

Set = Annotated[Path, typer.Argument(metavar="SET", help="Folder of the golden set.")]
RunOf = Annotated[Path, typer.Argument(metavar="RUN", help="Folder of the run.")]
Of = Annotated[Path, typer.Option("--set", metavar="SET", help="Folder of the golden set that the run asked.")]
_RUNS = Path(".sabueso/evals")
_WORSE = 1


@app.command()
def run(
    golden: Set,
    variant: Annotated[
        list[str] | None,
        typer.Option(help="`name: key=value …`, such as `plan: strategy=plan`; the first is what it is about."),
    ] = None,
    out_folder: Annotated[
        Path | None, typer.Option("--out", help="Folder of the run; one that is there goes on.")
    ] = None,
    half: Annotated[Literal["dev", "test"], typer.Option(help="test needs --reason, and is noted.")] = "dev",
    reason: Annotated[str, typer.Option(help="Why the test half is read.")] = "",
    baselines: Annotated[bool, typer.Option(help="Ask the trivial baselines too.")] = True,
    noise: Annotated[int, typer.Option(min=0, help="Irrelevant passages to mix in, for noise sensitivity.")] = 0,
    metric: Annotated[list[str] | None, typer.Option(help="Only these; default: all that can be had.")] = None,
    judge: Annotated[
        Literal["auto", "none", "lexical", "model"],
        typer.Option(help="auto: the model of SABUESO_JUDGE_URL, or none. lexical: a stand-in that compares words."),
    ] = "auto",
    judge_url: Annotated[str, typer.Option(envvar="SABUESO_JUDGE_URL", help="OpenAI-compatible, ends in /v1.")] = "",
    judge_name: Annotated[str, typer.Option(envvar="SABUESO_JUDGE_NAME", help="Model that judges.")] = "",
    judge_key: Annotated[str, typer.Option(envvar="SABUESO_JUDGE_API_KEY", help="Its key.")] = "none",
    judge_cache: Annotated[
        str, typer.Option(envvar="SABUESO_JUDGE_CACHE", help="Folder or DSN that keeps its answers.")
    ] = "",
    judge_calls: Annotated[int, typer.Option(min=0, help="Most calls of the judge; 0: any number.")] = 0,
    limit: Annotated[int, typer.Option(min=0, help="Only the first so many questions; 0: all.")] = 0,
    concurrency: Annotated[int, typer.Option(min=1, max=64, help="Questions at the same time.")] = 4,
    seed: Annotated[int, typer.Option(help="Of what is drawn.")] = 7,
    database: Annotated[str, typer.Option(envvar="SABUESO_EVALS_DATABASE", help="DSN to compare SQL by rows.")] = "",
    store: Annotated[str, typer.Option(envvar="SABUESO_EVALS_STORE", help="DSN to keep results in, too.")] = "",
    tenant: Annotated[str, typer.Option(help="Whose results they are, with --store.")] = "default",
    gate_file: Annotated[
        Path | None, typer.Option("--gate", metavar="BASELINE", help="Pass through the gate at the end, too.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Ask a golden set of the stack, score the answers, write a report.

    Stopped with Ctrl-C nothing is lost: the same command with the same --out goes on. Exit status 1: it could not run,
    or the gate is shut; 2: questions failed (the report names them), or more than 5 % of a metric's values are missing
    because the judge failed or its budget was used up.
    """
    from services.evaluation.runs.facts import command_line

    wanted = _wanted(
        golden, out_folder or _RUNS / f"{golden.name}-{datetime.now(UTC):%Y%m%d-%H%M%S}", _variants(variant)
    )
    wanted = _with(
        wanted,
        half=half,
        reason=reason,
        reader=getpass.getuser(),
        with_baselines=baselines,
        noise=noise,
        metrics=tuple(metric or ()),
        judge=_judge(judge, judge_url, judge_name, judge_key, judge_calls, judge_cache or store),
        limit=limit,
        concurrency=concurrency,
        seed=seed,
        database=database,
        command=command_line(),
    )
    finished = _ran(wanted)
    _reported(finished)
    if store:
        _kept(store, tenant, finished)
    if as_json:
        print_json(facts(finished))
    else:
        show(finished)
    for line in (missing := lost(finished)):
        complaints.print(line, markup=False, soft_wrap=True)
    if gate_file:
        _gated(finished, gate_file, tolerance=0.0, as_json=False)
    if missing or any(one.answered is None for one in finished.records):
        raise typer.Exit(2)


@app.command()
def report(folder: RunOf, golden: Of) -> None:
    """Write report.html and report.md of a run anew, into its folder."""
    _reported(_opened(folder, golden))


@app.command()
def compare(
    folder: RunOf,
    golden: Of,
    other: Annotated[Path | None, typer.Option(help="Folder of a second run; default: variants of the first.")] = None,
    first: Annotated[str, typer.Option(help="Variant that is compared with; default: the first of all.")] = "",
    second: Annotated[str, typer.Option(help="Variant that is judged; default: the second, or that of --other.")] = "",
    as_json: Json = False,
) -> None:
    """Say of each metric whether the second is better, worse, or not shown to be either, on the same questions."""
    from services.evaluation.runs.baseline import reworded
    from services.evaluation.runs.compare import compare as compared_of
    from services.evaluation.runs.compare import families_of
    from services.evaluation.runs.deterministic import ARGUMENTS
    from services.evaluation.runs.record import by_variant

    one, two = _opened(folder, golden), _opened(other, golden) if other else None
    names = [each.name for each in one.variants]
    others = [each.name for each in two.variants] if two else names[1:]
    first, second = first or names[0], second or (others[0] if others else "")
    before, after = by_variant(one.scored), by_variant((two or one).scored)
    if two is not None and one.judge != two.judge:
        fail(f"One run was judged by {one.judge or 'nobody'}, the other by {two.judge or 'nobody'}.")
    if two is not None and (changed := reworded(one.prompts, two.prompts)):
        fail(f"The judge's prompts were others in the second run: {', '.join(changed)}.")
    if first not in before or second not in after:
        fail(f"There are the variants {', '.join(names)}{', and ' + ', '.join(others) if two else ''}.")
    if two is not None and one.statements != two.statements and before[first].pop(ARGUMENTS, None) is not None:
        why = f"statements were {one.statements} in one run and {two.statements} in the other"
        complaints.print(f"{ARGUMENTS} is not compared: {why}.", soft_wrap=True)
    found = compared_of(before[first], after[second], families_of(one.items))
    if as_json:
        return print_json(
            {"first": first, "second": second, "metrics": [compared_facts(each, one.half) for each in found]}
        )
    show_compared(first, second, found)
    return None


@app.command()
def baseline(folder: RunOf, golden: Of, file: Annotated[Path, typer.Option("--to", help="File to write.")]) -> None:
    """Make the scores of a run the baseline of the gate."""
    from services.evaluation.runs.baseline import baseline_of

    finished = _opened(folder, golden)
    baseline_of(finished.origin, finished.scored, finished.answered).write(file)
    out.print(f"{file}: {len(finished.items)} questions, variants {', '.join(finished.answered)}.", soft_wrap=True)


@app.command()
def gate(
    folder: RunOf,
    golden: Of,
    file: Annotated[Path, typer.Option("--baseline", help="As `baseline` wrote it.")],
    tolerance: Annotated[float, typer.Option(min=0, max=1, help="A drop that passes though it is shown.")] = 0.0,
    as_json: Json = False,
) -> None:
    """Compare a run with the committed baseline. Exit status 1: something is shown to be worse, or went missing."""
    _gated(_opened(folder, golden), file, tolerance=tolerance, as_json=as_json)


def _gated(finished: "Finished", file: Path, *, tolerance: float, as_json: bool) -> None:
    from services.evaluation.runs.baseline import Baseline, BrokenBaseline
    from services.evaluation.runs.compare import families_of
    from services.evaluation.runs.gate import check

    try:
        found = check(Baseline.read(file), finished.current, families_of(finished.items), tolerance=tolerance)
    except BrokenBaseline as error:
        fail(str(error))
    if as_json:
        compared = {
            name: [compared_facts(each, finished.half) for each in many] for name, many in found.compared.items()
        }
        print_json({"open": found.is_open, "faults": [vars(one) for one in found.faults], "compared": compared})
    elif found.is_open:
        count = sum(map(len, found.compared.values()))
        complaints.print(f"Nothing is worse: {count} comparisons of {', '.join(found.compared)}.", soft_wrap=True)
    else:
        table = Table("worse", "baseline → now, difference with interval, questions", box=None)
        for one in found.faults:
            table.add_row(one.what, one.why)
        complaints.print(table)
    if not found.is_open:
        raise typer.Exit(_WORSE)


def _variants(texts: Sequence[str] | None) -> "tuple[Variant, ...]":
    from services.evaluation.runs.variant import Variant, WrongVariant

    try:
        return tuple(map(Variant.parse, texts or ()))
    except WrongVariant as error:
        fail(str(error))


def _wanted(golden: Path, folder: Path, variants: "Sequence[Variant]") -> "Wanted":
    from services.evaluation.runs.command import Wanted
    from services.evaluation.runs.gateway_asker import Stack

    settings = Settings()
    key = settings.api_key.get_secret_value()
    if not key:
        fail("No API key. Set SABUESO_API_KEY, or run `make up` in this folder first.")
    return Wanted(golden, folder, Stack(settings.url, key), variants)


def _with(wanted: "Wanted", **changes: Any) -> "Wanted":
    from dataclasses import replace

    return replace(wanted, **changes)


def _judge(kind: str, url: str, name: str, key: str, calls: int, cache: str) -> "JudgeChoice":
    from services.evaluation.runs.command import LEXICAL, MODEL, NO_JUDGE, JudgeChoice

    if kind == "auto":
        kind = MODEL if url and name else NO_JUDGE
    if kind == LEXICAL:
        complaints.print("The judge is a stand-in that compares words; its figures are not those of a judge.")
    return JudgeChoice(kind, url, name, key, calls or None, cache=cache)


def _ran(wanted: "Wanted") -> "Finished":
    from rich.progress import Progress

    from services.evaluation.golden.lock import ReadingRefused
    from services.evaluation.golden.sets import BrokenSet
    from services.evaluation.runs import command
    from services.evaluation.runs.folder import BrokenRun
    from services.evaluation.runs.gateway_asker import StackFailed
    from services.evaluation.runs.variant import WrongVariant
    from services.runtime.errors import ServiceError

    wrong = (BrokenSet, ReadingRefused, BrokenRun, StackFailed, WrongVariant, command.WrongOrder, ServiceError, OSError)
    with Progress(console=complaints, transient=True) as progress:
        tasks: dict[str, Any] = {}

        def told(what: str, done: int, of: int) -> None:
            if what not in tasks:
                tasks[what] = progress.add_task(what, total=of)
            progress.update(tasks[what], completed=done, total=of)

        try:
            return asyncio.run(command.run(wanted, told))
        except wrong as error:
            fail(str(error))
        except KeyboardInterrupt:
            complaints.print(f"What was answered is in {wanted.folder}; --out {wanted.folder} goes on.", soft_wrap=True)
            raise


def _opened(folder: Path, golden: Path) -> "Finished":
    from services.evaluation.golden.sets import BrokenSet
    from services.evaluation.runs.command import WrongOrder, opened
    from services.evaluation.runs.folder import BrokenRun

    try:
        return opened(folder, golden)
    except (BrokenRun, BrokenSet, WrongOrder, OSError) as error:
        fail(str(error))


def _reported(finished: "Finished") -> None:
    from services.evaluation.report.view import view_of
    from services.evaluation.report.write import write

    try:
        html, _ = write(view_of(finished), finished.folder.path)
    except OSError as error:
        fail(str(error))
    complaints.print(f"report: {html}", markup=False, soft_wrap=True)


def _kept(dsn: str, tenant: str, finished: "Finished") -> None:
    from services.evaluation.runs.command import keep_at
    from services.runtime.errors import ServiceError

    try:
        keep_at(dsn, tenant, finished)
    except ServiceError as error:
        fail(error.message)
