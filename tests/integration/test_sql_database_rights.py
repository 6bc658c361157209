"""The audit of reader roles on a real PostgreSQL: what `grants` makes passes, and each right besides is found."""

import re
import subprocess
import sys
from urllib.parse import quote

import pytest

from services.runtime import errors
from services.sql_tool.grants import report, statements
from services.sql_tool.rights import audit
from services.sql_tool.server import build
from services.sql_tool.startup import SOURCES, ExcessiveRights
from tests.integration.sql_stack import (
    connected,
    make_database,
    make_reader,
    query,
    refused,
    serving,
    settings_of,
    source_of,
    values,
    write_tenant,
)

DATABASE = "sql_rights"
SOURCE = source_of({"contracts": ["id", "amount"], "sales.orders": ["id"]})
SCHEMA = """
    CREATE SCHEMA sales; CREATE SCHEMA hidden; CREATE SCHEMA open; GRANT USAGE ON SCHEMA open TO PUBLIC;
    CREATE TABLE contracts (id int PRIMARY KEY, amount numeric, note text);
    CREATE TABLE sales.orders (id int, tenant text);
    CREATE TABLE secrets (token text);
    CREATE SEQUENCE numbers;
    CREATE FUNCTION add_one(int) RETURNS int LANGUAGE sql AS 'SELECT $1 + 1';
    CREATE FUNCTION open.leak() RETURNS text LANGUAGE sql SECURITY DEFINER AS 'SELECT max(token) FROM public.secrets';
    CREATE PROCEDURE open.act() LANGUAGE sql AS 'SELECT 1';
    CREATE AGGREGATE open.total(int) (SFUNC = int4pl, STYPE = int);
    CREATE FUNCTION open.same(int, int) RETURNS bool LANGUAGE sql AS 'SELECT $1 = $2';
    CREATE OPERATOR open.=== (LEFTARG = int, RIGHTARG = int, FUNCTION = open.same);
    CREATE TYPE state AS ENUM ('a', 'b');
    CREATE DOMAIN price AS numeric CHECK (VALUE >= 0);
    INSERT INTO contracts VALUES (1, 10.5, 'x');
"""


@pytest.fixture(scope="module")
def database(postgres_server):
    return make_database(postgres_server, DATABASE, SCHEMA, ("rights_reader", SOURCE))


@pytest.fixture
async def admin(postgres_server, database):
    async with connected(postgres_server.dsn(database)) as connection:
        yield connection


async def findings(postgres_server, role="rights_reader", source=SOURCE):
    async with connected(postgres_server.dsn(DATABASE, role, "pass")) as reader:
        return await audit(reader, source)


def lines(found):
    return [finding.what for finding in found]


async def test_the_role_that_the_command_makes_passes(postgres_server, database):
    found = await findings(postgres_server)
    assert (lines(found.excess), lines(found.missing), lines(found.warnings)) == ([], [], [])
    assert report(found) == "rights_reader may read what the tenant's file allows, and nothing else"


async def test_whatever_a_role_had_is_taken_away_when_it_is_made_again(postgres_server, admin):
    await admin.execute("""
        CREATE ROLE rich LOGIN CREATEDB CREATEROLE BYPASSRLS PASSWORD 'pass'; GRANT pg_read_all_data TO rich;
        GRANT ALL ON contracts, secrets TO rich; GRANT CREATE ON SCHEMA hidden, public TO rich;
        GRANT USAGE ON SCHEMA hidden TO rich; GRANT USAGE ON SEQUENCE numbers TO rich;
        GRANT EXECUTE ON FUNCTION open.leak() TO rich; GRANT UPDATE (note) ON contracts TO rich;
    """)
    try:
        assert len((await findings(postgres_server, "rich")).excess) >= 8
        await make_reader(admin, "rich", SOURCE)
        assert report(await findings(postgres_server, "rich")).startswith("rich may read what")
    finally:
        await admin.execute("DROP OWNED BY rich; DROP ROLE rich")


async def test_a_role_of_any_name_is_made_and_passes(postgres_server, admin):
    role = """o'Neil "100%s" $do$ reader"""
    name = '"' + role.replace('"', '""') + '"'
    for statement in statements(SOURCE, role):
        await admin.execute(statement)
    await admin.execute(f"ALTER ROLE {name} PASSWORD 'pass'")
    try:
        found = await findings(postgres_server, quote(role, safe=""))
        assert (found.role, lines(found.excess), lines(found.missing)) == (role, [], [])
    finally:
        await admin.execute(f"DROP OWNED BY {name}; DROP ROLE {name}")


def since(version):
    return f"SINCE {version}: "


EXCESSES = [
    ("ALTER ROLE rights_reader CREATEDB", "may create databases", "ALTER ROLE rights_reader NOCREATEDB"),
    ("ALTER ROLE rights_reader CREATEROLE", "may create roles", "ALTER ROLE rights_reader NOCREATEROLE"),
    ("ALTER ROLE rights_reader REPLICATION", "may replicate", "ALTER ROLE rights_reader NOREPLICATION"),
    ("ALTER ROLE rights_reader BYPASSRLS", "bypasses row-level security", "ALTER ROLE rights_reader NOBYPASSRLS"),
    ("ALTER ROLE rights_reader SUPERUSER", "is a superuser", "ALTER ROLE rights_reader NOSUPERUSER"),
    ("GRANT pg_monitor TO rights_reader", "is in role pg_monitor", "REVOKE pg_monitor FROM rights_reader"),
    ("GRANT pg_signal_backend TO rights_reader", "is in role pg_signal_backend",
     "REVOKE pg_signal_backend FROM rights_reader"),
    ("GRANT TEMP ON DATABASE sql_rights TO PUBLIC", "may create temporary tables",
     "REVOKE TEMP ON DATABASE sql_rights FROM PUBLIC"),
    ("GRANT CREATE ON DATABASE sql_rights TO rights_reader", "may create schemas",
     "REVOKE CREATE ON DATABASE sql_rights FROM rights_reader"),
    ("GRANT CREATE ON SCHEMA hidden TO PUBLIC", "may create objects in schema hidden",
     "REVOKE CREATE ON SCHEMA hidden FROM PUBLIC"),
    ("GRANT INSERT ON contracts TO rights_reader", "may insert public.contracts",
     "REVOKE INSERT ON contracts FROM rights_reader"),
    ("GRANT UPDATE (amount) ON contracts TO PUBLIC", "may update public.contracts",
     "REVOKE UPDATE (amount) ON contracts FROM PUBLIC"),
    ("GRANT TRUNCATE, TRIGGER ON sales.orders TO rights_reader", "may trigger, truncate sales.orders",
     "REVOKE TRUNCATE, TRIGGER ON sales.orders FROM rights_reader"),
    ("GRANT SELECT (note) ON contracts TO rights_reader", "may read note of public.contracts",
     "REVOKE SELECT (note) ON contracts FROM rights_reader"),
    ("GRANT SELECT ON secrets TO PUBLIC", "may read token of public.secrets", "REVOKE SELECT ON secrets FROM PUBLIC"),
    ("GRANT SELECT (id) ON contracts TO rights_reader WITH GRANT OPTION",
     "may grant rights on public.contracts to others",
     "REVOKE GRANT OPTION FOR SELECT (id) ON contracts FROM rights_reader"),
    ("GRANT USAGE ON SEQUENCE numbers TO rights_reader", "may use sequence public.numbers",
     "REVOKE USAGE ON SEQUENCE numbers FROM rights_reader"),
    ("GRANT EXECUTE ON FUNCTION add_one TO PUBLIC", "may execute public.add_one(integer)",
     "REVOKE EXECUTE ON FUNCTION add_one FROM PUBLIC"),
    ("GRANT EXECUTE ON FUNCTION open.leak TO PUBLIC", "may execute SECURITY DEFINER open.leak()",
     "REVOKE EXECUTE ON FUNCTION open.leak FROM PUBLIC"),
    ("GRANT EXECUTE ON PROCEDURE open.act TO PUBLIC", "may execute open.act()",
     "REVOKE EXECUTE ON PROCEDURE open.act FROM PUBLIC"),
    ("GRANT EXECUTE ON FUNCTION open.total(int) TO PUBLIC", "may execute open.total(integer)",
     "REVOKE EXECUTE ON FUNCTION open.total(int) FROM PUBLIC"),
    ("GRANT EXECUTE ON FUNCTION open.same TO PUBLIC", "may use operator open.===",
     "REVOKE EXECUTE ON FUNCTION open.same FROM PUBLIC"),
    ("CREATE OPERATOR open.#-# (RIGHTARG = float8, FUNCTION = pg_sleep)", "may use operator open.#-#",
     "DROP OPERATOR open.#-# (NONE, float8)"),
    ("CREATE FOREIGN DATA WRAPPER fdw; CREATE SERVER far FOREIGN DATA WRAPPER fdw;"
     "GRANT USAGE ON FOREIGN SERVER far TO rights_reader", "may use foreign server far",
     "DROP FOREIGN DATA WRAPPER fdw CASCADE"),
    ("CREATE FOREIGN DATA WRAPPER fdw; GRANT USAGE ON FOREIGN DATA WRAPPER fdw TO rights_reader",
     "may use foreign-data wrapper fdw", "DROP FOREIGN DATA WRAPPER fdw CASCADE"),
    ("GRANT CREATE ON TABLESPACE pg_default TO rights_reader", "may use tablespace pg_default",
     "REVOKE CREATE ON TABLESPACE pg_default FROM rights_reader"),
    ("SELECT lo_create(4711); GRANT SELECT ON LARGE OBJECT 4711 TO PUBLIC", "may use large object 4711",
     "SELECT lo_unlink(4711)"),
    ("GRANT SELECT ON pg_authid TO rights_reader", "may select pg_catalog.pg_authid",
     "REVOKE SELECT ON pg_authid FROM rights_reader"),
    ("GRANT SELECT ON pg_statistic TO PUBLIC", "may select pg_catalog.pg_statistic",
     "REVOKE SELECT ON pg_statistic FROM PUBLIC"),
    ("GRANT SELECT (rolpassword) ON pg_authid TO PUBLIC", "may select column rolpassword of pg_catalog.pg_authid",
     "REVOKE SELECT (rolpassword) ON pg_authid FROM PUBLIC"),
    ("GRANT EXECUTE ON FUNCTION pg_read_file(text) TO PUBLIC", "may execute pg_catalog.pg_read_file(text)",
     "REVOKE EXECUTE ON FUNCTION pg_read_file(text) FROM PUBLIC"),
    ("GRANT EXECUTE ON FUNCTION pg_ls_dir(text) TO rights_reader", "may execute pg_catalog.pg_ls_dir(text)",
     "REVOKE EXECUTE ON FUNCTION pg_ls_dir(text) FROM rights_reader"),
    (since(15) + "GRANT SET ON PARAMETER temp_file_limit TO rights_reader", "may set the parameter temp_file_limit",
     "REVOKE SET ON PARAMETER temp_file_limit FROM rights_reader"),
    (since(17) + "GRANT MAINTAIN ON contracts TO rights_reader", "may maintain public.contracts",
     "REVOKE MAINTAIN ON contracts FROM rights_reader"),
    (since(17) + "GRANT pg_maintain TO rights_reader", "is in role pg_maintain",
     "REVOKE pg_maintain FROM rights_reader"),
    ("CREATE TABLE mine (a int); ALTER TABLE mine OWNER TO rights_reader", "owns table mine", "DROP TABLE mine"),
    ("CREATE SCHEMA mine AUTHORIZATION rights_reader", "owns schema mine", "DROP SCHEMA mine"),
    ("CREATE TYPE mine AS ENUM ('a'); ALTER TYPE mine OWNER TO rights_reader", "owns type mine", "DROP TYPE mine"),
    ("SELECT lo_create(4712); ALTER LARGE OBJECT 4712 OWNER TO rights_reader", "owns large object 4712",
     "SELECT lo_unlink(4712)"),
    ("ALTER DATABASE sql_rights OWNER TO rights_reader", "owns database sql_rights",
     "ALTER DATABASE sql_rights OWNER TO postgres; REVOKE TEMP ON DATABASE sql_rights FROM PUBLIC"),
    ("""CREATE TYPE raw; CREATE FUNCTION raw_in(cstring) RETURNS raw LANGUAGE internal IMMUTABLE STRICT AS 'textin';
        CREATE FUNCTION raw_out(raw) RETURNS cstring LANGUAGE internal IMMUTABLE STRICT AS 'textout';
        CREATE TYPE raw (INPUT = raw_in, OUTPUT = raw_out); REVOKE EXECUTE ON FUNCTION raw_in, raw_out FROM PUBLIC""",
     "may use type public.raw, which has an input function of its own", "DROP TYPE raw CASCADE"),
    ("""CREATE FUNCTION open.to_state(int) RETURNS state LANGUAGE sql AS $$SELECT 'a'::state$$;
        CREATE CAST (int AS state) WITH FUNCTION open.to_state(int)""",
     "may cast integer to state by a function of its own", "DROP FUNCTION open.to_state CASCADE"),
]  # fmt: skip


@pytest.mark.parametrize(("given", "expected", "undo"), EXCESSES, ids=[expected for _, expected, _ in EXCESSES])
async def test_a_right_too_much_is_found(postgres_server, admin, given, expected, undo):
    if needs := re.match(r"SINCE (\d+): ", given):
        if admin.get_server_version().major < int(needs[1]):
            pytest.skip(f"PostgreSQL {needs[1]} and later")
        given = given[needs.end() :]
    await admin.execute(given)
    try:
        found = await findings(postgres_server)
    finally:
        await admin.execute(undo)
    assert expected in lines(found.excess)
    assert lines((await findings(postgres_server)).excess) == []


@pytest.mark.parametrize(
    "given",
    [
        "GRANT SELECT ON secrets TO PUBLIC",
        "GRANT SELECT ON contracts TO rights_reader",
        "GRANT INSERT ON contracts TO rights_reader",
        "GRANT UPDATE (amount) ON contracts TO PUBLIC",
        "GRANT EXECUTE ON FUNCTION open.leak TO PUBLIC",
        "GRANT CREATE, TEMP ON DATABASE sql_rights TO PUBLIC",
        "GRANT EXECUTE ON FUNCTION pg_read_file(text) TO PUBLIC",
        "GRANT SELECT ON pg_authid TO rights_reader",
        "GRANT pg_monitor TO rights_reader",
    ],
)
async def test_the_lines_that_the_audit_writes_mend_what_it_found(postgres_server, admin, given):
    await admin.execute(given)
    for _ in range(2):  # rights on a table take those on its columns with them; the second look tells to give them back
        found = await findings(postgres_server)
        for finding in [*found.excess, *found.missing]:
            await admin.execute(finding.mend)
    assert report(await findings(postgres_server)).startswith("rights_reader may read what")


async def test_a_role_that_was_switched_to_is_found(postgres_server, admin):
    await admin.execute(
        "CREATE ROLE door LOGIN PASSWORD 'pass'; GRANT rights_reader TO door; ALTER ROLE door SET role = rights_reader"
    )
    try:
        found = await findings(postgres_server, "door")
    finally:
        await admin.execute("DROP ROLE door")
    assert lines(found.excess) == ["logs in as door and can go back to it; log in as the reader"]


async def test_what_is_missing_is_found(postgres_server, admin):
    await admin.execute(
        "REVOKE SELECT (amount) ON contracts FROM rights_reader; REVOKE USAGE ON SCHEMA sales FROM rights_reader"
    )
    try:
        source = source_of({"contracts": ["id", "amount", "gone"], "sales.orders": ["id"], "nothing": ["id"]})
        found = await findings(postgres_server, source=source)
    finally:
        await make_reader(admin, "rights_reader", SOURCE)
    assert [(finding.what, finding.mend) for finding in found.missing] == [
        ("may not read amount of public.contracts", "GRANT SELECT (amount) ON public.contracts TO rights_reader"),
        ("public.contracts has no column gone, or does not exist", ""),
        ("may not use the schema of sales.orders", "GRANT USAGE ON SCHEMA sales TO rights_reader"),
        ("public.nothing has no column id, or does not exist", ""),
    ]


async def test_what_may_become_too_much_is_a_warning(postgres_server, admin):
    await admin.execute("""
        ALTER ROLE rights_reader RESET temp_file_limit;
        ALTER DEFAULT PRIVILEGES IN SCHEMA sales GRANT SELECT ON TABLES TO rights_reader;
        GRANT SELECT ON sales.orders TO rights_reader;
        CREATE POLICY mine ON contracts USING (note = current_setting('app.tenant'));
        CREATE VIEW settable AS SELECT id FROM contracts WHERE note = current_setting('app.tenant');
        GRANT SELECT (id) ON settable TO rights_reader;
    """)
    try:
        source = source_of({"contracts": ["id", "amount"], "sales.orders": ["id", "tenant"], "settable": ["id"]})
        found = await findings(postgres_server, source=source)
    finally:
        await admin.execute("""
            DROP VIEW settable; DROP POLICY mine ON contracts;
            ALTER DEFAULT PRIVILEGES IN SCHEMA sales REVOKE SELECT ON TABLES FROM rights_reader;
        """)
        await make_reader(admin, "rights_reader", SOURCE)
    assert lines(found.excess) == []
    assert lines(found.warnings) == [
        "may fill the disk: temp_file_limit is not set",
        "policy mine of contracts asks current_setting(): make it depend on current_user",
        "view public.settable asks current_setting(): make it depend on current_user",
        "may read the whole of sales.orders, columns that it gets later too",
        "default privileges of postgres give it rights on new objects",
    ]


async def test_functions_of_harmless_extensions_may_stay_unless_they_act_for_their_owner(postgres_server, admin):
    known = {row[0] for row in await admin.fetch("SELECT name FROM pg_available_extensions")}
    if "vector" not in known:
        pytest.skip("pgvector is not installed")
    await admin.execute("CREATE EXTENSION vector")
    try:
        assert lines((await findings(postgres_server)).excess) == []
        await admin.execute("ALTER FUNCTION vector_dims(vector) SECURITY DEFINER")
        assert lines((await findings(postgres_server)).excess) == [
            "may execute SECURITY DEFINER public.vector_dims(vector)"
        ]
    finally:
        await admin.execute("DROP EXTENSION vector CASCADE")


@pytest.mark.parametrize("extension", ["dblink", "tablefunc", "pg_stat_statements", "lo", "sslinfo"])
async def test_other_extensions_are_found(postgres_server, admin, extension):
    known = {row[0] for row in await admin.fetch("SELECT name FROM pg_available_extensions")}
    if extension not in known:
        pytest.skip(f"{extension} is not installed")
    await admin.execute(f"CREATE EXTENSION {extension}")
    try:
        assert (await findings(postgres_server)).excess
        await make_reader(admin, "rights_reader", SOURCE)
        left = [line for line in lines((await findings(postgres_server)).excess) if "execute" in line]
    finally:
        await admin.execute(f"DROP EXTENSION {extension} CASCADE")
    assert left == []


def grants_command(*arguments):
    command = [sys.executable, "-m", "services.sql_tool.grants", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)


def test_the_command_prints_and_checks(postgres_server, database, tmp_path):
    write_tenant(tmp_path, "acme", SOURCE, source_of({"contracts": ["id"]}, name="less"))
    file = tmp_path / "acme.yaml"
    dsn = postgres_server.dsn(database, "rights_reader", "pass")
    printed = grants_command(file, "--role", "some_reader")
    assert 'GRANT SELECT ("id", "amount") ON "public"."contracts" TO "some_reader";' in printed.stdout.splitlines()
    fine = grants_command(file, "--check", dsn)
    assert (fine.returncode, fine.stdout) == (
        0,
        "rights_reader may read what the tenant's file allows, and nothing else\n",
    )
    other = grants_command(file, "--source", "less", "--check", dsn)
    assert other.returncode == 1
    assert other.stdout.splitlines()[:2] == [
        "too much: rights_reader may read amount of public.contracts",
        "    REVOKE SELECT (amount) ON public.contracts FROM PUBLIC, rights_reader;",
    ]
    away = grants_command(file, "--check", "postgresql://nobody:secret@127.0.0.1:1/none")
    assert away.returncode == 1
    assert "secret" not in away.stderr


@pytest.fixture
def folder(postgres_server, database, tmp_path):
    """`acme` may read what it should, `greedy` logs in as the superuser, `away` has no database."""
    write_tenant(tmp_path, "acme", SOURCE, acme_dsn=postgres_server.dsn(database, "rights_reader", "pass"))
    write_tenant(
        tmp_path, "greedy", source_of({"contracts": ["id"]}, "greedy-dsn"), greedy_dsn=postgres_server.dsn(database)
    )
    write_tenant(tmp_path, "away", source_of({"t": ["a"]}, "away-dsn"), away_dsn="postgresql://x:x@127.0.0.1:1/x")
    return tmp_path


async def test_a_role_that_may_do_more_ends_the_start(folder):
    (served,) = await build(settings_of(folder))
    with pytest.raises(ExcessiveRights, match=r"^greedy/main: is a superuser$"):
        await served.warm_up()
    await served.close()


async def test_a_role_that_may_do_more_shuts_out_its_tenant_alone_when_told_so(folder, caplog):
    async with serving(folder, refuse_start_on_excess=False) as stub:
        assert values(await query(stub, "SELECT amount FROM contracts")) == [["10.5"]]
    counted = {name: SOURCES.labels(name)._value.get() for name in ("served", "refused", "away")}
    assert counted == {"served": 1, "refused": 1, "away": 1}
    (logged,) = [
        record
        for record in caplog.records
        if record.name == "services.sql_tool.startup" and record.levelname == "ERROR"
    ]
    assert (logged.tenant, logged.reasons) == ("greedy", ["is a superuser"])


async def test_a_database_that_comes_late_is_audited_before_it_is_read(folder, postgres_server, admin):
    (folder / "greedy.yaml").unlink()
    (folder / "acme-dsn").write_text("postgresql://x:x@127.0.0.1:1/x")
    async with serving(folder) as stub:
        await refused(query(stub, "SELECT id FROM contracts"), errors.DependencyFailed)
        (folder / "acme-dsn").write_text(postgres_server.dsn(DATABASE))
        error = await refused(query(stub, "SELECT id FROM contracts"), errors.DependencyFailed)
        assert "may do more than read" in error.message


def test_the_process_ends_with_1_and_says_why(folder):
    environment = {
        "SABUESO_IDENTITY_SECRET": "x" * 32, "SABUESO_TENANTS_DIR": str(folder), "SABUESO_SECRETS_DIR": str(folder),
        "SABUESO_METRICS_PORT": "0", "SABUESO_PORT": "0", "SABUESO_HOST": "127.0.0.1", "PATH": "",
    }  # fmt: skip
    ended = subprocess.run(
        [sys.executable, "-m", "services.sql_tool.server"], env=environment, capture_output=True, text=True, timeout=60,
        check=False,
    )  # fmt: skip
    assert ended.returncode == 1
    assert '"tenant": "greedy"' in ended.stderr
    assert "is a superuser" in ended.stderr
    assert '"serving"' not in ended.stderr
