"""The demo tenants' files are good tenant files, hold no key, and agree with documents and tables."""

import pytest

from demo import database, documents, tenants
from services.runtime.tenants import load

KEYS = {"demo": "key-of-demo", "tiny": "key-of-tiny", "other": "key-of-other"}


def test_written_files_load_and_keep_only_hashes_of_keys(tmp_path):
    paths = tenants.write_tenants(tmp_path, KEYS)
    loaded = load(tmp_path)
    assert set(loaded) == set(KEYS)
    for path in paths:
        assert not any(key in path.read_text() for key in KEYS.values())
    assert len({tenant.keys[0].sha256 for tenant in loaded.values()}) == 3
    assert [path.name for path in tmp_path.glob("*.new")] == []


def test_writing_the_same_again_touches_nothing(tmp_path):
    [path] = tenants.write_tenants(tmp_path, {"tiny": "a"})
    before = path.stat().st_mtime_ns
    tenants.write_tenants(tmp_path, {"tiny": "a"})
    assert path.stat().st_mtime_ns == before
    text = path.read_text()
    tenants.write_tenants(tmp_path, {"tiny": "b"})
    assert path.read_text() != text


def test_the_tiny_tenant_has_small_limits():
    limits = tenants.describe("tiny").limits
    assert (limits.requests_per_minute, limits.tokens_per_minute, limits.concurrent_requests) == (10, 2000, 2)


@pytest.mark.parametrize("tenant_id", tenants.TENANTS)
def test_every_document_goes_to_a_collection_of_the_tenant(tenant_id):
    used = {document.collection for document in documents.of_tenant(tenant_id)}
    assert used == set(tenants.describe(tenant_id).collections)


@pytest.mark.parametrize("tenant_id", tenants.TENANTS)
def test_every_listed_table_exists_and_references_point_to_listed_columns(tenant_id):
    (sql,) = tenants.describe(tenant_id).sql
    rows = database.tables_of(tenant_id).rows
    assert set(sql.tables) <= set(rows)
    for table in sql.tables.values():
        assert table.description
        for column in table.columns.values():
            assert column.description
            if column.references:
                target, _, name = column.references.partition(".")
                assert name in sql.tables[target].columns


def test_values_of_enumerations_are_those_of_the_tables():
    tables, rows = tenants.describe("demo").source().tables, database.tables_of("demo").rows
    for table, column, position in (
        ("contracts", "category", 5),
        ("contracts", "status", 6),
        ("providers", "country", 2),
        ("regions", "code", 0),
        ("payments", "status", 4),
    ):
        assert set(tables[table].columns[column].values) == {row[position] for row in rows[table]}


def test_hidden_columns_and_tables_are_not_listed():
    tables = tenants.describe("demo").source().tables
    assert "bank_accounts" not in tables
    assert "tax_id" not in tables["providers"].columns


def test_an_unknown_tenant_is_refused(tmp_path):
    with pytest.raises(KeyError, match="known are demo, tiny, other"):
        tenants.write_tenants(tmp_path, {"acme": "x"})
    with pytest.raises(KeyError, match="no demo tables"):
        database.tables_of("acme")
