"""A model behind OpenAI's API that says the accepted answers of the leaderboard's files, or spoils them."""

import json
import random
from pathlib import Path

from starlette.requests import Request
from starlette.responses import JSONResponse

from services.evaluation.tools import bfcl
from services.evaluation.tools.function_calls import sendable

SAMPLE = Path("tests/data/evals/bfcl")


def first_accepted(values):
    """What a perfect model would say."""
    return written(next((one for one in values if one != ""), ""))


def written(value):
    """With the first of the accepted values in every field."""
    if isinstance(value, dict):
        return {name: first_accepted(one if isinstance(one, list) else [one]) for name, one in value.items()}
    return [written(one) for one in value] if isinstance(value, list) else value


def perfect(folder, category):
    """Calls by the case's id, as (function, arguments), from the files' own answers."""
    path = folder / "possible_answer" / f"BFCL_v4_{category}.json"
    found = {}
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        row = json.loads(line)
        found[row["id"]] = [
            (tool, {name: first_accepted(values) for name, values in arguments.items() if values != [""]})
            for answer in row["ground_truth"]
            for tool, arguments in answer.items()
        ]
    return found


class ReplayingModel:
    """Answers every question of the folder; `spoil(case, calls)` changes what is called. It keeps what it was asked."""

    def __init__(self, folder=SAMPLE, categories=bfcl.CATEGORIES, spoil=lambda case, calls: calls, first=()):
        self.spoil, self.first = spoil, list(first)
        self.requests = []
        self.cases, self.right = {}, {}
        for category in categories:
            self.right |= perfect(folder, category)
            for case in bfcl.read(folder, category):
                self.cases[self._key(case.messages, [one.description for one in case.functions])] = case

    async def complete(self, request: Request):
        body = await request.json()
        self.requests.append(body)
        if self.first:
            return JSONResponse({"error": {"message": "no"}}, self.first.pop(0), headers={"retry-after-ms": "1"})
        messages = [(one["role"], one["content"]) for one in body["messages"]]
        case = self.cases[self._key(messages, [one["function"]["description"] for one in body["tools"]])]
        names = sendable([one.name for one in case.functions])
        calls = [
            {
                "id": f"call_{index}",
                "type": "function",
                "function": {"name": names.get(name, name), "arguments": self._text(arguments)},
            }
            for index, (name, arguments) in enumerate(self.spoil(case, self.right.get(case.item.id, [])))
        ]
        message = {"role": "assistant", "content": None if calls else "None fits.", "tool_calls": calls or None}
        choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}
        return JSONResponse({"id": "1", "model": body["model"], "choices": [choice], "usage": {"prompt_tokens": 3}})

    @staticmethod
    def _key(messages, descriptions):
        return json.dumps([list(map(list, messages)), descriptions])

    @staticmethod
    def _text(arguments):
        return arguments if isinstance(arguments, str) else json.dumps(arguments)


def shuffled(case, calls):
    """The order of calls means nothing."""
    return random.Random(case.item.id).sample(calls, len(calls))
