"""Parameters of OpenAI's API that the agent does without: which have no effect, and which it must refuse."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from services.gateway.answer import AGENT
from services.gateway.errors import ApiError

Json = dict[str, Any]


def check_parameters(
    asked: Mapping[str, Any], extra: Iterable[str], ignored: Iterable[str], refused: Mapping[str, tuple[Any, ...]]
) -> None:
    """Raises ApiError for a parameter that the agent does not know, or whose effect it does not have.

    `extra`: names that the request's model does not hold; `refused`: values that ask for nothing, by name.
    """
    for name in extra:
        if name == "model" or name in ignored:
            continue
        if name not in refused:
            message = f"Unrecognized request argument supplied: {name[:100]}."
            raise ApiError(400, message, code="unknown_parameter", param=name[:100])
        if asked[name] not in refused[name]:
            raise not_offered(name)


def not_offered(name: str, why: str = "the agent does not offer this") -> ApiError:
    """The refusal of a parameter that is known and has nothing behind it here."""
    message = f"{name}: `{AGENT}`: {why}. Leave it out, or ask a model directly."
    return ApiError(400, message, code="unsupported_parameter", param=name)


def described(ignored: Iterable[str], refused: Mapping[str, tuple[Any, ...]]) -> Callable[[Json], None]:
    """Completes the JSON Schema of a request's model with what `check_parameters` lets pass, and nothing else."""

    def complete(schema: Json) -> None:
        properties: Json = schema["properties"]
        properties["model"] = {"const": AGENT}
        for name in sorted(ignored):
            properties.setdefault(name, {"description": "Accepted, without effect."})
        for name, values in sorted(refused.items()):
            properties.setdefault(name, {"enum": [*values, None], "description": "Not offered."})
        schema["required"] = ["model", *schema.get("required", [])]
        schema["additionalProperties"] = False

    return complete
