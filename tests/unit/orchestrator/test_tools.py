import pytest

from services.orchestrator.arguments import TypedForm, WrongArguments
from services.orchestrator.tools import SqlQuery, VectorSearch, WebSearch, vector_search_of


def test_the_schema_names_the_collections_and_nothing_superfluous():
    assert TypedForm(vector_search_of(("contracts", "policies"))).schema == {
        "type": "object",
        "properties": {
            "query": {
                "type": "string",
                "minLength": 1,
                "maxLength": 4096,
                "description": "What to look for: a full sentence in the user's words.",
            },
            "top_k": {
                "type": "integer",
                "minimum": 1,
                "maximum": 20,
                "default": 5,
                "description": "Passages wanted.",
            },
            "collection": {
                "type": "string",
                "enum": ["contracts", "policies"],
                "description": "Search only this collection.",
            },
        },
        "required": ["query"],
        "additionalProperties": False,
    }


def test_one_collection_is_still_a_choice():
    collection = TypedForm(vector_search_of(("contracts",))).schema["properties"]["collection"]
    assert collection.get("enum", [collection.get("const")]) == ["contracts"]


def test_a_tenant_without_collections_gets_a_free_field():
    assert vector_search_of(()) is VectorSearch


def test_null_means_absent():
    parsed = vector_search_of(("a",)).model_validate_json('{"query":"x","top_k":null,"collection":null}')
    assert (parsed.top_k, parsed.collection) == (5, None)


def test_composed_and_decomposed_accents_are_one_query():
    assert WebSearch(query=" clausula\u0301 ") == WebSearch(query="clausul\u00e1")


def test_parameters_written_as_text_are_read():
    parsed = SqlQuery.model_validate_json('{"query":"SELECT $1","params":"[\\"a\\", 9007199254740993]"}')
    assert parsed.params == ["a", 9007199254740993]


@pytest.mark.parametrize(
    ("arguments", "model", "says"),
    [
        ('{"query":""}', VectorSearch, "query"),
        ('{"query":"x","top_k":0}', VectorSearch, "top_k"),
        ('{"query":"x","limit":3}', VectorSearch, "limit"),
        ('{"query":"x","collection":"z"}', vector_search_of(("a", "b")), "collection"),
        ('{"query":"x","params":[NaN]}', SqlQuery, "NaN"),
        ('{"query":"x","params":"[NaN]"}', SqlQuery, "params"),
        ('{"query":"x","params":"a, b"}', SqlQuery, "params"),
        ('{"query":"x"', WebSearch, "Invalid JSON"),
        ("[]", WebSearch, "object"),
    ],
)
def test_wrong_arguments_are_refused_by_name(arguments, model, says):
    with pytest.raises(WrongArguments, match=says):
        TypedForm(model).read(arguments)
