"""`sabueso evals build|review|check|lock|power|bias|drift`: golden sets up to the lock, and what figures rest on.

What figures rest on: whether a judge is fair, and what live traffic is compared with.
"""

import asyncio
from contextlib import AsyncExitStack
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.markdown import Markdown
from rich.table import Table

from services.cli.console import Json, complaints, fail, out, print_json
from services.cli.evals_build import build
from services.cli.evals_review import review

if TYPE_CHECKING:
    from services.evaluation.judge.language_bias import LanguageBias
    from services.evaluation.online.references import Kept

app = typer.Typer(no_args_is_help=True, help="Golden sets: questions with right answers, to evaluate with.")
app.command()(build)
app.command()(review)

Folder = Annotated[Path, typer.Argument(help="Folder of the set.")]


@app.command()
def check(
    folders: Annotated[list[Path], typer.Argument(metavar="SET...", help="Folders of sets.")], as_json: Json = False
) -> None:
    """Check that sets can be used: fields, halves apart, test half as it was locked. Exit status 1: one cannot.

    Halves are apart over all sets that are named: a document of one set's test half is in no other's development half.
    """
    from services.evaluation.golden import checking

    found, shared = [checking.checked(one) for one in folders], checking.leaks(folders)
    if as_json:
        print_json({"sets": [one.facts() for one in found], "leaks": shared})
    else:
        table = Table("set", "version", "dev", "test", "strata", "reviewed", "test half", box=None)
        for one in found:
            strata = ", ".join(f"{name} {count}" for name, count in one.strata.items())
            table.add_row(one.name, str(one.version), str(one.dev), str(one.test), strata, one.reviewed, one.lock)
        out.print(table)
    wrong = [*(one.complaint for one in found if one.complaint), *shared]
    for complaint in wrong:
        complaints.print(complaint, markup=False, soft_wrap=True)
    if wrong:
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


@app.command()
def bias(
    cases: Annotated[
        Path, typer.Option(help="Folder with xquad.en.json and xquad.es.json: the same texts in both.")
    ] = Path("tests/data/evals/metrics/xquad"),
    a_paragraph: Annotated[int, typer.Option(min=1, help="Questions of each paragraph; two cases each.")] = 1,
    limit: Annotated[int, typer.Option(min=0, help="Only the first so many cases; 0: all.")] = 0,
    judge_url: Annotated[str, typer.Option(envvar="SABUESO_JUDGE_URL", help="OpenAI-compatible, ends in /v1.")] = "",
    judge_name: Annotated[str, typer.Option(envvar="SABUESO_JUDGE_NAME", help="Model that judges.")] = "",
    judge_key: Annotated[str, typer.Option(envvar="SABUESO_JUDGE_API_KEY", help="Its key.")] = "none",
    judge: Annotated[Literal["model", "lexical"], typer.Option(help="lexical: a stand-in.")] = "model",
    as_json: Json = False,
) -> None:
    """Say whether a judge judges the same facts otherwise in Spanish than in English, and how often it is right."""
    from services.evaluation.judge.language_bias import language_bias, xquad_cases
    from services.evaluation.runs.command import JudgeChoice, WrongOrder, judge_of

    async def found() -> "LanguageBias":
        async with AsyncExitStack() as closing:
            judging = judge_of(JudgeChoice(judge, judge_url, judge_name, judge_key), closing)
            asked = xquad_cases(cases, a_paragraph=a_paragraph)
            return await language_bias(asked[: limit or None], judging)

    try:
        one = asyncio.run(found())
    except (WrongOrder, ValueError, OSError) as error:
        fail(str(error))
    if as_json:
        return print_json(asdict(one))
    table = Table("", one.first, one.second, "difference", "p", box=None)
    for name, values, test in (
        ("right", one.accuracy, one.right),
        ("says supported", one.supported_share, one.lenient),
    ):
        gap = test.difference
        shown = f"{gap.mean:+.3f} [{gap.low:+.3f}, {gap.high:+.3f}]"
        table.add_row(name, f"{values[one.first]:.3f}", f"{values[one.second]:.3f}", shown, f"{test.p_value:.4f}")
    table.add_row("no verdict", str(one.missing[one.first]), str(one.missing[one.second]), "", "")
    out.print(table)
    out.print(f"{one.right.pair_count} cases, half of them right; the same verdict in both on {one.agreement:.0%}.")
    return None


@app.command()
def drift(
    store: Annotated[str, typer.Option(envvar="SABUESO_EVALS_STORE", help="DSN of the results.")],
    accept: Annotated[
        str, typer.Option(metavar="TENANT", help="Take this tenant's traffic from now on as usual.")
    ] = "",
    kind: Annotated[
        str, typer.Option(help="With --accept: only retrieval_score, refusals, tool_mix or questions.")
    ] = "",
    as_json: Json = False,
) -> None:
    """Show what live traffic is compared with; accept a change, so that it is not told any more."""
    from services.evaluation.online.postgres_references import PostgresReferences
    from services.runtime.errors import ServiceError

    async def found() -> "list[Kept]":
        references = PostgresReferences(store)
        await references.open()
        try:
            if accept and not await references.delete(accept, kind):
                fail(f"There is no reference of {accept}{f' for {kind}' if kind else ''}.")
            return await references.kept()
        finally:
            await references.close()

    try:
        kept = asyncio.run(found())
    except ServiceError as error:
        fail(error.message)
    if as_json:
        return print_json({"references": [{**asdict(one), "made_at": one.made_at.isoformat()} for one in kept]})
    table = Table("tenant", "kind", "answers", "until", box=None)
    for one in kept:
        table.add_row(one.tenant, one.kind, str(one.count), f"{one.made_at:%Y-%m-%d %H:%M} UTC")
    out.print(table)
    return None
