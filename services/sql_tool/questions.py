"""What the audit of a reader role asks PostgreSQL, as that role; REACH is asked by the catalog and the listener too.

The answers of EXCESSES, PARAMETERS and MISSING come with the statement that mends them.
"""

from collections.abc import Mapping

# Extensions whose functions compute from their arguments and do nothing else: no SQL from text, no files, no network,
# no state. Revoking them from PUBLIC would break other users of the database, and the guard has none of their names.
# A SECURITY DEFINER function is never among the harmless ones, whoever brought it.
HARMLESS_EXTENSIONS = (
    "btree_gin", "btree_gist", "citext", "cube", "earthdistance", "fuzzystrmatch", "hstore", "intarray", "isn", "ltree",
    "pg_trgm", "pgcrypto", "plpgsql", "postgis", "seg", "tsm_system_rows", "tsm_system_time", "unaccent", "uuid-ossp",
    "vector",
)  # fmt: skip

ROLE = """
    SELECT rolname::text AS name, rolsuper AS super, rolcreaterole AS createrole, rolcreatedb AS createdb,
           rolreplication AS replication, rolbypassrls AS bypassrls, session_user::text AS login,
           current_database()::text AS database, current_setting('server_version_num')::int AS version,
           current_setting('temp_file_limit') = '-1' AS unlimited_files,
           current_setting('lo_compat_privileges') = 'on' AS open_large_objects
    FROM pg_catalog.pg_roles WHERE rolname = current_user
"""
# What the tables of schemas $1 and names $2 read, each with the table that reads it: itself, what a view stands for,
# and its partitions.
REACHING = """
    WITH RECURSIVE reach(wanted, oid) AS (
        SELECT w.s || '.' || w.t, c.oid FROM unnest($1::text[], $2::text[]) AS w(s, t)
        JOIN pg_namespace n ON n.nspname = w.s JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = w.t
        UNION
        SELECT reach.wanted, next.oid FROM reach CROSS JOIN LATERAL (
            SELECT i.inhrelid AS oid FROM pg_inherits i WHERE i.inhparent = reach.oid
            UNION ALL
            SELECT d.refobjid FROM pg_rewrite r
            JOIN pg_depend d ON d.classid = 'pg_rewrite'::regclass AND d.objid = r.oid
                            AND d.refclassid = 'pg_class'::regclass
            WHERE r.ev_class = reach.oid) AS next
    )
"""
REACH = f"""{REACHING}
    SELECT reach.wanted, n.nspname || '.' || c.relname AS relation FROM reach
    JOIN pg_class c ON c.oid = reach.oid JOIN pg_namespace n ON n.oid = c.relnamespace
"""
_NOT_SYSTEM = "n.nspname NOT IN ('pg_catalog', 'information_schema') AND n.nspname NOT LIKE 'pg\\_toast%'"
_ME = "(SELECT oid FROM pg_catalog.pg_roles WHERE rolname = current_user)"


def _of_harmless(catalog: str, oid: str) -> str:
    return (
        f"EXISTS (SELECT FROM pg_depend d JOIN pg_extension e ON e.oid = d.refobjid WHERE d.deptype = 'e'"
        f" AND d.classid = 'pg_catalog.{catalog}'::regclass AND d.objid = {oid}"
        f" AND d.refclassid = 'pg_catalog.pg_extension'::regclass AND e.extname = ANY($1::text[]))"
    )


_ROUTINE = "format('%I.%I(%s)', n.nspname, p.proname, pg_get_function_identity_arguments(p.oid))"
# Each yields (what, mend): a line for people, and the statement that takes the right away or an empty text.
EXCESSES: Mapping[str, str] = {
    "memberships": f"""
        SELECT 'is in role ' || rolname, format('REVOKE %I FROM %I', rolname, current_user) FROM pg_roles
        WHERE oid <> {_ME} AND pg_has_role(current_user, oid, 'MEMBER')
    """,
    "ownership": f"""
        SELECT 'owns ' || CASE WHEN s.dbid IN (0, d.oid) THEN pg_describe_object(s.classid, s.objid, s.objsubid)
                               ELSE 'an object in another database' END, ''
        FROM pg_shdepend s CROSS JOIN pg_database d
        WHERE d.datname = current_database() AND s.deptype = 'o' AND s.refobjid = {_ME}
              AND s.refclassid = 'pg_catalog.pg_authid'::regclass
    """,
    "database": """
        SELECT 'may ' || CASE p WHEN 'TEMPORARY' THEN 'create temporary tables' ELSE 'create schemas' END,
               format('REVOKE %s ON DATABASE %I FROM PUBLIC, %I', p, current_database(), current_user)
        FROM unnest(ARRAY['TEMPORARY', 'CREATE']) AS p WHERE has_database_privilege(current_database(), p)
    """,
    "schemas": """
        SELECT 'may create objects in schema ' || nspname,
               format('REVOKE CREATE ON SCHEMA %I FROM PUBLIC, %I', nspname, current_user)
        FROM pg_namespace WHERE has_schema_privilege(oid, 'CREATE')
    """,
    "writes": f"""
        SELECT format('may %s %I.%I', string_agg(lower(p), ', ' ORDER BY p), n.nspname, c.relname),
               format('REVOKE %s ON %I.%I FROM PUBLIC, %I', string_agg(p, ', ' ORDER BY p), n.nspname, c.relname,
                      current_user)
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        CROSS JOIN unnest(ARRAY['INSERT', 'UPDATE', 'DELETE', 'TRUNCATE', 'REFERENCES', 'TRIGGER']
            || CASE WHEN current_setting('server_version_num')::int >= 170000 THEN ARRAY['MAINTAIN'] END) AS p
        WHERE c.relkind IN ('r', 'v', 'm', 'p', 'f') AND {_NOT_SYSTEM} AND has_schema_privilege(n.oid, 'USAGE')
          AND (has_table_privilege(c.oid, p)
               OR (p IN ('INSERT', 'UPDATE', 'REFERENCES') AND has_any_column_privilege(c.oid, p)))
        GROUP BY n.nspname, c.relname
    """,
    "columns": f"""
        SELECT format('may read %s of %I.%I', string_agg(a.attname, ', ' ORDER BY a.attnum), n.nspname, c.relname),
               CASE WHEN has_table_privilege(c.oid, 'SELECT')
                    THEN format('REVOKE SELECT ON %I.%I FROM PUBLIC, %I', n.nspname, c.relname, current_user)
                    ELSE format('REVOKE SELECT (%s) ON %I.%I FROM PUBLIC, %I',
                                string_agg(format('%I', a.attname), ', ' ORDER BY a.attnum), n.nspname, c.relname,
                                current_user) END
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
        WHERE c.relkind IN ('r', 'v', 'm', 'p', 'f') AND {_NOT_SYSTEM} AND has_schema_privilege(n.oid, 'USAGE')
          AND NOT {_of_harmless("pg_class", "c.oid")} AND has_any_column_privilege(c.oid, 'SELECT')
          AND has_column_privilege(c.oid, a.attnum, 'SELECT')
          AND NOT EXISTS (SELECT FROM unnest($2::text[], $3::text[], $4::text[]) AS w(s, t, c)
                          WHERE w.s = n.nspname AND w.t = c.relname AND w.c = a.attname)
        GROUP BY c.oid, n.nspname, c.relname
    """,
    "grant options": f"""
        SELECT format('may grant rights on %I.%I to others', n.nspname, c.relname),
               format('REVOKE GRANT OPTION FOR ALL ON %I.%I FROM %I', n.nspname, c.relname, current_user)
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE c.relkind IN ('r', 'v', 'm', 'p', 'f') AND {_NOT_SYSTEM} AND has_schema_privilege(n.oid, 'USAGE')
          AND has_any_column_privilege(c.oid, 'SELECT WITH GRANT OPTION')
    """,
    "sequences": """
        SELECT format('may use sequence %I.%I', n.nspname, c.relname),
               format('REVOKE ALL ON SEQUENCE %I.%I FROM PUBLIC, %I', n.nspname, c.relname, current_user)
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE n.nspname NOT LIKE 'pg\\_%' AND has_schema_privilege(n.oid, 'USAGE')
          AND CASE WHEN c.relkind = 'S' THEN has_sequence_privilege(c.oid, 'USAGE, SELECT, UPDATE') END
    """,
    "routines": f"""
        SELECT 'may execute ' || CASE WHEN p.prosecdef THEN 'SECURITY DEFINER ' ELSE '' END || {_ROUTINE},
               format('REVOKE EXECUTE ON ROUTINE %s FROM PUBLIC, %I', {_ROUTINE}, current_user)
        FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
        WHERE {_NOT_SYSTEM} AND has_schema_privilege(n.oid, 'USAGE') AND has_function_privilege(p.oid, 'EXECUTE')
          AND (p.prosecdef OR NOT {_of_harmless("pg_proc", "p.oid")})
    """,
    # An operator has no rights of its own: whoever sees it may run its function. Without the function it is harmless.
    "operators": f"""
        SELECT format('may use operator %I.%s', n.nspname, o.oprname), ''
        FROM pg_operator o JOIN pg_namespace n ON n.oid = o.oprnamespace
        WHERE {_NOT_SYSTEM} AND has_schema_privilege(n.oid, 'USAGE') AND o.oprcode <> 0
          AND has_function_privilege(o.oprcode, 'EXECUTE') AND NOT {_of_harmless("pg_operator", "o.oid")}
    """,
    # Reading a value of a type runs its input function, and nobody's right to execute that is checked. Domains, enums
    # and rows of tables have PostgreSQL's own; a domain's check runs with the rights of whoever uses it.
    "types": f"""
        SELECT format('may use type %I.%I, which has an input function of its own', n.nspname, t.typname),
               format('REVOKE USAGE ON TYPE %I.%I FROM PUBLIC, %I', n.nspname, t.typname, current_user)
        FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace
        JOIN pg_proc p ON p.oid = t.typinput JOIN pg_namespace f ON f.oid = p.pronamespace
        WHERE {_NOT_SYSTEM} AND f.nspname <> 'pg_catalog' AND has_schema_privilege(n.oid, 'USAGE')
          AND has_type_privilege(t.oid, 'USAGE') AND NOT {_of_harmless("pg_type", "t.oid")}
    """,
    # A cast has no rights of its own either; one that runs PostgreSQL's own functions does what these may do anyway.
    "casts": f"""
        SELECT format('may cast %s to %s by a function of its own', format_type(k.castsource, NULL),
                      format_type(k.casttarget, NULL)), ''
        FROM pg_cast k JOIN pg_proc p ON p.oid = k.castfunc JOIN pg_namespace n ON n.oid = p.pronamespace
        WHERE {_NOT_SYSTEM} AND has_function_privilege(p.oid, 'EXECUTE') AND NOT {_of_harmless("pg_cast", "k.oid")}
    """,
    "servers": """
        SELECT 'may use foreign server ' || srvname,
               format('REVOKE USAGE ON FOREIGN SERVER %I FROM PUBLIC, %I', srvname, current_user)
        FROM pg_foreign_server WHERE has_server_privilege(oid, 'USAGE')
        UNION ALL
        SELECT 'may use foreign-data wrapper ' || fdwname,
               format('REVOKE USAGE ON FOREIGN DATA WRAPPER %I FROM PUBLIC, %I', fdwname, current_user)
        FROM pg_foreign_data_wrapper WHERE has_foreign_data_wrapper_privilege(oid, 'USAGE')
    """,
    "tablespaces": """
        SELECT 'may use tablespace ' || spcname,
               format('REVOKE CREATE ON TABLESPACE %I FROM PUBLIC, %I', spcname, current_user)
        FROM pg_tablespace WHERE has_tablespace_privilege(oid, 'CREATE')
    """,
    "large objects": f"""
        SELECT 'may use large object ' || l.oid,
               format('REVOKE ALL ON LARGE OBJECT %s FROM PUBLIC, %I', l.oid, current_user)
        FROM pg_largeobject_metadata l
        WHERE EXISTS (SELECT FROM aclexplode(l.lomacl) a WHERE a.grantee IN (0, {_ME}))
    """,
    # What was granted in PostgreSQL's own schemas after initdb, which writes down in pg_init_privs what it grants, but
    # for information_schema: everybody may read that, and sees there what they may read.
    "system relations": f"""
        SELECT format('may %s %I.%I', lower(a.privilege_type), n.nspname, c.relname),
               format('REVOKE %s ON %I.%I FROM PUBLIC, %I', a.privilege_type, n.nspname, c.relname, current_user)
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace CROSS JOIN aclexplode(c.relacl) a
        WHERE n.nspname IN ('pg_catalog', 'information_schema', 'pg_toast') AND a.grantee IN (0, {_ME})
          AND NOT (n.nspname = 'information_schema' AND a.grantee = 0 AND a.privilege_type = 'SELECT')
          AND NOT EXISTS (SELECT FROM pg_init_privs i CROSS JOIN aclexplode(i.initprivs) b
                          WHERE i.classoid = 'pg_catalog.pg_class'::regclass AND i.objoid = c.oid AND i.objsubid = 0
                            AND b.grantee = a.grantee AND b.privilege_type = a.privilege_type)
        UNION ALL
        SELECT format('may %s column %I of %I.%I', lower(a.privilege_type), t.attname, n.nspname, c.relname),
               format('REVOKE %s (%I) ON %I.%I FROM PUBLIC, %I', a.privilege_type, t.attname, n.nspname, c.relname,
                      current_user)
        FROM pg_attribute t JOIN pg_class c ON c.oid = t.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace
        CROSS JOIN aclexplode(t.attacl) a
        WHERE n.nspname IN ('pg_catalog', 'information_schema', 'pg_toast') AND a.grantee IN (0, {_ME})
          AND NOT EXISTS (SELECT FROM pg_init_privs i CROSS JOIN aclexplode(i.initprivs) b
                          WHERE i.classoid = 'pg_catalog.pg_class'::regclass AND i.objoid = c.oid
                            AND i.objsubid = t.attnum
                            AND b.grantee = a.grantee AND b.privilege_type = a.privilege_type)
    """,
    "system routines": f"""
        SELECT 'may execute ' || {_ROUTINE},
               format('REVOKE EXECUTE ON ROUTINE %s FROM PUBLIC, %I', {_ROUTINE}, current_user)
        FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace CROSS JOIN aclexplode(p.proacl) a
        WHERE n.nspname IN ('pg_catalog', 'information_schema')
          AND (a.grantee = {_ME} OR (a.grantee = 0 AND EXISTS (
                SELECT FROM pg_init_privs i WHERE i.classoid = 'pg_catalog.pg_proc'::regclass AND i.objoid = p.oid
                  AND NOT EXISTS (SELECT FROM aclexplode(i.initprivs) b WHERE b.grantee = 0))))
    """,
}
# From 15 on the right to set a parameter can be granted.
PARAMETERS = f"""
    SELECT format('may %s the parameter %s', lower(a.privilege_type), p.parname),
           format('REVOKE %s ON PARAMETER %I FROM PUBLIC, %I', a.privilege_type, p.parname, current_user)
    FROM pg_parameter_acl p CROSS JOIN aclexplode(p.paracl) a WHERE a.grantee IN (0, {_ME})
"""
MISSING = """
    SELECT format('%I.%I', w.s, w.t) AS table, w.c AS column,
           c.oid IS NOT NULL AND a.attname IS NOT NULL AS exists,
           coalesce(has_schema_privilege(n.oid, 'USAGE'), false) AS usable,
           coalesce(has_column_privilege(c.oid, a.attnum, 'SELECT'), false) AS granted,
           format('GRANT SELECT (%I) ON %I.%I TO %I', w.c, w.s, w.t, current_user) AS mend,
           format('GRANT USAGE ON SCHEMA %I TO %I', w.s, current_user) AS mend_schema
    FROM unnest($1::text[], $2::text[], $3::text[]) WITH ORDINALITY AS w(s, t, c, place)
    LEFT JOIN pg_namespace n ON n.nspname = w.s
    LEFT JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = w.t AND c.relkind IN ('r', 'v', 'm', 'p', 'f')
    LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = w.c AND a.attnum > 0 AND NOT a.attisdropped
    ORDER BY w.place
"""
# Row-level security that asks a setting is as good as the guard alone: whoever can set it is whoever they like.
SETTABLE = """
    SELECT format('policy %s of %s asks current_setting(): make it depend on current_user', polname, polrelid::regclass)
    FROM pg_policy WHERE concat(pg_get_expr(polqual, polrelid), pg_get_expr(polwithcheck, polrelid))
                         LIKE '%current_setting%'
    UNION ALL
    SELECT format('view %I.%I asks current_setting(): make it depend on current_user', n.nspname, c.relname)
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    JOIN unnest($1::text[], $2::text[]) AS w(s, t) ON w.s = n.nspname AND w.t = c.relname
    WHERE c.relkind = 'v' AND pg_get_viewdef(c.oid) LIKE '%current_setting%'
"""
WHOLE_TABLES = """
    SELECT format('may read the whole of %I.%I, columns that it gets later too', n.nspname, c.relname)
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    JOIN unnest($1::text[], $2::text[]) AS w(s, t) ON w.s = n.nspname AND w.t = c.relname
    WHERE has_table_privilege(c.oid, 'SELECT')
"""
FUTURE = f"""
    SELECT DISTINCT 'default privileges of ' || pg_get_userbyid(d.defaclrole) || ' give it rights on new objects'
    FROM pg_default_acl d CROSS JOIN aclexplode(d.defaclacl) a WHERE a.grantee = {_ME}
"""
