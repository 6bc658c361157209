"""`sabueso doctor --secrets-dir` on a real PostgreSQL: the service's own audit, without the service."""

import socket
from datetime import UTC, datetime

import pytest

from services.cli.doctor import tenants
from tests.integration.sql_stack import make_database, source_of, write_tenant

SOURCE = source_of({"contracts": ["id"]})


@pytest.fixture(scope="module")
def database(postgres_server):
    return make_database(
        postgres_server, "doctor", "CREATE TABLE contracts (id int, secret text)", ("doctor_reader", SOURCE)
    )


def found(folder, dsn, seconds=60):
    write_tenant(folder, "acme", SOURCE, acme_dsn=dsn)
    _, known = tenants.files(folder, datetime.now(UTC))
    return list(tenants.databases(known, folder, seconds))


def test_a_role_that_may_read_and_nothing_else_is_right(postgres_server, database, tmp_path):
    [one] = found(tmp_path, postgres_server.dsn(database, "doctor_reader", "pass"))
    assert one.status == "ok", one


def test_a_role_that_may_write_is_wrong_and_its_password_is_not_told(postgres_server, database, tmp_path):
    [one] = found(tmp_path, postgres_server.dsn(database))
    assert one.status == "error"
    assert "too much" in one.why
    assert postgres_server.password not in one.what + one.why + one.fix


def test_a_wrong_password_is_wrong(postgres_server, database, tmp_path):
    [one] = found(tmp_path, postgres_server.dsn(database, "doctor_reader", "other"))
    assert one.status == "error"
    assert "cannot be asked" in one.why
    assert "other" not in one.why


def test_a_database_that_does_not_answer_is_given_up(database, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        [one] = found(tmp_path, f"postgresql://reader:pass@{address}/doctor", seconds=0.2)
    assert one.status == "error"
    assert "did not answer" in one.what
