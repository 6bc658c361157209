"""Tokens of one request, as they become known: limits settle by them, metrics and traces report them."""

from dataclasses import dataclass, field


@dataclass
class Meter:
    """Counts of one request. Whoever learns something writes it here; what is exact replaces what was guessed."""

    # The name that was asked for, after aliases.
    model: str = ""
    # An estimate at first.
    prompt_tokens: int = 0
    completion_tokens: int = 0
    # What was set aside for prompt and answer before the request ran.
    reserved_tokens: int = 0
    # Said by the model's server, and so to be believed over any estimate of ours.
    exact: bool = False
    # False until a model was asked: a request that ended before that costs no tokens.
    dispatched: bool = False
    # As the answer says it, for traces.
    response_model: str = ""
    response_id: str = ""
    conversation_id: str = ""
    finish_reasons: list[str] = field(default_factory=list[str])

    def delivered(self, tokens: int) -> None:
        """`tokens` more have gone to the client; an estimate, which a usage of the server replaces."""
        if not self.exact:
            self.completion_tokens += tokens

    def usage(self, prompt_tokens: int, completion_tokens: int) -> None:
        """What the model's server says; the last word counts."""
        self.prompt_tokens, self.completion_tokens, self.exact = prompt_tokens, completion_tokens, True

    @property
    def spent_tokens(self) -> int:
        """What the request cost as far as is known; 0 when no model was asked."""
        return self.prompt_tokens + self.completion_tokens if self.dispatched else 0
