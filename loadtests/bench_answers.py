"""Figures of whole answers, and of what the gateway adds to a request that it passes on."""

import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import httpx2

from loadtests.answers import Question, StreamedAnswer, questions, request
from loadtests.measuring import NotMeasured
from loadtests.own_stack import OwnStack
from loadtests.side_by_side import Peer, measure

_PADDING = "Los contratos con proveedores se revisan cada año. " * 18  # a request of about 1 kB


async def agent_overhead(stack: OwnStack) -> list[dict[str, Any]]:
    """Time of an answer that is neither the model's nor a tool's, as the answer itself says."""
    async with client_of(stack.url, stack.key) as http:
        [question] = questions("flagship-es")

        async def overhead() -> float:
            return (await ask(http, question, "off"))["timings_ms"]["overhead"]

        return [(await measure("agent_overhead", overhead, rounds=30)).fields()]


async def first_event(stack: OwnStack) -> list[dict[str, Any]]:
    """From the request to the first Server-Sent Event, and to the first word of the answer."""
    async with client_of(stack.url, stack.key) as http:
        [question] = questions("flagship-es")

        async def to_first_event() -> float:
            return (await ask_streaming(http, question, "off")).milliseconds_to_first_event()

        async def to_first_token() -> float:
            return (await ask_streaming(http, question, "off")).milliseconds_to_first_token()

        return [
            (await measure("first_event", to_first_event, rounds=25)).fields(),
            (await measure("first_token", to_first_token, rounds=25)).fields(),
        ]


async def flagship(stack: OwnStack) -> list[dict[str, Any]]:
    """The flagship question from end to end, with every tool's result from the cache; the peer runs every tool."""
    async with client_of(stack.url, stack.key) as http:
        [question] = questions("flagship-es")

        async def cached() -> None:
            await ask(http, question, "use")

        async def uncached() -> None:
            await ask(http, question, "off")

        name = f"flagship_{stack.profile.replace('-', '_')}"
        both = await measure(f"{name}_cached", cached, rounds=20, peer=Peer("without the cache", uncached), seconds=20)
    return [both.of_peer(name).fields(), both.fields()]


async def pass_through(stack: OwnStack) -> list[dict[str, Any]]:
    """One request of 1 kB to the model by way of the gateway; the peer asks the model directly."""
    direct_url = f"http://{stack.address('understudy')}"
    async with client_of(stack.url, stack.key) as gateway, client_of(direct_url, "none") as direct:
        model = (await direct.get("/v1/models")).json()["data"][0]["id"]
        body = {"model": model, "max_tokens": 8, "messages": [{"role": "user", "content": _PADDING}]}

        async def by_way_of_the_gateway() -> float:
            return await _post(gateway, body)

        async def directly() -> float:
            return await _post(direct, body)

        figure = await measure(
            "gateway_pass_through", by_way_of_the_gateway, rounds=300, peer=Peer("the model directly", directly)
        )
    return [figure.fields(), figure.minus_peer("gateway_stack_added").fields()]


@asynccontextmanager
async def client_of(url: str, key: str) -> AsyncGenerator[httpx2.AsyncClient]:
    """A client with a key, past any proxy of the environment."""
    headers = {"authorization": f"Bearer {key}"}
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=100)
    async with httpx2.AsyncClient(base_url=url, headers=headers, timeout=20, limits=limits, trust_env=False) as http:
        yield http


async def ask(http: httpx2.AsyncClient, question: Question, cache: str) -> dict[str, Any]:
    """What `sabueso` says of the answer. Raises NotMeasured when it is not the true one."""
    answer = await http.post("/v1/chat/completions", json=request(question.text, stream=False, cache=cache))
    answer.raise_for_status()
    fields = answer.json()
    missing = question.missing(fields["choices"][0]["message"]["content"])
    if missing:
        raise NotMeasured(f"{question.id}: the answer does not say {', '.join(missing)}")
    return fields["sabueso"]


async def ask_streaming(http: httpx2.AsyncClient, question: Question, cache: str, strategy: str = "") -> StreamedAnswer:
    """The answer with its times, by time.perf_counter. Raises NotMeasured when it is not the true one."""
    body = request(question.text, stream=True, cache=cache, strategy=strategy)
    answer = StreamedAnswer(time.perf_counter())
    async with http.stream("POST", "/v1/chat/completions", json=body) as response:
        response.raise_for_status()
        async for line in response.aiter_lines():
            answer.feed(line, time.perf_counter())
    if problem := answer.problem(question):
        raise NotMeasured(f"{question.id}: {problem}")
    return answer


async def _post(http: httpx2.AsyncClient, body: dict[str, Any]) -> float:
    started = time.perf_counter()
    response = await http.post("/v1/chat/completions", json=body)
    seconds = time.perf_counter() - started
    response.raise_for_status()
    return 1000 * seconds
