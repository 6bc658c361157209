"""What a judge is told, a prompt a task and language: read from prompts.yaml, and known by its hash."""

import hashlib
import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

from pydantic import BaseModel, ConfigDict, ValidationError

from services.runtime.yaml_files import WrongYaml, parse

DEFAULT_LANGUAGE = "en"
# Told after an answer that did not fit; `{complaint}` says how.
REPEAT = "repeat"


class Prompts(BaseModel):
    """Texts by task and language."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    tasks: Mapping[str, Mapping[str, str]]

    @staticmethod
    @cache
    def shipped() -> "Prompts":
        """Those of the product."""
        return Prompts.read(files("services.evaluation.judge").joinpath("prompts.yaml").read_bytes())

    @classmethod
    def read(cls, content: bytes) -> "Prompts":
        """Raises WrongYaml, also when a task has no English prompt."""
        try:
            prompts = cls.model_validate({"tasks": parse(content)})
        except ValidationError as error:
            raise WrongYaml(str(error.errors()[0]["msg"])) from None
        for task in (REPEAT, *prompts.tasks):
            if DEFAULT_LANGUAGE not in prompts.tasks.get(task, {}):
                raise WrongYaml(f"{task}: no prompt in {DEFAULT_LANGUAGE}")
        return prompts

    def text(self, task: str, language: str) -> str:
        """In `language`, or in English where there is none in it. Raises ValueError for an unknown task."""
        if task not in self.tasks:
            raise ValueError(f"no prompt is called {task}; there are {', '.join(sorted(self.tasks))}")
        return self.tasks[task].get(language, self.tasks[task][DEFAULT_LANGUAGE])

    def version(self, task: str, language: str) -> str:
        """The first 12 hex digits of the prompt's SHA-256. Raises ValueError."""
        return _hash(self.text(task, language))

    @property
    def set_version(self) -> str:
        """Of all prompts together, as results record it."""
        return _hash(json.dumps({task: dict(texts) for task, texts in self.tasks.items()}, sort_keys=True))


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]
