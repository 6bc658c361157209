"""Valid-call rate by family over written replies: `python -m services.orchestrator.trials.valid_calls [folder]`.

A question counts when its calls are those that are right for it, name and arguments, and within the tool's schema: as
the server gave them (without us), as read here, and after one repair turn. A question that needs no call counts when
none is made and the answer is shown whole.
"""

import asyncio
import json
import sys
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from services.orchestrator.arguments import ForeignForm, WrongArguments
from services.orchestrator.calling.profiled_model import ProfiledModel
from services.orchestrator.calling.profiles import OPENAI, PROFILES, Profile
from services.orchestrator.model import Delta, Message, Sampling, ScriptedModel, ToolCall, ToolSpec, Turn

FOLDER = Path("tests/data/calls")
FAMILIES = ("llama3_json", "hermes", "mistral", "qwen3")


@dataclass(frozen=True)
class Replay:
    """A question with what the model replied. `replies`: the second is what it says when the first cannot be read."""

    id: str
    kind: str
    question: str
    tools: Sequence[ToolSpec]
    replies: Sequence[Turn]
    calls: Sequence[tuple[str, Mapping[str, Any]]]


@dataclass(frozen=True)
class Replayed:
    """`shown`: what the reader saw. `repairs`: turns that were needed besides the first."""

    calls: Sequence[ToolCall]
    shown: str
    repairs: int


def read(family: str, folder: Path = FOLDER) -> list[Replay]:
    """The replies of a family."""
    lines = (folder / f"{family}.jsonl").read_text(encoding="utf-8").splitlines()
    return [_replay(json.loads(line)) for line in lines]


def _replay(line: Mapping[str, Any]) -> Replay:
    return Replay(
        line["id"],
        line["kind"],
        line["question"],
        [ToolSpec(one["name"], one["description"], one["parameters"]) for one in line["tools"]],
        [
            Turn(
                one["text"],
                [ToolCall(call["id"], call["name"], call["arguments"]) for call in one.get("calls", ())],
                cut=one.get("cut", False),
            )
            for one in line["replies"]
        ],
        [(one["name"], one["arguments"]) for one in line["calls"]],
    )


async def replayed(one: Replay, profile: Profile, *, repairs: int = 1, piece_chars: int = 7) -> Replayed:
    """What comes of it, with at most so many repair turns."""
    model = ProfiledModel(ScriptedModel(one.replies, piece_chars=piece_chars), profile)
    messages, shown, turn = [Message("user", one.question)], "", Turn()
    for attempt in range(1 + repairs):
        shown = ""
        async with aclosing(model.stream(messages, one.tools, Sampling())) as parts:
            async for part in parts:
                if isinstance(part, Delta):
                    shown += part.text
                else:
                    turn = part
        if turn.calls or not turn.malformed or attempt == repairs:
            return Replayed(turn.calls, shown, attempt)
        messages += [Message("assistant", turn.text), Message("user", turn.malformed)]
    raise AssertionError("unreachable: the last attempt returns")


def is_right(one: Replay, came: Replayed) -> bool:
    """Whether exactly the right calls were made, within their schemas; or none, and the answer was shown."""
    if not one.calls:
        return not came.calls and came.shown == one.replies[0].text
    forms = {tool.name: ForeignForm(tool.parameters) for tool in one.tools}
    try:
        made = [(call.name, forms[call.name].read(call.arguments_json)) for call in came.calls]
    except (WrongArguments, KeyError):
        return False
    return made == [(name, dict(arguments)) for name, arguments in one.calls]


async def measured(folder: Path = FOLDER) -> list[tuple[str, int, float, float, float]]:
    """Family, replies, and the share that is right: without us, as read, after at most one repair."""
    table: list[tuple[str, int, float, float, float]] = []
    for family in FAMILIES:
        replays = read(family, folder)
        ways = ((OPENAI, 0), (PROFILES[family], 0), (PROFILES[family], 1))
        shares = [
            sum([is_right(one, await replayed(one, profile, repairs=most)) for one in replays]) / len(replays)
            for profile, most in ways
        ]
        table.append((family, len(replays), shares[0], shares[1], shares[2]))
    return table


def main() -> None:
    """Prints the table."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    print("| family | replies | native calls only | read here | after at most one repair |")
    print("|---|---|---|---|---|")
    for family, count, native, once, repaired in asyncio.run(measured(folder)):
        print(f"| {family} | {count} | {native:.2f} | {once:.2f} | {repaired:.2f} |")


if __name__ == "__main__":
    main()
