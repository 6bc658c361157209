"""The command `capacity`."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from rich.table import Table

from services.cli.capacity.measured import Measured, NoRun, measured_plan, read
from services.cli.capacity.planning import MODEL, PREFILL, Installation, needed
from services.cli.capacity.profiles import ANSWER_TOKENS, CORES, MIX, POOLS, PROMPT_TOKENS, QUESTIONS
from services.cli.capacity.simulation import simulate
from services.cli.console import Json, out, print_json

_Number = TypeVar("_Number", int, float)

_REPLICAS = 2
_PROFILE = "h100-tp4"
_UNBOUNDED_SECONDS = 3600.0


def capacity(
    users: Annotated[int, typer.Option(min=0, help="People who ask and read; 0: as many as can be.")] = 0,
    pause: Annotated[float, typer.Option(min=0, help="Seconds from an answer to the next question.")] = 30,
    profile: Annotated[
        str, typer.Option(help=f"Of the model: {', '.join(POOLS)}. Empty: the run's, or {_PROFILE}.")
    ] = "",
    pool_replicas: Annotated[int, typer.Option(min=1, help="Replicas of the model.")] = 1,
    replicas: Annotated[list[str] | None, typer.Option(help="SERVICE=COUNT, more than once; else 2.")] = None,
    mix: Annotated[list[str] | None, typer.Option(help=f"KIND=SHARE of {', '.join(QUESTIONS)}.")] = None,
    prompt_tokens: Annotated[int, typer.Option(min=1, help="Of a question with its evidence.")] = PROMPT_TOKENS,
    answer_tokens: Annotated[int, typer.Option(min=1, help="Of an answer.")] = ANSWER_TOKENS,
    uncached: Annotated[float, typer.Option(min=0.01, max=1, help="Share of prompts not in the prefix cache.")] = 0.5,
    ceiling: Annotated[float, typer.Option(min=0.05, max=0.95, help="Utilisation that nothing may exceed.")] = 0.7,
    measured_in: Annotated[Path | None, typer.Option("--from", help="Folder of a load test: its times.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw answer time by people: svg, png or pdf.")] = None,
    as_json: Json = False,
) -> None:
    """How many people an installation serves, what limits it, and what more would need. Nothing is asked.

    Formulas and what was measured: docs/capacity.md. The answer time is simulated too, for its p95.
    """
    measured = _measured(measured_in) if measured_in else None
    profile = profile or (measured.profile if measured and measured.profile in POOLS else _PROFILE)
    if profile not in POOLS:
        raise typer.BadParameter(f"there is no profile `{profile}`; there are {', '.join(POOLS)}")
    plan = Installation(
        pool=POOLS[profile],
        pool_replicas=pool_replicas,
        replicas=dict.fromkeys(CORES, _REPLICAS) | _said(replicas, CORES, int, "service"),
        mix=_shares(_said(mix, QUESTIONS, float, "kind")) if mix else MIX,
        pause_seconds=pause,
        sequence_tokens=prompt_tokens + answer_tokens,
        uncached=uncached,
    )
    # Reading a prompt takes as long as it has tokens; the profiles' times hold up to 4,096 of them.
    if prompt_tokens > PROMPT_TOKENS:
        scale = prompt_tokens / PROMPT_TOKENS
        first = tuple(one * scale for one in plan.pool.first_token)
        plan = replace(plan, pool=replace(plan.pool, first_token=(first[0], first[1], first[2])))
    supposed = plan
    if measured is not None:
        plan = measured_plan(plan, measured)
    told = _told(plan, users, ceiling)
    if measured is not None:
        told["measured"] = _beside(plan, measured, measured.model_factor(supposed.pool))
    if plot is not None:
        from services.cli.capacity.plot import draw

        draw(plan, told["users_at_ceiling"], plot)
    if as_json:
        return print_json(told)
    return _show(told, ceiling)


def _measured(folder: Path) -> Measured:
    try:
        return read(folder)
    except NoRun as error:
        raise typer.BadParameter(str(error)) from None


def _beside(plan: Installation, measured: Measured, factor: float) -> dict[str, Any]:
    """What was measured of each kind, and what the plan makes of it: how far the plan can be believed."""
    return {
        "model_times_the_profile": round(factor, 3),
        "kinds": {
            kind: {
                "answers": one.answer_count,
                "seconds": round(one.answer_seconds, 3),
                "p95_seconds": round(one.p95_seconds, 3),
                "reckoned_seconds": round(plan.kind_seconds(kind), 3),
            }
            for kind, one in measured.kinds.items()
        },
    }


def _said(
    words: list[str] | None, known: Mapping[str, Any], number: Callable[[str], _Number], what: str
) -> dict[str, _Number]:
    """NAME=NUMBER of the command line. Raises typer.BadParameter."""
    found: dict[str, _Number] = {}
    for word in words or ():
        name, _, value = word.partition("=")
        try:
            found[name] = number(value)
        except ValueError:
            raise typer.BadParameter(f"`{word}`: say NAME=NUMBER") from None
        if name not in known or found[name] < 0:
            raise typer.BadParameter(f"`{word}`: there is no such {what}; there are {', '.join(known)}")
    return found


def _shares(said: Mapping[str, float]) -> dict[str, float]:
    total = sum(said.values())
    if not total:
        raise typer.BadParameter("the shares of --mix are all 0")
    return {kind: share / total for kind, share in said.items() if share}


def _told(plan: Installation, users: int, ceiling: float) -> dict[str, Any]:
    """What is shown, as JSON has it."""
    most = plan.users(ceiling)
    asked = users or most
    rate = plan.answers_per_second(asked)
    keeps_up = plan.answer_seconds(rate) < _UNBOUNDED_SECONDS and rate <= plan.most_per_second(0.98)
    simulated = simulate(plan, asked) if asked and keeps_up else None
    wanted = needed(plan, asked, ceiling)
    stations = [
        {
            "name": one.name,
            "servers": one.servers,
            "seconds_a_question": round(one.demand, 4),
            "utilisation": round(rate * one.demand / one.servers, 3),
            "answers_per_second_at_ceiling": round(one.servers * ceiling / one.demand, 2),
            "users_per_replica": plan.users_per_replica(one, ceiling),
            "replicas_needed": wanted[one.name],
        }
        for one in plan.stations
    ]
    pools = max(wanted[PREFILL], wanted[MODEL])
    return {
        "users": asked,
        "users_at_ceiling": most,
        "bottleneck": plan.bottleneck().name,
        "answers_per_second": round(rate, 2),
        "answer_seconds": {
            "without_waiting": round(plan.answer_seconds(0.0), 3),
            "mean": round(plan.answer_seconds(rate), 3) if keeps_up else None,
            "simulated_mean": round(simulated.mean, 3) if simulated else None,
            "simulated_p95": round(simulated.percentile(0.95), 3) if simulated else None,
        },
        "stations": stations,
        "model_replicas_needed": pools,
        "gpus_needed": pools * plan.pool.gpus,
    }


def _show(told: Mapping[str, Any], ceiling: float) -> None:
    table = Table("station", "at a time", "ms a question", "busy", "people each", "replicas needed", box=None)
    for one in told["stations"]:
        row = (f"{one['servers']}", f"{1000 * one['seconds_a_question']:.1f}", f"{one['utilisation']:.0%}")
        table.add_row(one["name"], *row, f"{one['users_per_replica']}", str(one["replicas_needed"]))
    out.print(table)
    seconds = told["answer_seconds"]
    if seconds["mean"] is None:
        out.print(f"\n{told['users']} people are too many: {told['bottleneck']} cannot keep up.", markup=False)
    else:
        out.print(
            f"\n{told['users']} people: {told['answers_per_second']} answers a second, {seconds['mean']} s each on "
            f"average (without waiting {seconds['without_waiting']}; simulated {seconds['simulated_mean']}, p95 "
            f"{seconds['simulated_p95']}).",
            markup=False,
            soft_wrap=True,
        )
    out.print(
        f"{told['users_at_ceiling']} people keep everything below {ceiling:.0%}; {told['bottleneck']} is full first. "
        f"For {told['users']}: {told['model_replicas_needed']} replicas of the model, {told['gpus_needed']} GPUs.",
        markup=False,
        soft_wrap=True,
    )
    if "measured" not in told:
        out.print("The model's times are the source material's, not measured here; measure yours.", style="dim")
        return
    kinds = Table("kind", "answers", "measured, s", "p95", "reckoned, s", box=None)
    for kind, one in told["measured"]["kinds"].items():
        seconds = (f"{one['seconds']:.3f}", f"{one['p95_seconds']:.3f}", f"{one['reckoned_seconds']:.3f}")
        kinds.add_row(kind, str(one["answers"]), *seconds)
    out.print()
    out.print(kinds)
    factor = told["measured"]["model_times_the_profile"]
    out.print(f"The model took {factor} times what its profile says.", style="dim")
