"""Reads YAML that people write: whatever they wrote, it is read, or there is one kind of complaint."""

from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

Model = TypeVar("Model", bound=BaseModel)


class WrongYaml(Exception):
    """It cannot be used. `line` counts from 1; None when the reason has no one place. The message has both."""

    def __init__(self, reason: str, line: int | None = None) -> None:
        super().__init__(reason if line is None else f"line {line}: {reason}")
        self.reason = reason
        self.line = line


def parse(content: bytes) -> Any:
    """What is written. Raises WrongYaml."""
    try:
        return yaml.safe_load(content.decode())
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 0
        raise WrongYaml(str(error.problem), line) from None
    except (yaml.YAMLError, UnicodeDecodeError):
        raise WrongYaml("it is not text in UTF-8") from None
    except (ValueError, RecursionError) as error:  # a date that is none, numbers and nesting beyond Python's limits
        raise WrongYaml(str(error)) from None


def read(path: Path, model: type[Model]) -> Model:
    """The file as `model`. Raises OSError, and WrongYaml, which names the first field that is wrong."""
    try:
        return model.model_validate(parse(path.read_bytes()))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "file"
        raise WrongYaml(f"{where}: {first['msg']}") from None
