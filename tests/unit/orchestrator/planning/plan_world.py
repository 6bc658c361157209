"""What tests of plans share: a model that answers each of its callers by a script of his own."""

import json
from datetime import date

from services.orchestrator.events import Planned
from services.orchestrator.model import ScriptedModel, Turn, Usage
from services.orchestrator.planning.planner import Planner
from services.orchestrator.strategies.plan import Plan, PlanPolicy
from tests.unit.orchestrator.agent_world import agent_of, call, collect, dispatcher, of

QUESTION = "What penalty does the largest contract set, and how many contracts are there?"
ANSWER = (Turn("All of it [1]."),)


class Cast:
    """`scripts` by who asks: `plan`, `check`, the question of a step, `answer` for the whole."""

    def __init__(self, *, check=(), answer=ANSWER, plan=(), **steps):
        self.models = {name: ScriptedModel(list(turns)) for name, turns in steps.items()}
        self.models |= {"plan": ScriptedModel(list(plan)), "check": ScriptedModel(list(check))}
        self.models["answer"] = ScriptedModel(list(answer))
        self.asked = []

    def stream(self, messages, tools, sampling):
        name = self.who(messages, sampling)
        self.asked.append(name)
        return self.models[name].stream(messages, tools, sampling)

    def who(self, messages, sampling):
        if sampling.json_schema is not None:
            return {"QuestionPlan": "plan", "EvidenceCheck": "check"}[sampling.json_schema["title"]]
        question = next(one.text for one in messages if one.role == "user").splitlines()[0]
        return question if question in self.models else "answer"

    def last(self, name):
        """The transcript of the last request of one of them."""
        return self.models[name].requests[-1][0]


def planned(*steps):
    """A turn with a plan. Steps are (id, question, specialist, depends_on …)."""
    made = [
        {"id": name, "question": question, "specialist": specialist, "depends_on": needs}
        for name, question, specialist, *needs in steps
    ]
    return Turn(json.dumps({"steps": made}), usage=Usage(10, 10))


def checked(*steps, enough=None):
    """A turn that says what is missing."""
    made = json.loads(planned(*steps).text)["steps"]
    return Turn(json.dumps({"enough": not made if enough is None else enough, "missing": "", "steps": made}))


def searching(answer, query="penalty", call_id="s"):
    """The turns of a step that searches and answers."""
    return [Turn(calls=[call(call_id, "vector_search", query=query)], usage=Usage(10, 5)), Turn(answer)]


def counting(answer, call_id="q"):
    """The turns of a step that counts and answers."""
    return [Turn(calls=[call(call_id, "sql_query", query="SELECT 1")], usage=Usage(10, 5)), Turn(answer)]


async def follow(cast, tools=None, *, policy=None, limits=None, shield=None, tracer=None, specialists=None, **task):
    """The events of a run with the strategy `plan`."""
    traced = {"tracer": tracer} if tracer else {}
    more = {"specialists": specialists or {}} | traced
    plan = Plan(Planner(cast), cast, cast, policy or PlanPolicy(), lambda: date(2025, 11, 29), **more)
    agent = agent_of(cast, plan=plan, limits=limits)
    task = {"question": QUESTION, "strategy": "plan", **task}
    return await collect(cast, tools or dispatcher(), agent=agent, shield=shield, **task)


def plans(events):
    """The steps of each revision, as (id, question, specialist, depends_on)."""
    return [[(s.id, s.question, s.specialist, s.depends_on) for s in one.steps] for one in of(events, Planned)]


TWO = planned(("a", "Which penalty?", "documents"), ("b", "How many?", "sql"))
CHAIN = planned(("a", "Which is largest?", "sql"), ("b", "Which penalty?", "documents", "a"))
ENOUGH = checked()


def two(**more):
    steps = {"Which penalty?": searching("Two percent [1]."), "How many?": counting("47 [2].")}
    return Cast(**{"plan": [TWO], "check": [ENOUGH], **steps, **more})


def chain(**more):
    steps = {"Which is largest?": counting("CT-1 [1]."), "Which penalty?": searching("Two percent [2].")}
    return Cast(**{"plan": [CHAIN], "check": [ENOUGH], **steps, **more})
