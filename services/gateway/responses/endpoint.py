"""POST /v1/responses."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from sabueso.orchestrator.v1 import orchestrator_pb2 as pb
from services.gateway.admission import asked_of
from services.gateway.agent import Agent, Step, agents_caller
from services.gateway.answer import AGENT, Answer
from services.gateway.errors import Failure
from services.gateway.kept import memo_of
from services.gateway.passing import pass_on, with_served_model
from services.gateway.pools.routing import ModelPools
from services.gateway.responses.asked import echo, question_of, responses_request
from services.gateway.responses.input_items import with_input
from services.gateway.responses.output import Event, Output


class Responses:
    """The endpoint."""

    def __init__(self, agent: Agent, pool: ModelPools) -> None:
        self._agent = agent
        self._pool = pool

    async def create(self, request: Request) -> Response:
        """A response, streamed or not; of the agent, or of the pool that serves the model."""
        asked = asked_of(request)
        if asked["model"] != AGENT:
            return await pass_on(self._pool, request, "/v1/responses")
        caller = agents_caller(request)
        wanted = responses_request(asked)
        caller.narrow(wanted.sabueso.labels)
        answer = Answer(wanted.sabueso.cache, with_evidence=wanted.sabueso.include_evidence)
        echoed = echo(asked, wanted)
        with_steps = wanted.sabueso.include_steps
        question = replace(question_of(wanted), memo=memo_of(answer, with_input(echoed, wanted), with_steps=with_steps))
        question = await with_served_model(self._pool, request, question)
        output = Output(answer, echoed, with_steps=with_steps)
        if wanted.stream:
            return await self._agent.stream(request, question, answer, ResponseEvents(output))
        await self._agent.answer(request, question, answer, lambda event, step: list(output.add(event, step)))
        last = list(output.end())[-1]
        return JSONResponse(last["response"], headers={"Server-Timing": answer.server_timing()})


class ResponseEvents:
    """The events of a response as Server-Sent Events, numbered from 0. There is no `[DONE]` in this API."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._number = 0

    def begin(self) -> Iterator[bytes]:
        return self._numbered(self._output.begin())

    def add(self, event: pb.RunResponse, step: Step) -> Iterator[bytes]:
        return self._numbered(self._output.add(event, step))

    def end(self) -> Iterator[bytes]:
        return self._numbered(self._output.end())

    def fail(self, failure: Failure) -> Iterator[bytes]:
        return self._numbered(self._output.fail(failure))

    def _numbered(self, events: Iterable[Event]) -> Iterator[bytes]:
        for event in events:
            numbered = {"type": event["type"], "sequence_number": self._number, **event}
            self._number += 1
            data = json.dumps(numbered, ensure_ascii=False, separators=(",", ":"))
            yield f"event: {event['type']}\ndata: {data}\n\n".encode()
