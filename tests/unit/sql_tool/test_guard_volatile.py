"""Which statements may answer differently tomorrow although no table changed."""

import pytest

from services.sql_tool import guard
from services.sql_tool.allowlist import AllowedTable, of

ALLOWED = of([AllowedTable("public", "contracts", ("id", "status", "signed_on", "paid_at", "now"))])


@pytest.mark.parametrize(
    "expression",
    [
        "now()",
        "pg_catalog.now()",
        '"now"()',
        "current_date",
        "CURRENT_TIMESTAMP(0)",
        "localtime",
        "clock_timestamp()",
        "statement_timestamp()",
        "random()",
        "gen_random_uuid()",
        "age(signed_on)",
        "'now'::timestamp",
        "date 'today'",
        "signed_on > 'Yesterday'",
        "daterange('[today,tomorrow)')",
        "'{now}'::date[]",
        "E'\\x6eow'::timestamp",
        "('to' || 'day')::date",
        "concat('to', 'day')::date",
        "($1::text)::date",
        "'10:00'::timetz",
        "(SELECT x::date FROM (SELECT 'to' || 'day' AS x) q)",
        "(SELECT count(*) FROM contracts TABLESAMPLE system (1))",
    ],
)
def test_what_reads_the_clock_or_chance_is_volatile(expression):
    assert guard.check(f"SELECT {expression} FROM contracts", ALLOWED).volatile


@pytest.mark.parametrize(
    "expression",
    [
        "id",
        "now",
        "status = 'known'",
        "signed_on >= '2024-01-01'",
        "date_trunc('month', signed_on)::date, status || 'x'",
        "age(signed_on, date '2024-01-01')",
        "'2024-01-01'::date + 1",
        "date '2024-01-01'",
        "paid_at::date",
        "(SELECT count(*) FROM contracts TABLESAMPLE system (1) REPEATABLE (1))",
    ],
)
def test_what_depends_on_the_tables_alone_is_not_volatile(expression):
    assert not guard.check(f"SELECT {expression} FROM contracts", ALLOWED).volatile
