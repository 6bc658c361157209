"""How many tokens a request reserves before it runs: its prompt and the most that it lets a model write."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast

from services.gateway.errors import ApiError
from services.gateway.limits.estimates import prompt_tokens
from services.gateway.limits.plan import Limit, smallest_token_limit

Writes = Literal["text", "nothing"]
_CAPS = ("max_tokens", "max_completion_tokens", "max_output_tokens")
_MOST_TOKENS, _MOST_CHOICES = 2**31 - 1, 1024
# An estimate may be too high by this factor; what does not fit even then never fits.
_DOUBT = 2
# Tokens of the shortest answer that is worth a prompt.
_LEAST_ANSWER = 16


@dataclass(frozen=True, slots=True)
class Reservation:
    """Tokens to set aside for a request; where there are fewer, but `least`, those that are left will do."""

    tokens: int = 0
    least: int = 0

    @classmethod
    def guessed(cls, prompt: int, guess: int) -> "Reservation":
        """Of an answer whose length nobody has said: no guess of ours keeps out what may well fit."""
        return cls(prompt + guess, prompt + min(guess, _LEAST_ANSWER))


@dataclass(frozen=True, slots=True)
class Estimate:
    """Guessed tokens of a request. `output`: the most that is written; None when the request does not say.

    `choices` answers of a guessed length are expected then.
    """

    prompt: int
    output: int | None = 0
    choices: int = 1

    @classmethod
    def of(cls, asked: Mapping[str, Any], writes: Writes) -> "Estimate":
        """Of a request whose model writes text, or nothing. Raises a 400 that names a cap which is none."""
        prompt = prompt_tokens(asked)
        if writes != "text":
            return cls(prompt)
        # The largest: servers differ in which of them they follow.
        caps = [_whole(asked, name, 0, _MOST_TOKENS) for name in _CAPS if name in asked]
        choices = max((_whole(asked, name, 1, _MOST_CHOICES) for name in ("n", "best_of") if name in asked), default=1)
        choices *= _prompts_in(asked)
        return cls(prompt, max(caps) * choices if caps else None, choices)

    def reserve(self, plan: tuple[Limit, ...], guess: int) -> "Reservation":
        """What to reserve; `guess` for each answer whose length is not said. Raises a 400 when it can never fit."""
        smallest = smallest_token_limit(plan)
        if smallest is not None and self.prompt // _DOUBT + (self.output or 0) > smallest.most:
            raise _never_fits(self, smallest)
        if self.output is None:
            return Reservation.guessed(self.prompt, guess * self.choices)
        return Reservation(self.prompt + self.output, self.prompt + self.output)


def _whole(asked: Mapping[str, Any], name: str, least: int, most: int) -> int:
    value: Any = asked[name]
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        message = f"{name}: send a whole number from {least} to {most}, or leave it out."
        raise ApiError(400, message, code="invalid_field", param=name)
    return value


def _prompts_in(asked: Mapping[str, Any]) -> int:
    """A legacy completion answers each of several prompts."""
    prompt: Any = asked.get("prompt")
    if not isinstance(prompt, list) or not prompt:
        return 1
    prompts = cast(list[Any], prompt)
    return 1 if isinstance(prompts[0], int) else len(prompts)


def _never_fits(estimate: Estimate, least: Limit) -> ApiError:
    unit = "a minute" if least.kind == "tokens" else "a day"
    whose = "tenant's" if least.scope == "tenant" else f"{least.scope}'s"
    asked = f"about {estimate.prompt} tokens of prompt"
    if estimate.output:
        asked += f" and up to {estimate.output} of output"
    advice = "Ask for less output or send less text." if estimate.output else "Send less text."
    message = f"This request can never fit the {whose} limit of {least.most} tokens {unit}: it has {asked}. {advice}"
    return ApiError(400, message, code="limit_never_fits")
