"""Writes and checks the SQL that makes a tenant's reader role: SELECT on the allowed columns, and nothing else.

    python -m services.sql_tool.grants tenants/acme.yaml --role acme_reader | psql -v ON_ERROR_STOP=1 acme
    python -m services.sql_tool.grants tenants/acme.yaml --check postgresql://acme_reader:…@db/acme
    python -m services.sql_tool.grants tenants/acme.yaml --notify | psql -v ON_ERROR_STOP=1 acme

The first takes rights from PUBLIC too, because a role has all that PUBLIC has: CREATE in schemas, temporary tables, and
EXECUTE on the database's own routines. Grant these to the roles that need them. New routines are PUBLIC's again: keep
them in a schema that the reader may not use. Widen a tenant's file before the database and narrow it after: a role that
may do more than the file says is refused.

Rows for some readers only: a policy that depends on the role, which no statement can change,

    ALTER TABLE orders ENABLE ROW LEVEL SECURITY;
    CREATE POLICY acme ON orders FOR SELECT TO acme_reader USING (tenant = 'acme');

or a view `WITH (security_barrier)` that stands in the tenant's file in the table's place. Never a policy that asks
current_setting(): the audit warns of it.
"""

import argparse
import asyncio
import re
import sys
from pathlib import Path

import asyncpg

from services.runtime import yaml_files
from services.runtime.tenants import SqlSource, Tenant
from services.sql_tool.changes import triggers
from services.sql_tool.questions import HARMLESS_EXTENSIONS
from services.sql_tool.rights import Findings, audit, quoted, split

# Kept by the server too, for sessions that do not come from this service. temp_file_limit needs a superuser.
_ROLE_SETTINGS = {
    "default_transaction_read_only": "on",
    "statement_timeout": "'30s'",
    "temp_file_limit": "'200MB'",
    "work_mem": "'16MB'",
}
_CONNECT_SECONDS = 10
_CREATE = """\
DO $do$ BEGIN
  IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = '{literal}') THEN CREATE ROLE {name} LOGIN; END IF;
END $do$"""
# All that the role had, wherever it had it, and what everybody has in this database.
_TAKE_AWAY = """\
DO $do$ DECLARE one record; BEGIN
  EXECUTE format('REVOKE TEMPORARY, CREATE ON DATABASE %I FROM PUBLIC, {role}', current_database());
  FOR one IN SELECT g.rolname FROM pg_auth_members m JOIN pg_roles g ON g.oid = m.roleid
             JOIN pg_roles r ON r.oid = m.member WHERE r.rolname = '{literal}'
  LOOP EXECUTE format('REVOKE %I FROM {role}', one.rolname); END LOOP;
  FOR one IN SELECT oid, nspname FROM pg_namespace
             WHERE nspname <> 'information_schema' AND nspname NOT LIKE 'pg\\_%'
  LOOP
    EXECUTE format('REVOKE ALL ON ALL TABLES IN SCHEMA %I FROM {role}', one.nspname);
    EXECUTE format('REVOKE ALL ON ALL SEQUENCES IN SCHEMA %I FROM {role}', one.nspname);
    EXECUTE format('REVOKE ALL ON ALL ROUTINES IN SCHEMA %I FROM {role}', one.nspname);
    EXECUTE format('REVOKE ALL ON SCHEMA %I FROM {role}', one.nspname);
    IF has_schema_privilege('{literal}', one.oid, 'CREATE') THEN
      EXECUTE format('REVOKE CREATE ON SCHEMA %I FROM PUBLIC', one.nspname);
    END IF;
  END LOOP;
END $do$"""
# After the schemas' USAGE was given: what can be executed through it.
_SHUT_ROUTINES = """\
DO $do$ DECLARE one record; BEGIN
  FOR one IN SELECT p.oid::regprocedure AS routine FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
             WHERE n.nspname <> 'information_schema' AND n.nspname NOT LIKE 'pg\\_%'
               AND has_schema_privilege('{literal}', n.oid, 'USAGE')
               AND has_function_privilege('{literal}', p.oid, 'EXECUTE')
               AND (p.prosecdef OR NOT EXISTS (
                 SELECT FROM pg_depend d JOIN pg_extension e ON e.oid = d.refobjid
                 WHERE d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e'
                   AND d.refclassid = 'pg_extension'::regclass AND e.extname IN ({harmless})))
  LOOP EXECUTE format('REVOKE EXECUTE ON ROUTINE %s FROM PUBLIC, {role}', one.routine); END LOOP;
END $do$"""


def statements(source: SqlSource, role: str, schema: str | None = None) -> list[str]:
    """Statements for a superuser, safe to run again: they take away first what the role and PUBLIC had.

    `schema` replaces the source's own. The role gets no password: give it one with ALTER ROLE. It passes `audit` then,
    unless PUBLIC was given what is not PUBLIC's by default: tables, large objects, parameters.
    """
    schema = schema or source.database_schema
    name = quoted(role)
    harmless = ", ".join(f"'{extension}'" for extension in HARMLESS_EXTENSIONS)
    made = [
        _block(_CREATE, role),
        f"ALTER ROLE {name} NOSUPERUSER NOCREATEDB NOCREATEROLE NOINHERIT NOREPLICATION NOBYPASSRLS",
        *(f"ALTER ROLE {name} SET {setting} = {value}" for setting, value in _ROLE_SETTINGS.items()),
        _block(_TAKE_AWAY, role),
    ]
    for one in sorted({schema, *(split(table, schema)[0] for table in source.tables)}):
        made.append(f"GRANT USAGE ON SCHEMA {quoted(one)} TO {name}")
    for table, allowed in source.tables.items():
        columns = ", ".join(quoted(column) for column in allowed.columns)
        where = ".".join(quoted(part) for part in split(table, schema))
        made.append(f"GRANT SELECT ({columns}) ON {where} TO {name}")
    return [*made, _block(_SHUT_ROUTINES.replace("{harmless}", harmless), role)]


def _block(block: str, role: str) -> str:
    """A DO block with the role's name: as a literal, as a name, and as a name within format()'s first argument."""
    tag = "$do$"
    while tag in role:
        tag = f"{tag[:-1]}_$"
    # In one pass: the role's own name may look like a place for it.
    places = {
        "$do$": tag,
        "{literal}": role.replace("'", "''"),
        "{name}": quoted(role),
        "{role}": quoted(role).replace("'", "''").replace("%", "%%"),
    }
    return re.sub(r"\$do\$|\{\w+\}", lambda found: places[found[0]], block)


def report(found: Findings) -> str:
    """The findings as lines, each with the statement that mends it."""
    lines = [
        f"{kind}: {found.role} {finding.what}" + (f"\n    {finding.mend};" if finding.mend else "")
        for kind, findings in (("too much", found.excess), ("missing", found.missing), ("warning", found.warnings))
        for finding in findings
    ]
    return "\n".join(lines) or f"{found.role} may read what the tenant's file allows, and nothing else"


async def _check(dsn: str, source: SqlSource) -> Findings:
    connection = await asyncpg.connect(dsn, timeout=_CONNECT_SECONDS, command_timeout=_CONNECT_SECONDS)
    try:
        return await audit(connection, source)
    finally:
        await connection.close(timeout=_CONNECT_SECONDS)


def _read_source(path: Path, name: str) -> SqlSource:
    try:
        tenant = yaml_files.read(path, Tenant)
    except (OSError, yaml_files.WrongYaml) as error:
        sys.exit(f"{path}: {error}")
    source = tenant.source(name)
    if source is None:
        sys.exit(f"{path}: the tenant has no SQL source" + (f" `{name}`" if name else ""))
    return source


def main() -> None:
    """Prints the statements for a tenant's file; or checks a role, and ends with 1 when it may do more or less."""
    parser = argparse.ArgumentParser(description="Print the SQL that makes a tenant's reader role, or check a role.")
    parser.add_argument("tenant_file", type=Path, help="YAML file of the tenant")
    parser.add_argument("--source", default="", help="name of the source; the first one unless given")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--role", help="print the statements that make this role")
    what.add_argument("--check", metavar="DSN", help="log in as the role and compare what it may do with the file")
    what.add_argument("--notify", action="store_true", help="print triggers that tell the service of changed tables")
    options = parser.parse_args()
    source = _read_source(options.tenant_file, options.source)
    if options.check:
        try:
            found = asyncio.run(_check(options.check, source))
        except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, ValueError) as error:
            sys.exit(f"the database cannot be asked: {type(error).__name__}: {error}")
        print(report(found))
        sys.exit(1 if found.excess or found.missing else 0)
    # All or nothing: nobody meets a role that is half made.
    for statement in ["BEGIN", *(triggers(source) if options.notify else statements(source, options.role)), "COMMIT"]:
        print(f"{statement};")


if __name__ == "__main__":
    main()
