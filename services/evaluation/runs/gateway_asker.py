"""Asks a running stack over HTTP, as any client does, by the `openai` package."""

import asyncio
import json
import random
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, cast

import httpx2
import openai

from services.evaluation.answered import Answered, Json, Passage
from services.evaluation.golden.item import Item
from services.evaluation.metrics.noise_sensitivity import with_noise
from services.evaluation.runs import prompts, reading
from services.evaluation.runs.reading import Read
from services.evaluation.runs.record import Evidence, Record
from services.evaluation.runs.variant import Kind, Variant

AGENT = "sabueso"
_CONNECT_SECONDS = 5.0
_ANSWER_SECONDS = 300.0
# Of what failed on the way or was refused for now; the client waits for as long as Retry-After says, up to 2 minutes.
_RETRIES = 6
_PATIENCE_SECONDS = 300.0
# Of the first question, by which it is found out whether anybody is there.
_FIRST_RETRIES = 1
# Questions whose passages are the noise of others, and passages of each.
_NOISY_QUESTIONS, _NOISE_EACH = 40, 5
_MESSAGE_CHARS = 300


class StackFailed(Exception):
    """The stack cannot be asked at all. The message says why."""


@dataclass(frozen=True)
class Stack:
    """Where a variant is asked, and with which key."""

    url: str
    api_key: str


@dataclass(frozen=True)
class OfferedTool:
    """A tool of the agent; `parameters` is JSON Schema."""

    name: str
    description: str
    parameters: Mapping[str, Any]


class GatewayAsker:
    """Asks over the gateway's API. `stack_of` says where; `noise_of` are the questions that noise is taken from."""

    def __init__(
        self,
        stack_of: Callable[[Variant], Stack],
        *,
        constant: str = "",
        noise_of: Sequence[Item] = (),
        seed: int = 7,
        retries: int = _RETRIES,
        patience_seconds: float = _PATIENCE_SECONDS,
    ) -> None:
        """`constant`: what the variant says that always says the same.

        `patience_seconds`: how long a question waits where a limit of the tenant is used up.
        """
        self._stack_of = stack_of
        self._constant = constant
        self._noise_of = noise_of
        self._seed = seed
        self._retries = retries
        self._patience_seconds = patience_seconds
        self._clients: dict[Stack, openai.AsyncOpenAI] = {}
        self._pools: dict[str, asyncio.Task[list[Passage]]] = {}
        # Stacks that do not know `include_evidence`: their records have what is cited and no more.
        self._without_evidence: set[Stack] = set()
        self._models: dict[Stack, str] = {}

    async def close(self) -> None:
        """Ends what is under way and closes the connections."""
        for task in self._pools.values():
            task.cancel()
        for client in self._clients.values():
            await client.close()

    async def ask(self, item: Item, variant: Variant) -> Record:
        """See Asks."""
        asked_at, began = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}", time.perf_counter()
        kinds: Mapping[Kind, Callable[[Item, Variant], Awaitable[Read]]] = {
            Kind.AGENT: self._agent,
            Kind.SEARCH: self._search,
            Kind.GIVEN: self._given,
            Kind.MODEL: self._model,
            Kind.CONSTANT: self._always,
        }
        read, failure = None, ""
        try:
            read = await kinds[variant.kind](item, variant)
        except openai.APIStatusError as error:
            failure = _refusal(error)
        except StackFailed as error:
            failure = f"unreachable: {error}"
        except openai.OpenAIError as error:
            failure = f"unreachable: {type(error).__name__}"
        except (KeyError, TypeError, ValueError, IndexError) as error:
            failure = f"unreadable: {type(error).__name__}: {error}"[:_MESSAGE_CHARS]
        seconds = round(time.perf_counter() - began, 4)
        if read is None:
            return Record(item.id, variant.name, None, failure=failure, asked_at=asked_at, seconds=seconds)
        return Record(
            item.id, variant.name, read.answered, read.evidence, read.cited, asked_at=asked_at, seconds=seconds
        )

    async def models(self, stack: Stack, owner: str) -> list[str]:
        """What the stack serves of one kind: `pool` (language models), `embedding`. Raises StackFailed."""
        try:
            listed = await self._client(stack).with_options(max_retries=_FIRST_RETRIES).models.list()
        except openai.APIStatusError as error:
            raise StackFailed(f"{stack.url}: {_refusal(error)}") from None
        except openai.OpenAIError as error:
            raise StackFailed(f"{stack.url} cannot be reached ({type(error).__name__})") from None
        return [one.id for one in listed.data if one.owned_by == owner]

    async def tools(self, stack: Stack) -> list[OfferedTool]:
        """The tools as the agent's model sees them (MCP `tools/list`); none where the key may not see them."""
        asked: dict[str, Json] = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
        headers = {"accept": "application/json, text/event-stream"}
        try:
            url = f"{stack.url.rstrip('/')}/mcp"
            answer = await self._client(stack).post(
                url, cast_to=httpx2.Response, body=asked, options={"headers": headers}
            )
            text = next((line[5:] for line in answer.text.splitlines() if line.startswith("data:")), answer.text)
            tools: list[dict[str, Any]] = json.loads(text)["result"]["tools"]
        except (openai.OpenAIError, ValueError, KeyError, TypeError):
            return []
        return [OfferedTool(one["name"], one.get("description", ""), one.get("inputSchema", {})) for one in tools]

    async def _agent(self, item: Item, variant: Variant) -> Read:
        stack = self._stack_of(variant)
        options: dict[str, Json] = {"cache": "off", "include_steps": True, **variant.options}
        if variant.model:
            options["model"] = variant.model
        more = {"temperature": options.pop("temperature")} if "temperature" in options else {}
        messages = [{"role": "user", "content": item.question}]
        if stack not in self._without_evidence:
            try:
                extended = {**options, "include_evidence": True}
                body = await self._completion(
                    stack, {**more, "model": AGENT, "messages": messages, "sabueso": extended}
                )
                return _answered_by(variant, reading.agent_answer(item, body))
            except openai.BadRequestError as error:
                if "include_evidence" not in error.response.text:
                    raise
                self._without_evidence.add(stack)
        body = await self._completion(stack, {**more, "model": AGENT, "messages": messages, "sabueso": options})
        return _answered_by(variant, reading.agent_answer(item, body))

    async def _search(self, item: Item, variant: Variant) -> Read:
        return reading.search_answer(item, await self._found(item.question, variant))

    async def _given(self, item: Item, variant: Variant) -> Read:
        found = reading.search_answer(item, await self._found(item.question, variant)).answered.passages
        if variant.noise:
            pool = await self._pool(variant)
            found = with_noise(found, pool, variant.noise, _seed_of(self._seed, item), item.sources)
        answered = await self._turn(item, variant, prompts.given(item.question, item.language, found), found)
        return Read(answered, Evidence.SHOWN)

    async def _model(self, item: Item, variant: Variant) -> Read:
        return Read(await self._turn(item, variant, prompts.alone(item.question, item.language)), Evidence.NONE)

    async def _always(self, item: Item, variant: Variant) -> Read:
        return Read(Answered(item.question, self._constant, item.language, strategy=variant.kind.value), Evidence.NONE)

    async def _turn(
        self, item: Item, variant: Variant, messages: list[dict[str, Json]], passages: tuple[Passage, ...] = ()
    ) -> Answered:
        stack = self._stack_of(variant)
        model = variant.model or await self._served_model(stack)
        options = {name: variant.options[name] for name in ("temperature", "max_tokens") if name in variant.options}
        began = time.perf_counter()
        body = await self._completion(stack, {"temperature": 0, **options, "model": model, "messages": messages})
        took = 1000 * (time.perf_counter() - began)
        text = body["choices"][0]["message"]["content"] or ""
        usage: Mapping[str, int] = body.get("usage") or {}
        return Answered(
            item.question,
            text,
            item.language,
            finish="refused" if prompts.is_refusal(text) else "answered",
            passages=passages,
            strategy=variant.kind.value,
            model=model,
            milliseconds={"total": round(took, 1)},
            tokens={"prompt": usage.get("prompt_tokens", 0), "completion": usage.get("completion_tokens", 0)},
        )

    async def _found(self, question: str, variant: Variant) -> dict[str, Any]:
        own = {name: value for name, value in variant.options.items() if name not in ("temperature", "max_tokens")}
        return await self._posted(self._stack_of(variant), "/search", {"query": question, **own})

    async def _pool(self, variant: Variant) -> list[Passage]:
        """Passages of other questions, the same for all questions of a variant; looked up once."""
        if variant.name not in self._pools:
            self._pools[variant.name] = asyncio.create_task(self._gathered(variant))
        return await asyncio.shield(self._pools[variant.name])

    async def _gathered(self, variant: Variant) -> list[Passage]:
        items = random.Random(self._seed).sample(list(self._noise_of), min(len(self._noise_of), _NOISY_QUESTIONS))
        pool: dict[str, Passage] = {}
        for item in items:
            for one in reading.search_answer(item, await self._found(item.question, variant)).answered.passages[
                :_NOISE_EACH
            ]:
                pool.setdefault(one.text, one)
        return list(pool.values())

    async def _served_model(self, stack: Stack) -> str:
        if stack not in self._models:
            served = await self.models(stack, "pool")
            if not served:
                raise ValueError("the gateway serves no model besides the agent; name one in the variant")
            self._models[stack] = served[0]
        return self._models[stack]

    async def _completion(self, stack: Stack, body: Mapping[str, Any]) -> dict[str, Any]:
        return await self._posted(stack, "/chat/completions", body)

    async def _posted(self, stack: Stack, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """The answer. Where a limit is used up this waits for as long as the gateway says, for `patience_seconds`."""
        until = time.monotonic() + self._patience_seconds
        while True:
            try:
                answer = await self._client(stack).post(path, cast_to=httpx2.Response, body=body)
                return cast(dict[str, Any], json.loads(answer.text))
            except openai.RateLimitError:
                # The client has waited already, several times; others that wait may have taken what came free.
                if time.monotonic() > until:
                    raise

    def _client(self, stack: Stack) -> openai.AsyncOpenAI:
        if stack not in self._clients:
            self._clients[stack] = openai.AsyncOpenAI(
                base_url=f"{stack.url.rstrip('/')}/v1",
                api_key=stack.api_key,
                max_retries=self._retries,
                timeout=openai.Timeout(_ANSWER_SECONDS, connect=_CONNECT_SECONDS),
                http_client=httpx2.AsyncClient(trust_env=False),
            )
        return self._clients[stack]


def _answered_by(variant: Variant, read: Read) -> Read:
    """With the model's name: what the agent says of itself is its own."""
    return replace(read, answered=replace(read.answered, model=variant.model)) if variant.model else read


def _seed_of(seed: int, item: Item) -> int:
    """The same for an item in every run, whatever is asked before it."""
    return random.Random(f"{seed} {item.id}").randrange(2**32)


def _refusal(error: openai.APIStatusError) -> str:
    """`code: message`, as the gateway says it."""
    try:
        said: Any = json.loads(error.response.text)["error"]
        return f"{said.get('code') or error.status_code}: {said.get('message', '')}"[:_MESSAGE_CHARS]
    except (ValueError, KeyError, TypeError, AttributeError):
        return f"http_{error.status_code}: no reason given"
