"""One way of answering that a run tries: which part of a running stack is asked, and with which settings."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, cast

import yaml

from services.evaluation.answered import Json


class Kind(StrEnum):
    """What is asked."""

    # The agent, as every client asks it.
    AGENT = "agent"
    # The search alone: passages and no answer.
    SEARCH = "search"
    # Passages of the search, then one turn of a model that is shown them, with noise among them where that is wanted.
    GIVEN = "given"
    # A model without any retrieval.
    MODEL = "model"
    # Nobody: the same answer whatever is asked.
    CONSTANT = "constant"


_OF_AGENT = frozenset(
    "strategy collections tools max_iterations deadline_ms query_transform cache labels reflection temperature".split()
)
_OF_SEARCH = frozenset(
    "collections top_k mode rerank fusion score_threshold diversity max_per_document route labels".split()
)
_OF_MODEL = frozenset({"temperature", "max_tokens"})
_OPTIONS: Mapping[Kind, frozenset[str]] = {
    Kind.AGENT: _OF_AGENT,
    Kind.SEARCH: _OF_SEARCH,
    Kind.GIVEN: _OF_SEARCH | _OF_MODEL,
    Kind.MODEL: _OF_MODEL,
    Kind.CONSTANT: frozenset(),
}
# Of the variant itself.
_OWN = frozenset({"kind", "model", "noise", "url", "key_variable"})


class WrongVariant(ValueError):
    """A variant that cannot be asked. The message says what is wrong, and what there is."""


@dataclass(frozen=True)
class Variant:
    """`name` is unique in a run.

    `options` are fields of the request as its endpoint has them; the agent's cache is off unless they say otherwise:
    what an earlier run remembered is not what this one measures.
    """

    name: str
    kind: Kind = Kind.AGENT
    options: Mapping[str, Json] = field(default_factory=dict[str, Json])
    # Served name of the model that answers. Empty: of the agent its own, else the first that the gateway lists.
    model: str = ""
    # Passages of other questions that are mixed in, for `given`.
    noise: int = 0
    # Another stack, or another tenant of the same one, whose settings are compared: its address, and the environment
    # variable with its key.
    url: str = ""
    key_variable: str = ""

    def written(self) -> dict[str, Json]:
        """As a manifest keeps it."""
        return {
            "name": self.name,
            "kind": self.kind.value,
            "options": dict(self.options),
            "model": self.model,
            "noise": self.noise,
            "url": self.url,
            "key_variable": self.key_variable,
        }

    @classmethod
    def read(cls, written: Mapping[str, Any]) -> "Variant":
        """The inverse of `written`."""
        own: dict[str, Any] = {**written, "kind": Kind(written["kind"])}
        return cls(**own)

    @classmethod
    def parse(cls, text: str) -> "Variant":
        """From a command line: `name: key=value key=value`. Lists are written with commas. Raises WrongVariant."""
        name, _, rest = text.partition(":")
        if not name.strip() or any(one.isspace() for one in name.strip()):
            raise WrongVariant(f"`{text}`: a variant is written `name: key=value …`, and its name has no blanks")
        values: dict[str, Json] = {}
        for word in rest.split():
            key, sign, value = word.partition("=")
            if not sign:
                raise WrongVariant(f"`{word}`: settings of a variant are written key=value")
            values[key] = _value(value)
        return cls.of(name.strip(), values)

    @classmethod
    def of(cls, name: str, values: Mapping[str, Json]) -> "Variant":
        """From settings by name. Raises WrongVariant."""
        kinds = [kind.value for kind in Kind]
        kind_name = values.get("kind", Kind.AGENT.value)
        if kind_name not in kinds:
            raise WrongVariant(f"{name}: no kind is called {kind_name}; there are {', '.join(kinds)}")
        kind = Kind(str(kind_name))
        known = _OPTIONS[kind] | _OWN
        if unknown := sorted(set(values) - known):
            raise WrongVariant(f"{name}: {kind} takes no {', '.join(unknown)}; it takes {', '.join(sorted(known))}")
        if values.get("model") and kind in (Kind.SEARCH, Kind.CONSTANT):
            # Two variants that differ in it alone would be one, and be compared.
            raise WrongVariant(f"{name}: {kind} asks no model")
        noise = values.get("noise", 0)
        if not isinstance(noise, int) or noise < 0 or (noise and kind is not Kind.GIVEN):
            raise WrongVariant(f"{name}: noise is a number of passages, and only `given` can mix them in")
        options = {key: _listed(key, value) for key, value in values.items() if key in _OPTIONS[kind]}
        texts = {key: str(values.get(key, "")) for key in ("model", "url", "key_variable")}
        return cls(name, kind, options, noise=noise, **texts)


def check_names(variants: Sequence[Variant]) -> None:
    """Raises WrongVariant where a name comes twice, or there is none."""
    names = [one.name for one in variants]
    if not names:
        raise WrongVariant("there is no variant to run")
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise WrongVariant(f"two variants are called {', '.join(twice)}")


def _value(text: str) -> Json:
    try:
        return cast(Json, yaml.safe_load(text))
    except yaml.YAMLError as error:
        raise WrongVariant(f"`{text}` cannot be read: {error}") from None


def _listed(key: str, value: Json) -> Json:
    if key not in ("collections", "tools", "labels") or isinstance(value, list):
        return value
    return [one for one in str(value).split(",") if one]
