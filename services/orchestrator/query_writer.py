"""Lets the model write search queries as JSON, and reads what it wrote with patience."""

import asyncio
import json
import re
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal, TypeVar, cast

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from services.orchestrator import prompts
from services.orchestrator.model import Message, Model, Sampling, Spent, whole_turn
from services.runtime.errors import ServiceError

MAX_QUERY_CHARS, MAX_PASSAGE_CHARS = 400, 1200
MAX_PARAPHRASES, MAX_SUB_QUESTIONS = 3, 4
_MAX_TOKENS = 320
_THOUGHT = re.compile(r"^.*</think>", re.DOTALL)
_BULLET = re.compile(r"^\s*(?:\d{1,2}[.)]|[-*•])\s+")


def _line(value: Any) -> Any:
    """One line of text, without the bullet or quotes that models like to add."""
    if not isinstance(value, str):
        return value
    return _BULLET.sub("", " ".join(value.split())).strip('"“”«» ')


def _lines(value: Any) -> Any:
    """A list of lines; one text stands for its lines."""
    if isinstance(value, str):
        value = value.splitlines()
    return [one for one in cast(list[Any], value) if one] if isinstance(value, list) else value


Line = Annotated[str, BeforeValidator(_line), Field(min_length=1, pattern=r"\w")]
Lines = Annotated[list[Annotated[str, BeforeValidator(_line)]], BeforeValidator(_lines)]


class Form(BaseModel):
    """What the model fills in. The names of the fields tell it what belongs there."""

    model_config = ConfigDict(frozen=True, extra="ignore")
    task: ClassVar[str]

    @classmethod
    def json_schema(cls) -> dict[str, Any]:
        """The form as JSON Schema, in the few words that every server knows."""
        whole = cls.model_json_schema()
        properties = {
            name: {key: value for key, value in prop.items() if key in ("type", "items", "enum", "maxItems")}
            for name, prop in whole["properties"].items()
        }
        return {
            "title": cls.__name__,
            "type": "object",
            "properties": properties,
            "required": list(properties),
            "additionalProperties": False,
        }


class HypotheticalPassage(Form):
    """HyDE (Gao et al. 2022): a passage that would answer lies nearer to the real one than the question does."""

    task: ClassVar[str] = prompts.HYPOTHETICAL_PASSAGE
    hypothetical_passage: Line


class Paraphrases(Form):
    """The query in other words."""

    task: ClassVar[str] = prompts.PARAPHRASES
    paraphrases: Lines = Field(min_length=1, json_schema_extra={"maxItems": MAX_PARAPHRASES})


class SubQuestions(Form):
    """What a query asks, one by one. Empty when it asks one thing."""

    task: ClassVar[str] = prompts.SUB_QUESTIONS
    sub_questions: Lines = Field(json_schema_extra={"maxItems": MAX_SUB_QUESTIONS})


class BroaderQuestion(Form):
    """Step-back prompting (Zheng et al. 2023): the principle behind the detail."""

    task: ClassVar[str] = prompts.BROADER_QUESTION
    broader_question: Line


class NextSearch(Form):
    """Whether what was found suffices, and what to look for next if not."""

    task: ClassVar[str] = prompts.NEXT_SEARCH
    sufficient: bool
    next_query: Annotated[str, BeforeValidator(_line)] = ""


class SearchPlan(Form):
    """How to search, and the queries for it, in one turn."""

    task: ClassVar[str] = prompts.SEARCH_PLAN
    transform: Literal["none", "hyde", "multi_query", "decompose", "step_back", "multi_step"]
    queries: Lines = Field(default=[], json_schema_extra={"maxItems": MAX_SUB_QUESTIONS})


class StandaloneQuery(Form):
    """A follow-up that can be understood by itself."""

    task: ClassVar[str] = prompts.STANDALONE_QUERY
    standalone_query: Line


Filled = TypeVar("Filled", bound=Form)


class NotWritten(Exception):
    """The model gave nothing that can be used; the message says why, in one line for people."""


class QueryWriter:
    """Asks `model`. What its turns cost is added to `spent`."""

    def __init__(self, model: Model, spent: Spent) -> None:
        self._model = model
        self._spent = spent

    async def fill(self, form: type[Filled], text: str, seconds: float, history: Sequence[Message] = ()) -> Filled:
        """The form as the model filled it in for `text`. Raises NotWritten, after `seconds` at the latest."""
        messages = [Message("system", form.task), *history, Message("user", text)]
        try:
            async with asyncio.timeout(seconds):
                sampling = Sampling(max_tokens=_MAX_TOKENS, json_schema=form.json_schema())
                turn = await whole_turn(self._model, messages, sampling, self._spent)
        except TimeoutError:
            raise NotWritten(f"the model did not answer within {seconds:.3g}s") from None
        except ServiceError as error:
            raise NotWritten(error.message.rstrip(".")) from None
        try:
            return form.model_validate(json_in(turn.text))
        except (ValidationError, ValueError):
            raise NotWritten("the model's answer could not be used") from None


def json_in(text: str) -> dict[str, Any]:
    """The first JSON object in `text`, whatever stands around it. Raises ValueError when there is none."""
    text = _THOUGHT.sub("", text)
    decoder = json.JSONDecoder()
    for match in list(re.finditer(r"\{", text))[:20]:
        try:
            value, _ = decoder.raw_decode(text, match.start())
            json.dumps(value, ensure_ascii=False).encode()  # half a surrogate pair is no text
        except (ValueError, RecursionError):
            continue
        return cast(dict[str, Any], value)  # what begins with a brace is an object
    raise ValueError("no JSON object")
