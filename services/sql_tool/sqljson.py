"""The words of PostgreSQL's SQL/JSON that the parser does not know."""

from collections.abc import Mapping

# Functions with a grammar of their own, and what stands for them: a function that takes any arguments.
CALLS: Mapping[str, str] = dict.fromkeys(
    "json_array json_exists json_object json_objectagg json_query json_scalar json_serialize json_value".split(),
    "concat",
) | {"json_arrayagg": "array_agg", "json": "abs"}
# Clauses of these, as words in their order; the longer of two comes first.
CLAUSES = tuple(
    tuple(clause.split())
    for how in ("with", "without")
    for clause in (
        *(f"{how} {kind}{array}wrapper" for kind in ("conditional ", "unconditional ", "") for array in ("array ", "")),
        f"{how} unique keys",
        f"{how} unique",
    )
) + tuple(
    tuple(clause.split())
    for clause in (
        "format json encoding utf8",
        "format json",
        "keep quotes on scalar string",
        "omit quotes on scalar string",
        "keep quotes",
        "omit quotes",
        "absent on null",
        "null on null",
        *(
            f"{value} on {event}"
            for event in ("empty", "error")
            for value in ("error", "null", "true", "false", "unknown", "empty array", "empty object", "empty")
        ),
        "on empty",
        "on error",
    )
)
PREDICATES = tuple(
    tuple(clause.split())
    for kind in ("value ", "array ", "object ", "scalar ", "")
    for clause in (
        f"{kind}with unique keys", f"{kind}without unique keys", f"{kind}with unique", f"{kind}without unique", kind
    )
)  # fmt: skip
