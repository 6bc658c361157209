"""A plan as a graph: what a model drafted is mended where that is harmless, and refused with a reason otherwise."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from graphlib import CycleError, TopologicalSorter

from services.orchestrator.events import PlanStep

MAX_STEPS = 6
# A plan that does not stop repeating itself is none.
_MAX_DRAFTED = 32
_MAX_QUESTION_CHARS = 1_000
_WORD = re.compile(r"\w+")


class BadPlan(Exception):
    """What is wrong with a plan, in one line for the model to mend it by."""


@dataclass(frozen=True)
class Draft:
    """A step as the model wrote it."""

    id: str
    question: str
    specialist: str = ""
    depends_on: tuple[str, ...] = ()


def graph(
    drafts: Sequence[Draft],
    specialists: Collection[str],
    earlier: Sequence[PlanStep] = (),
    max_steps: int = MAX_STEPS,
) -> tuple[PlanStep, ...]:
    """The steps in an order in which every one comes after what it depends on, as s1, s2 …

    `specialists`: those that there are; a step for another is for all tools. `earlier`: steps of a plan that has run;
    new ones may depend on them, are numbered on, and those that ask the same again are left out: none may be left.
    Raises BadPlan: nothing in it, too many steps, a dependency that is not there or ambiguous, a circle.
    """
    if not drafts and not earlier:
        raise BadPlan("the plan has no steps")
    if len(drafts) > _MAX_DRAFTED:
        raise BadPlan(f"the plan has {len(drafts)} steps; at most {max_steps} are allowed")
    kept, aliases = _distinct([_tidy(one) for one in drafts], earlier)
    if not kept and not earlier:
        raise BadPlan("no step of the plan has a question")
    if len(kept) > max_steps:
        raise BadPlan(f"the plan has {len(kept)} steps; at most {max_steps} are allowed")
    linked = {name: _linked(name, one, aliases) for name, one in kept.items()}
    return _numbered(linked, specialists, earlier)


def levels(steps: Sequence[PlanStep]) -> Mapping[str, int]:
    """How many steps, itself included, must run one after the other from each step to the end of the plan."""
    longest: dict[str, int] = {}
    for step in reversed(steps):  # whoever depends on a step comes after it
        following = [longest[one.id] for one in steps if step.id in one.depends_on]
        longest[step.id] = 1 + max(following, default=0)
    return longest


def _tidy(draft: Draft) -> Draft:
    question = " ".join(draft.question.split())
    if len(question) > _MAX_QUESTION_CHARS:
        raise BadPlan(f"the question of step `{draft.id[:40]}` is longer than {_MAX_QUESTION_CHARS} characters")
    needs = tuple(dict.fromkeys(one for name in draft.depends_on if (one := name.strip()) and one != draft.id.strip()))
    return Draft(draft.id.strip(), question, draft.specialist.strip().lower(), needs)


def _distinct(drafts: Sequence[Draft], earlier: Sequence[PlanStep]) -> tuple[dict[str, Draft], Mapping[str, str]]:
    """Steps by a name of their own, each question once; and which name, or earlier step, every id stands for.

    A step that asks what another asks stands for it, with the dependencies of both. One without a question that nobody
    waits for is left out.
    """
    waited = {name for one in drafts for name in one.depends_on}
    ids = [one.id for one in drafts] + [step.id for step in earlier]
    asked = {_asked(step.question): step.id for step in earlier}
    aliases = {step.id: step.id for step in earlier}
    kept: dict[str, Draft] = {}
    for position, one in enumerate(drafts):
        if one.id in waited and ids.count(one.id) > 1:
            raise BadPlan(f"several steps have the id `{one.id[:40]}`, and another depends on it")
        if not _WORD.search(one.question):
            if one.id in waited:
                raise BadPlan(f"step `{one.id[:40]}` has no question")
            continue
        same = asked.setdefault(_asked(one.question), f"#{position}")
        if ids.count(one.id) == 1:
            aliases[one.id] = same
        if same in kept:
            kept[same] = replace(kept[same], depends_on=kept[same].depends_on + one.depends_on)
        elif same == f"#{position}":
            kept[same] = one
    return kept, aliases


def _asked(question: str) -> str:
    return " ".join(_WORD.findall(question.casefold()))


def _linked(name: str, draft: Draft, aliases: Mapping[str, str]) -> Draft:
    """The step with the names of what it depends on."""
    for needed in draft.depends_on:
        if needed not in aliases:
            raise BadPlan(f"step `{draft.id[:40]}` depends on `{needed[:40]}`, which is no step")
    needs = dict.fromkeys(aliases[one] for one in draft.depends_on)
    return replace(draft, depends_on=tuple(one for one in needs if one != name))


def _numbered(
    linked: Mapping[str, Draft], specialists: Collection[str], earlier: Sequence[PlanStep]
) -> tuple[PlanStep, ...]:
    sorter = TopologicalSorter(
        {name: [need for need in one.depends_on if need in linked] for name, one in linked.items()}
    )
    try:
        order = list(sorter.static_order())
    except CycleError as error:
        circle = " → ".join(linked[name].id[:40] for name in error.args[1])
        raise BadPlan(f"steps depend on each other in a circle: {circle}") from None
    ids = {name: f"s{number}" for number, name in enumerate(order, 1 + len(earlier))}
    ids |= {step.id: step.id for step in earlier}
    return tuple(
        PlanStep(
            ids[name],
            linked[name].question,
            linked[name].specialist if linked[name].specialist in specialists else "",
            tuple(ids[need] for need in linked[name].depends_on),
        )
        for name in order
    )
