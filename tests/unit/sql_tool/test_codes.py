"""Every error has one of a closed list of codes."""

import pytest

from services.runtime import errors
from services.runtime.errors import InvalidField, NotPermitted, ServiceError, SqlError
from services.sql_tool import codes, guard, meanings
from services.sql_tool.meanings import Place


def test_every_rule_of_the_guard_has_a_code():
    assert set(guard.RULES) <= set(codes.BY_RULE)
    assert set(codes.BY_RULE.values()) <= set(codes.CODES)


def test_every_error_of_the_project_has_a_code():
    for kind in errors.ALL:
        assert codes.code_of(kind("x")) in codes.CODES


@pytest.mark.parametrize("sqlstate", [*meanings.KNOWN, "42999", "22999", "54001", "0A000", "P0001", ""])
def test_every_sqlstate_has_a_code_and_a_sentence(sqlstate):
    found = meanings.of(sqlstate, Place("x", ("text",), "SELECT x"))
    assert found.code in codes.CODES
    assert found.message.endswith(".")
    assert not found.hint or found.hint.endswith((".", "?"))


def test_a_code_is_added_and_the_rest_stays():
    with pytest.raises(NotPermitted) as caught, codes.coded():
        raise NotPermitted("No.", rule="column", name="x")
    assert caught.value.metadata == {"rule": "column", "name": "x", "code": "unknown_column"}
    with pytest.raises(SqlError) as again, codes.coded(), codes.coded():
        raise SqlError("No.", sqlstate="22012", code="division_by_zero")
    assert again.value.metadata["code"] == "division_by_zero"


def test_wrong_parameters_are_told_from_other_fields():
    assert codes.code_of(InvalidField("x", field="params[1]")) == "wrong_parameters"
    assert codes.code_of(InvalidField("x", field="arguments.since")) == "wrong_parameters"
    assert codes.code_of(InvalidField("x", field="max_rows")) == "invalid_request"
    assert codes.code_of(ServiceError("x")) == "failed"
