import json

import jsonschema
import pytest

from sabueso.orchestrator.v1 import orchestrator_pb2 as pb
from services.gateway.mcp.tools import as_result, as_tool, wrong_arguments
from services.orchestrator.results import Page, Pages, Passage, Passages, Rows
from services.orchestrator.structured import structured

FOUND = {
    "vector_search": Passages(
        (
            Passage("d", "c", "T", "s.pdf", 0, "", "", "text", "legal", 0.5, {"a": "b"}),
            Passage("d", "e", "T", "s.pdf", 3, "8.3", "es", "text"),
        )
    ),
    "web_search": Pages((Page("https://a.example", "A", "about a", ""),)),
    "sql_query": Rows("SELECT 1", "[1, null]", ("a", "b"), ((1, None), ("x", [1, {}])), truncated=True),
    "contract_total": Rows("SELECT 1", "", (), ()),
}


def tool(name):
    return pb.Tool(name=name, description="d", parameters_schema_json='{"type": "object", "properties": {}}')


@pytest.mark.parametrize("name", FOUND)
def test_what_the_orchestrator_gives_fits_the_schema_that_is_announced(name):
    announced = as_tool(tool(name)).output_schema
    jsonschema.Draft202012Validator.check_schema(announced)
    jsonschema.validate(structured(FOUND[name]), announced)


def test_a_reviewed_query_has_a_title_for_people():
    titles = [as_tool(tool(name)).title for name in ("vector_search", "late_suppliers_by_year")]
    assert titles == ["Document search", "Late suppliers by year"]


def test_a_failure_is_text_alone():
    said = json.dumps({"error": "timeout after 5s", "tool": "web_search"})
    result = as_result(pb.ToolResult(text=said, structured_json=said, failed=True))
    assert (result.is_error, result.content[0].text, result.structured_content) == (True, said, None)
    wrong = wrong_arguments("web_search", "query: it is «empty»")
    assert (wrong.is_error, wrong.structured_content) == (True, None)
    assert json.loads(wrong.content[0].text) == {"error": "query: it is «empty»", "tool": "web_search"}
