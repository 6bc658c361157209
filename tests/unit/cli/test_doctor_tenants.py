"""`sabueso doctor --tenants-dir`: what it finds in tenants' files, before it asks any database."""

from datetime import UTC, datetime, timedelta

import pytest
import yaml

from services.cli.doctor import tenants

NOW = datetime(2027, 1, 1, tzinfo=UTC)
SQL = {"dsn_secret": "acme.dsn", "tables": {"contracts": {"columns": {"id": {}}}}}


def write(folder, **fields):
    (folder / "acme.yaml").write_text(yaml.safe_dump({"id": "acme", **fields}))


def key(**fields):
    return {"id": "main", "sha256": "a" * 64, **fields}


def expiring(days):
    return {"keys": [key(expires_at=(NOW + timedelta(days=days)).isoformat())]}


@pytest.mark.parametrize(
    ("fields", "status", "words"),
    [
        ({"keys": [key()]}, "ok", "1 files are right: acme"),
        (expiring(90), "ok", "1 files are right"),
        (expiring(3), "warning", "key `main` of `acme` ends 2027-01-04"),
        (expiring(-3), "warning", "ended 2026-12-29"),
        ({"keys": [{"id": "main", "sha256": "short"}]}, "error", "acme.yaml:4: keys.0.sha256"),
        ({"tool": {}}, "error", "acme.yaml:2: tool"),
    ],
)
def test_a_tenants_file_is_judged(tmp_path, fields, status, words):
    write(tmp_path, **fields)
    found, _ = tenants.files(tmp_path, NOW)
    assert [one.status for one in found if words in one.what] == [status], found


def test_a_folder_without_files_is_wrong(tmp_path):
    found, known = tenants.files(tmp_path, NOW)
    assert ([one.status for one in found], known) == (["error"], [])


def test_databases_are_asked_only_where_their_secrets_are_said(tmp_path):
    write(tmp_path, sql=SQL)
    _, known = tenants.files(tmp_path, NOW)
    assert [one.status for one in tenants.databases(known, None)] == ["skipped"]


def test_a_secret_that_is_missing_is_named_for_replicas_too(tmp_path):
    write(tmp_path, sql=SQL | {"replica_dsn_secrets": ["acme-replica.dsn"]})
    _, known = tenants.files(tmp_path, NOW)
    found = list(tenants.databases(known, tmp_path))
    assert [one.status for one in found] == ["error", "error"]
    assert "acme-replica.dsn" in found[1].why
