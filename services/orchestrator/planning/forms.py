"""The forms in which a model plans, and says what is missing; read with patience."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from services.orchestrator.planning.graph import BadPlan, Draft
from services.orchestrator.query_writer import json_in

_MAX_MISSING_CHARS = 300


def _as_text(value: Any) -> Any:
    """Numbers serve as ids."""
    return "" if value is None else str(value) if isinstance(value, int) else value


def _as_list(value: Any) -> Any:
    """One id serves as a list of one, nothing as none."""
    if value is None or value == "":
        return []
    return [value] if isinstance(value, str | int) else value


_Text = Annotated[str, BeforeValidator(_as_text)]


class _Form(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class _Step(_Form):
    id: _Text = ""
    question: _Text = ""
    specialist: _Text = ""
    depends_on: Annotated[list[_Text], BeforeValidator(_as_list)] = []


class _Plan(_Form):
    steps: list[_Step]


class _Check(_Form):
    enough: bool
    missing: _Text = ""
    steps: list[_Step] = Field(default=[])


_Filled = TypeVar("_Filled", bound=_Form)


@dataclass(frozen=True)
class Check:
    """What a model says of what was found: nothing is missing, or what is and how to find it."""

    enough: bool
    missing: str = ""
    drafts: tuple[Draft, ...] = ()


def plan_schema(specialists: Collection[str], max_steps: int) -> Mapping[str, Any]:
    """JSON Schema of a plan."""
    return _object("QuestionPlan", steps=_steps(specialists, 1, max_steps))


def check_schema(specialists: Collection[str], max_steps: int) -> Mapping[str, Any]:
    """JSON Schema of a check."""
    fields = {"enough": {"type": "boolean"}, "missing": {"type": "string"}}
    return _object("EvidenceCheck", **fields, steps=_steps(specialists, 0, max_steps))


def read_plan(text: str) -> tuple[Draft, ...]:
    """The steps that a model wrote. Raises BadPlan."""
    return _drafts(_read(_Plan, text).steps)


def read_check(text: str) -> Check:
    """What a model said. Raises BadPlan."""
    form = _read(_Check, text)
    missing = " ".join(form.missing.split())[:_MAX_MISSING_CHARS]
    return Check(True) if form.enough else Check(False, missing, _drafts(form.steps))


def _drafts(steps: Sequence[_Step]) -> tuple[Draft, ...]:
    return tuple(Draft(one.id, one.question, one.specialist, tuple(one.depends_on)) for one in steps)


def _read(form: type[_Filled], text: str) -> _Filled:
    try:
        return form.model_validate(json_in(text))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise BadPlan(f"{where}: {first['msg']}") from None
    except ValueError:
        raise BadPlan("the reply is not a JSON object") from None


def _object(title: str, **fields: Any) -> Mapping[str, Any]:
    named = {"title": title} if title else {}
    return named | {
        "type": "object",
        "properties": fields,
        "required": list(fields),
        "additionalProperties": False,
    }


def _steps(specialists: Collection[str], least: int, most: int) -> Mapping[str, Any]:
    text = {"type": "string"}
    step = _object(
        "",
        id=text,
        question=text,
        specialist={"type": "string", "enum": [*specialists, ""]},
        depends_on={"type": "array", "items": text},
    )
    return {"type": "array", "items": step, "minItems": least, "maxItems": most}
