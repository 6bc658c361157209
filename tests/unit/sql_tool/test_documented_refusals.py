"""docs/sql-guard.md is true: what it says is refused is, and what it says to write instead is not."""

import re
from pathlib import Path

import pytest

from services.runtime.errors import ServiceError
from services.sql_tool import guard
from services.sql_tool.allowlist import AllowedTable, of

TEXT = Path("docs/sql-guard.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| `(SELECT .+?|VALUES .+?)`(?: \([^|]*\))? \| `(.+?)` \|$", TEXT, re.MULTILINE)
ALLOWED = of(
    [
        AllowedTable("public", "contracts", ("id", "title", "amount")),
        AllowedTable("public", "invoices", ("id", "contract_id"), frozenset({"account"})),
    ]
)


def test_every_row_of_the_table_is_read():
    assert len(ROWS) == TEXT.count("\n| `")


@pytest.mark.parametrize(("refused", "instead"), ROWS)
def test_what_is_refused_can_be_written_otherwise(refused, instead):
    with pytest.raises(ServiceError):
        guard.check(refused, ALLOWED)
    assert guard.check(instead, ALLOWED).sql == instead
