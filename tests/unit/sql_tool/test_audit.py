"""The audit log: one line a statement, whatever becomes of it, without words of statement or values."""

import asyncio
import hashlib
import json
import logging
from decimal import Decimal

import pytest

from services.runtime.errors import NotPermitted
from services.runtime.tenants import SqlSource
from services.runtime.testing import act_as
from services.sql_tool.audit import AuditLog
from services.sql_tool.database import Plan, Result

SQL = "SELECT name FROM people WHERE id = $1 AND pay > 12345"
LOG = AuditLog(b"secret-of-the-installation")


def source(**fields):
    return SqlSource.model_validate({"dsn_secret": "x", "tables": {"t": {"columns": {"a": {}}}}, **fields})


@pytest.fixture(autouse=True)
def _caller(caplog):
    caplog.set_level(logging.INFO, "sabueso.audit")
    act_as("acme", principal="key-1")


def line_of(caplog):
    (record,) = caplog.records
    assert (record.name, record.levelname, record.getMessage()) == ("sabueso.audit", "INFO", "statement")
    plain = set(vars(logging.makeLogRecord({}))) | {"message", "taskName"}
    return {name: value for name, value in vars(record).items() if name not in plain}


def written(caplog, one=None, values=("Ada", Decimal("8.10"), None, "Ada"), log=LOG):
    caplog.clear()
    with log.recording(one or source(), SQL) as record:
        record.values = values
        record.tables = ("public.people",)
        record.done(Result([], [["x"]] * 3, "rows", 0.01, plan_cost=8.125, value_bytes=42))
    return line_of(caplog)


def test_a_line_says_who_ran_what_and_what_came_of_it(caplog):
    line = written(caplog)
    assert 0 <= line.pop("seconds") < 60
    assert len(line.pop("parameters")) == 4
    assert line == {
        "tenant": "acme", "principal": "key-1", "source": "main", "tables": ["public.people"], "action": "run",
        "rows": 3, "bytes": 42, "cost": 8.12, "truncated_by": "rows", "outcome": "OK",
        "statement_sha256": hashlib.sha256(SQL.encode()).hexdigest(),
    }  # fmt: skip


def test_no_word_of_statement_or_value_is_in_it(caplog):
    text = json.dumps(written(caplog))
    assert [word for word in ("SELECT", "name", "12345", "Ada", "8.10") if word in text] == []


def test_equal_values_are_recognised_within_a_tenant_and_nowhere_else(caplog):
    first, number, null, again = written(caplog)["parameters"]
    assert first == again
    assert first != number
    assert null is None
    assert written(caplog, values=["Ada"])["parameters"] == [first]
    assert written(caplog, values=["Ada"], log=AuditLog(b"another secret"))["parameters"] != [first]
    act_as("other")
    assert written(caplog, values=["Ada"])["parameters"] != [first]


def test_plain_has_text_and_values_and_none_has_no_values(caplog):
    plain = written(caplog, source(audit_parameters="plain"))
    assert (plain["statement"], plain["parameters"]) == (SQL, ['"Ada"', '"8.10"', "null", '"Ada"'])
    none = written(caplog, source(audit_parameters="none"))
    assert "parameters" not in none
    assert "statement" not in none


def test_a_refusal_is_written_down_with_its_rule(caplog):
    with pytest.raises(NotPermitted), LOG.recording(source(), SQL):
        raise NotPermitted("Not this column.", rule="column", hint="Use `salary`.")
    line = line_of(caplog)
    assert (line["outcome"], line["rule"], line["tables"]) == ("NOT_PERMITTED", "column", [])
    assert "salary" not in json.dumps(line)


def test_a_bug_and_a_caller_who_went_are_written_down(caplog):
    for error, outcome in ((ZeroDivisionError(), "INTERNAL"), (asyncio.CancelledError(), "CANCELLED")):
        caplog.clear()
        with pytest.raises(type(error)), LOG.recording(source(), SQL):
            raise error
        assert line_of(caplog)["outcome"] == outcome


def test_a_plan_and_a_verified_query_say_so(caplog):
    with LOG.recording(source(), SQL, "late_payments") as record:
        record.planned(Plan(3.14159, 10, frozenset()))
    line = line_of(caplog)
    assert (line["action"], line["cost"], line["verified_query"]) == ("plan", 3.14, "late_payments")
