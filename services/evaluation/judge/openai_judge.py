"""A judge behind any OpenAI-compatible URL: vLLM, the gateway's model route, a hosted model."""

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import openai

from services.evaluation.answered import Json
from services.evaluation.judge.budget import Budget
from services.evaluation.judge.fitting import fitting_answer
from services.evaluation.judge.judge import Check, JudgeFailed, Usage, no_complaint
from services.evaluation.judge.prompts import REPEAT, Prompts

# Greedy and seeded: the same question shall get the same verdict, as far as the server can keep that.
_TEMPERATURE, _SEED = 0.0, 7
_CONNECT_SECONDS = 5.0
# Where a server does not count: never fewer than there are, in the languages that we judge.
_CHARACTERS_A_TOKEN = 3


class OpenAIJudge:
    """A Judge over chat completions with structured output (`response_format`, as vLLM and OpenAI have it)."""

    def __init__(
        self,
        base_url: str,
        name: str,
        prompts: Prompts,
        *,
        api_key: str = "none",
        budget: Budget | None = None,
        concurrency: int = 4,
        retries: int = 3,
        timeout_seconds: float = 120.0,
        max_tokens: int = 4096,
    ) -> None:
        """`base_url` ends in `/v1`. `timeout_seconds` bounds one HTTP try, `max_tokens` one answer.

        `retries`: of what failed on the way (no connection, 408, 409, 429, 5xx), by the client library.
        """
        self._name = name
        self._url = base_url.rstrip("/")
        self._prompts = prompts
        self._budget = budget or Budget()
        self._max_tokens = max_tokens
        self._turn = asyncio.Semaphore(concurrency)
        self._usage = Usage()
        timeout = openai.Timeout(timeout_seconds, connect=_CONNECT_SECONDS)
        self._client = openai.AsyncOpenAI(base_url=base_url, api_key=api_key, max_retries=retries, timeout=timeout)

    async def close(self) -> None:
        """Closes the connections."""
        await self._client.close()

    @property
    def name(self) -> str:
        """See Judge."""
        return self._name

    @property
    def url(self) -> str:
        """See Judge."""
        return self._url

    @property
    def usage(self) -> Usage:
        """See Judge."""
        return self._usage

    def prompt_version(self, task: str, language: str) -> str:
        """See Judge."""
        return self._prompts.version(task, language)

    async def ask(
        self,
        task: str,
        language: str,
        facts: Mapping[str, Json],
        schema: Mapping[str, Json],
        check: Check = no_complaint,
    ) -> Json:
        """See Judge."""
        messages = [
            {"role": "system", "content": self._prompts.text(task, language)},
            {"role": "user", "content": json.dumps(facts, ensure_ascii=False)},
        ]

        async def reply(complaint: str) -> str:
            if complaint:
                told = self._prompts.text(REPEAT, language).format(complaint=complaint)
                messages.append({"role": "user", "content": told})
            said = await self._said(task, messages, schema)
            messages.append({"role": "assistant", "content": said})
            return said

        async with self._turn:
            try:
                return await fitting_answer(reply, schema, check, self._count_repeat)
            except JudgeFailed:
                self._usage.failed += 1
                raise

    def _count_repeat(self) -> None:
        self._usage.repeated += 1

    async def _said(self, task: str, messages: list[dict[str, str]], schema: Mapping[str, Json]) -> str:
        """The text of one completion. Raises JudgeFailed, OverBudget."""
        asked = sum(_tokens(message["content"]) for message in messages)
        reserved = asked + self._max_tokens
        self._budget.reserve(reserved)
        self._usage.calls += 1
        # Whoever gives up waiting does not know what the server has done by then: it counts as the most.
        used = reserved
        create: Any = self._client.chat.completions.create
        try:
            completion = await create(
                model=self._name,
                messages=messages,
                temperature=_TEMPERATURE,
                seed=_SEED,
                max_tokens=self._max_tokens,
                response_format={
                    "type": "json_schema",
                    "json_schema": {"name": task, "schema": dict(schema), "strict": True},
                },
            )
            said = completion.choices[0].message.content or ""
            read, written = _counted(completion.usage, asked, _tokens(said))
            self._usage.prompt_tokens += read
            self._usage.completion_tokens += written
            used = read + written
            return said
        except openai.APIStatusError as error:
            used = 0
            raise JudgeFailed(f"the judge's server answered HTTP {error.status_code}") from None
        except openai.OpenAIError as error:
            used = reserved if isinstance(error, openai.APITimeoutError) else 0
            raise JudgeFailed(f"the judge's server did not answer ({type(error).__name__})") from None
        except (AttributeError, IndexError, TypeError, ValueError):
            # The library takes whatever is JSON for a completion.
            raise JudgeFailed("the judge's server answered something else than a completion") from None
        finally:
            self._budget.settle(reserved, used)


def _tokens(text: str) -> int:
    return len(text) // _CHARACTERS_A_TOKEN + 1


def _counted(usage: Any, read: int, written: int) -> tuple[int, int]:
    """What the server counted, or else the estimates."""
    counts = (getattr(usage, "prompt_tokens", None), getattr(usage, "completion_tokens", None))
    return counts if all(isinstance(one, int) and one >= 0 for one in counts) else (read, written)  # pyright: ignore[reportReturnType]
