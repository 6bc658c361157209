"""Writes the SQL that makes a tenant's reader role: SELECT on the allowed columns, and nothing else."""

import argparse
import sys
from pathlib import Path

import yaml
from pydantic import ValidationError

from services.runtime.tenants import SqlSource, Tenant

# Kept by the server too, for sessions that do not come from this service. temp_file_limit needs a superuser.
_ROLE_SETTINGS = {
    "default_transaction_read_only": "on",
    "statement_timeout": "'30s'",
    "temp_file_limit": "'200MB'",
    "work_mem": "'16MB'",
}


def statements(source: SqlSource, role: str, schema: str | None = None) -> list[str]:
    """Statements for a superuser, safe to run again: they take away first what the role had.

    `schema` replaces the source's own. The role gets no password: give it one with ALTER ROLE.
    """
    schema = schema or source.database_schema
    name, literal = _quoted(role), role.replace("'", "''")
    made = [
        f"DO $do$ BEGIN IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = '{literal}') "
        f"THEN CREATE ROLE {name} LOGIN; END IF; END $do$",
        f"ALTER ROLE {name} NOSUPERUSER NOCREATEDB NOCREATEROLE NOINHERIT NOREPLICATION NOBYPASSRLS",
        *(f"ALTER ROLE {name} SET {setting} = {value}" for setting, value in _ROLE_SETTINGS.items()),
    ]
    for one in sorted({schema, *(_split(table, schema)[0] for table in source.tables)}):
        made.append(f"REVOKE CREATE ON SCHEMA {_quoted(one)} FROM PUBLIC")
        made.append(f"REVOKE ALL ON ALL TABLES IN SCHEMA {_quoted(one)} FROM {name}")
        made.append(f"GRANT USAGE ON SCHEMA {_quoted(one)} TO {name}")
    for table, allowed in source.tables.items():
        columns = ", ".join(_quoted(column) for column in allowed.columns)
        where = ".".join(_quoted(part) for part in _split(table, schema))
        made.append(f"GRANT SELECT ({columns}) ON {where} TO {name}")
    return made


def _split(table: str, schema: str) -> tuple[str, str]:
    first, dot, rest = table.partition(".")
    return (first, rest) if dot else (schema, table)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def main() -> None:
    """Prints the statements for a tenant's file."""
    parser = argparse.ArgumentParser(description="Print the SQL that makes a tenant's reader role.")
    parser.add_argument("tenant_file", type=Path, help="YAML file of the tenant")
    parser.add_argument("--role", required=True, help="name of the role")
    options = parser.parse_args()
    try:
        tenant = Tenant.model_validate(yaml.safe_load(options.tenant_file.read_text(encoding="utf-8")))
    except (OSError, yaml.YAMLError, ValidationError) as error:
        sys.exit(f"{options.tenant_file}: {error}")
    if tenant.sql is None:
        sys.exit(f"{options.tenant_file}: the tenant has no `sql` part")
    for statement in statements(tenant.sql, options.role):
        print(f"{statement};")


if __name__ == "__main__":
    main()
