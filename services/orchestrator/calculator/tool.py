"""The tool `calculate`: exact arithmetic for the model, whose results can be cited."""

from dataclasses import replace

from pydantic import Field

from services.orchestrator.arguments import Arguments, TypedForm
from services.orchestrator.calculator.expression import MAX_CHARS, evaluate
from services.orchestrator.calculator.functions import BadExpression
from services.orchestrator.results import Found, Reply
from services.orchestrator.tool_maker import ToolMaker
from services.orchestrator.tools import Tool
from services.runtime.errors import InvalidField
from services.runtime.tenants import Tenant

NAME = "calculate"


class Calculate(Arguments):
    """Arguments of calculate."""

    expression: str = Field(
        min_length=1,
        max_length=MAX_CHARS,
        description="Numbers as 1234.5, + - * / ^ and parentheses, 15% for 0.15, dates as 2025-03-01, and "
        "sum, avg, min, max, round(x; decimals), abs, days(from; to).",
    )


def calculator(maker: ToolMaker, tenant: Tenant) -> Tool:
    """The tool of a tenant. It reaches nothing, and is not worth remembering."""
    form = TypedForm(Calculate)

    async def call(arguments: Calculate, seconds: float) -> Found:
        try:
            result = evaluate(arguments.expression)
        except BadExpression as error:
            raise InvalidField(f"{error}.", field="arguments.expression") from None
        equals = "=" if result.exact else "≈"
        said = f"{arguments.expression.strip()} {equals} {result}"
        return Reply(NAME, form.canonical(arguments), said, trusted=True)

    tool = maker.make(tenant, NAME, call, form=form, result=Reply)
    return replace(tool, cache_ttl_seconds=0)
