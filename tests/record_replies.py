"""Records whole runs over any OpenAI-compatible URL: every request, every reply as it came, and what became of it.

`python -m tests.record_replies --url http://…/v1 --name smollm2 --family hermes --about about.json --out FILE` writes
one line for the model and one for each run. `python -m tests.record_replies --renew FILE` plays the recorded replies
once more and writes down what becomes of them now: for when the agent has changed on purpose.
"""

import argparse
import asyncio
import json
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import httpx2
from starlette.responses import StreamingResponse

from tests.recorded_runs import CASES, MAX_FORM_TOKENS, MAX_TOKENS, Case, noted, packed, play, serving, unpacked


class Recorder:
    """Passes requests on to `url` and keeps both sides. Turns are bounded, or they would never end."""

    def __init__(self, client):
        self.client, self.turns = client, []

    async def complete(self, request):
        asked = await request.json()
        most = MAX_FORM_TOKENS if "response_format" in asked else MAX_TOKENS
        asked["max_tokens"] = min(asked["max_tokens"], most)
        return StreamingResponse(self._passed(asked), media_type="text/event-stream")

    async def _passed(self, asked):
        lines = []
        async with self.client.stream("POST", "/chat/completions", json=asked) as reply:
            reply.raise_for_status()
            async for line in reply.aiter_lines():
                yield f"{line}\n".encode()
                if line.startswith("data: {"):
                    lines.append(line.removeprefix("data: "))
        self.turns.append({"request": _kept(asked), "reply": packed(lines)})


def _kept(asked):
    """The request without what is the same in all: descriptions of tools and forms are named only."""
    kept = {key: asked[key] for key in ("messages", "temperature", "max_tokens", "tool_choice") if key in asked}
    if "tools" in asked:
        kept["tools"] = [one["function"]["name"] for one in asked["tools"]]
    if "response_format" in asked:
        kept["form"] = asked["response_format"]["json_schema"]["name"]
    return kept


class Player:
    """Gives recorded replies in their order, and keeps what it was asked."""

    def __init__(self, turns):
        self.turns, self.asked = turns, []

    async def complete(self, request):
        turn = self.turns[len(self.asked)]
        self.asked.append(await request.json())
        return StreamingResponse(self._said(unpacked(turn["reply"])), media_type="text/event-stream")

    async def _said(self, chunks):
        for chunk in chunks:
            yield f"data: {json.dumps(chunk)}\n\n".encode()
        yield b"data: [DONE]\n\n"


@asynccontextmanager
async def _recording(url):
    # A connection for each request: some servers close one that rests just when it is used again.
    limits = httpx2.Limits(max_keepalive_connections=0)
    async with httpx2.AsyncClient(base_url=url, timeout=600, limits=limits) as client:
        recorder = Recorder(client)
        async with serving(recorder.complete) as passing:
            yield recorder, passing


async def record(url, name, family, about):
    """The lines of a recording."""
    yield {**about, "name": name, "family": family, "recorded": datetime.now(UTC).date().isoformat()}
    for case in CASES:
        async with _recording(url) as (recorder, passing):
            events = await play(case, passing, name, family)
        print(case.name, len(recorder.turns), "turns", flush=True)
        yield {"case": vars(case), "turns": recorder.turns, **noted(events)}


async def renewed(recording):
    """The lines of a recording, with what becomes of its replies now."""
    model, *runs = recording
    yield model
    for run in runs:
        player = Player(run["turns"])
        async with serving(player.complete) as url:
            yield run | noted(await play(Case(**run["case"]), url, model["name"], model["family"]))


def _told():
    parser = argparse.ArgumentParser(description=__doc__)
    for option in ("--url", "--name", "--family", "--about", "--out", "--renew"):
        parser.add_argument(option)
    return parser.parse_args()


async def _written(lines, file):
    """Writes to a file beside, line by line: what is there is kept where a run fails."""
    beside = file.with_suffix(".part")
    with beside.open("w", encoding="utf-8") as out:
        async for line in lines:
            print(json.dumps(line, ensure_ascii=False), file=out, flush=True)
    beside.replace(file)


def main():
    told = _told()
    if told.renew:
        file = Path(told.renew)
        recording = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
        return asyncio.run(_written(renewed(recording), file))
    about = json.loads(Path(told.about).read_text(encoding="utf-8"))
    return asyncio.run(_written(record(told.url, told.name, told.family, about), Path(told.out)))


if __name__ == "__main__":
    main()
