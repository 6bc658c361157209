import json

import pytest

from services.orchestrator.calculator.tool import calculator
from services.orchestrator.results import Reply
from services.orchestrator.tool_maker import ToolMaker, ToolTimeouts
from services.runtime.errors import InvalidField
from services.runtime.tenants import Tenant


def made():
    return calculator(ToolMaker(ToolTimeouts()), Tenant(id="acme"))


async def test_the_result_is_a_reply_of_ours_that_can_be_cited():
    tool = made()
    arguments = tool.form.read(json.dumps({"expression": " 8300000 - 7100000 "}))
    found = await tool.call(arguments, 1)
    assert found == Reply(
        "calculate", '{"expression": " 8300000 - 7100000 "}', "8300000 - 7100000 = 1200000", trusted=True
    )


async def test_a_result_that_was_rounded_says_so():
    tool = made()
    assert "≈" in (await tool.call(tool.form.read('{"expression": "1 / 3"}'), 1)).text


async def test_a_wrong_expression_is_told_so_that_it_can_be_mended():
    tool = made()
    with pytest.raises(InvalidField, match="several ways") as raised:
        await tool.call(tool.form.read('{"expression": "1.234,5 + 1"}'), 1)
    assert raised.value.metadata["field"] == "arguments.expression"


def test_nothing_is_remembered_of_it():
    assert made().cache_ttl_seconds == 0
    assert made().kind == "calculate"
