"""OpenTelemetry's semantic conventions for generative AI: every name that we use, by version, and nowhere else.

They are still in development and change; an installation chooses the version that its tools read.
Sources: semantic-conventions v1.36.0 and v1.41.0, docs/gen-ai; semantic-conventions-genai v0.1.0, docs/gen-ai.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Version = Literal["1.36", "1.41", "genai-0.1"]

OPERATION = "gen_ai.operation.name"
REQUEST_MODEL = "gen_ai.request.model"
RESPONSE_MODEL = "gen_ai.response.model"
RESPONSE_ID = "gen_ai.response.id"
CONVERSATION_ID = "gen_ai.conversation.id"
FINISH_REASONS = "gen_ai.response.finish_reasons"
INPUT_TOKENS = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
AGENT_NAME = "gen_ai.agent.name"
ERROR_TYPE = "error.type"
EVALUATION_EVENT = "gen_ai.evaluation.result"
EVALUATION_NAME = "gen_ai.evaluation.name"
EVALUATION_SCORE = "gen_ai.evaluation.score.value"
EVALUATION_LABEL = "gen_ai.evaluation.score.label"

# Numbers of a request that are attributes under its own name, and of what type.
PARAMETERS: Mapping[str, tuple[str, type[int] | type[float]]] = {
    "temperature": ("gen_ai.request.temperature", float),
    "top_p": ("gen_ai.request.top_p", float),
    "frequency_penalty": ("gen_ai.request.frequency_penalty", float),
    "presence_penalty": ("gen_ai.request.presence_penalty", float),
    "seed": ("gen_ai.request.seed", int),
    "n": ("gen_ai.request.choice.count", int),
    "max_tokens": ("gen_ai.request.max_tokens", int),
    "max_completion_tokens": ("gen_ai.request.max_tokens", int),
    "max_output_tokens": ("gen_ai.request.max_tokens", int),
}


@dataclass(frozen=True)
class Conventions:
    """The names that differ between versions; an empty one is not said at all."""

    provider: str
    streamed: str = ""
    first_chunk_seconds: str = ""
    # Of content, which is told on request only; empty: in events, as of old.
    input_messages: str = ""
    output_messages: str = ""
    operations: Mapping[str, str] = field(
        default_factory=lambda: {
            "/v1/chat/completions": "chat",
            "/v1/responses": "chat",
            "/v1/completions": "text_completion",
            "/v1/embeddings": "embeddings",
            "/v1/rerank": "rerank",  # no version has a word for it
        }
    )
    agent_operation: str = "invoke_agent"


VERSIONS: Mapping[Version, Conventions] = {
    "1.36": Conventions(provider="gen_ai.system"),
    "1.41": Conventions(
        provider="gen_ai.provider.name",
        first_chunk_seconds="gen_ai.response.time_to_first_chunk",
        input_messages="gen_ai.input.messages",
        output_messages="gen_ai.output.messages",
    ),
    "genai-0.1": Conventions(
        provider="gen_ai.provider.name",
        streamed="gen_ai.request.stream",
        first_chunk_seconds="gen_ai.response.time_to_first_chunk",
        input_messages="gen_ai.input.messages",
        output_messages="gen_ai.output.messages",
    ),
}
