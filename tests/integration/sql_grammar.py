"""Makes SELECT statements by chance where resolving names is subtle; the same seed makes the same statements.

Most of them are valid; PostgreSQL sorts out the rest. Columns and aliases share a small set of names, many of them
words of SQL, so that inner names hide outer ones and syntax looks like a column.
"""

import random
from dataclasses import dataclass

TABLES = {
    "providers": ("id", "name", "region", "country"),
    "contracts": ("id", "provider", "provider_region", "amount", "year", "signed_on", "status", "clauses", "tags"),
    "payments": ("id", "contract_id", "amount", "paid_at", "method"),
    "odd": ("id", "date", "text", "value", "count", "c", "json", "mode", "first", "Größe", "row", "time", "key", "q"),
}
ODD_TABLE = f"""
    CREATE TABLE odd ({", ".join(f'"{name}" {"int" if name == "id" else "text"}' for name in TABLES["odd"])});
    INSERT INTO odd SELECT g, {", ".join(["g::text"] * (len(TABLES["odd"]) - 1))} FROM generate_series(1, 3) g
"""
# May be written without quotes as a column; the others need them.
_BARE = {name for columns in TABLES.values() for name in columns} - {"Größe"}
_ALIASES = ("c", "q", "x", "year", "count", "date", "clauses", "value", "contracts", "text", "name", "año")


@dataclass
class _Source:
    name: str
    columns: list[str]


class Statements:
    """An endless supply of statements."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._ctes: list[dict[str, list[str]]] = [{}]
        self._used = set[str]()

    def statement(self) -> str:
        """The next one."""
        self._ctes = [{}]
        text, _ = self._query([], self._random.choice((1, 2, 2, 3)))
        return text

    def _pick(self, *options):
        return self._random.choice(options)()

    def _chance(self, percent: int) -> bool:
        return self._random.randrange(100) < percent

    def _one(self, items):
        return self._random.choice(list(items))

    def _query(self, outer: list[list[_Source]], depth: int) -> tuple[str, list[str]]:
        with_text = ""
        self._ctes.append(dict(self._ctes[-1]))
        name, within = "", set(self._used)
        if depth > 1 and self._chance(25):
            name, with_text = self._with(outer, depth)
        self._used.discard(name)
        if depth > 1 and self._chance(12):
            text, columns = self._combined(outer, depth)
        else:
            text, columns = self._select(outer, depth)
        self._ctes.pop()
        # PostgreSQL asks for no right to what a WITH query reads that nobody uses.
        if name in self._used:
            return with_text + text, columns
        self._used &= within | self._used_by(text)
        return text, columns

    def _used_by(self, text: str) -> set[str]:
        return {name for name in self._used if name in text}

    def _with(self, outer, depth) -> tuple[str, str]:
        name = self._one((*_ALIASES, "providers", "payments"))
        body, columns = self._query(outer, depth - 1)
        renamed = self._some_names(len(columns)) if columns and self._chance(40) else []
        listed = f"({', '.join(map(self._written, renamed))})" if renamed else ""
        self._ctes[-1][name] = renamed + columns[len(renamed) :]
        recursive = "RECURSIVE " if self._chance(10) else ""
        return name, f"WITH {recursive}{self._written(name)}{listed} AS ({body}) "

    def _combined(self, outer, depth) -> tuple[str, list[str]]:
        table = self._one(TABLES)
        names = [self._one(TABLES[table]) for _ in range(2)]
        left = f"SELECT {self._written(names[0])}::text FROM {table}"
        other = self._one(TABLES)
        right = f"SELECT {self._written(self._one(TABLES[other]))}::text FROM {other}"
        how = self._one(("UNION", "UNION ALL", "EXCEPT", "INTERSECT"))
        order = f" ORDER BY {self._written(self._one((names[0], names[1])))}" if self._chance(50) else ""
        if self._chance(30):
            return f"(({left}) {how} ({right}{order}))", [names[0]]
        return f"{left} {how} {right}{order}", [names[0]]

    def _select(self, outer, depth) -> tuple[str, list[str]]:
        sources: list[_Source] = []
        clause = self._from(sources, outer, depth)
        scopes = [sources, *outer]
        outputs, columns = [], []
        if self._chance(15):
            return self._grouped(clause, scopes)
        if self._chance(18) and sources:
            source = self._one(sources)
            star = self._one(("*", f"{self._written(source.name)}.*"))
            outputs.append(star)
            columns += [name for s in sources for name in s.columns] if star == "*" else source.columns
        for _ in range(self._one((1, 1, 2, 3))):
            text, name = self._output(scopes, depth)
            outputs.append(text)
            columns.append(name)
        text = f"SELECT {self._distinct(scopes)}{', '.join(outputs)} FROM {clause}"
        if self._chance(40):
            text += f" WHERE {self._condition(scopes, depth)}"
        if self._chance(35):
            text += f" ORDER BY {self._key(scopes, columns)}"
        if self._chance(15):
            text += self._one((" LIMIT 1", " OFFSET 1", " FETCH FIRST 2 ROWS ONLY", " LIMIT (SELECT 1)"))
        return text, columns

    def _distinct(self, scopes) -> str:
        return f"DISTINCT ON ({self._column(scopes)}) " if self._chance(5) else ""

    def _grouped(self, clause, scopes) -> tuple[str, list[str]]:
        column, alias = self._column(scopes), self._one(_ALIASES)
        grouping = self._one(("{}", "ROLLUP ({})", "GROUPING SETS (({}), ())", "CUBE ({})", "1", f"{alias}"))
        having = f" HAVING count({self._column(scopes)}) > 0" if self._chance(30) else ""
        order = f" ORDER BY {self._one((alias, '1', 'count(*)', column))}" if self._chance(40) else ""
        text = f"SELECT {column} AS {alias}, count(*) FROM {clause} GROUP BY {grouping.format(column)}{having}{order}"
        return text, [alias, "count"]

    # FROM

    def _from(self, sources, outer, depth) -> str:
        parts = [self._item(sources, outer, depth, first=True)]
        for _ in range(self._one((0, 0, 1, 1, 2))):
            before = len(sources)
            kind = self._one(
                (", ", " CROSS JOIN ", " JOIN ", " LEFT JOIN ", " JOIN ", " NATURAL JOIN ", "USING", "USING")
            )
            if kind == "USING":
                item = self._item(sources, outer, depth)
                shared = {n for s in sources[:before] for n in s.columns} & {
                    n for s in sources[before:] for n in s.columns
                }
                if shared:
                    parts.append(f" JOIN {item} USING ({self._written(self._one(sorted(shared)))})")
                else:
                    parts.append(f" CROSS JOIN {item}")
                continue
            item = self._item(sources, outer, depth)
            if kind == " LEFT JOIN " and item.removeprefix("ONLY ").removeprefix("public.").split()[0] not in TABLES:
                kind = " JOIN "  # PostgreSQL may drop a query that is joined so, and then asks for no right to it
            condition = f" ON {self._condition([sources, *outer], 0)}" if kind in (" JOIN ", " LEFT JOIN ") else ""
            parts.append(f"{kind}{item}{condition}")
        return "".join(parts)

    def _item(self, sources, outer, depth, first=False) -> str:
        roll = self._random.randrange(100)
        ctes = self._ctes[-1]
        if ctes and roll < 25:
            name = self._one(ctes)
            self._used.add(name)
            return self._named(sources, name, list(ctes[name]), self._written(name))
        if depth > 1 and roll < 45:
            lateral = not first and self._chance(40)
            visible = [list(sources), *outer] if lateral else outer
            body, columns = self._query(visible, depth - 1)
            return self._aliased(sources, columns, f"{'LATERAL ' if lateral else ''}({body})")
        if roll < 55:
            return self._function(sources, outer)
        name = self._one(("contracts", "contracts", "odd", "odd", "payments", "providers"))
        text = self._one((name, name, f"public.{name}", f"ONLY {name}"))
        return self._named(sources, name, list(TABLES[name]), text)

    def _named(self, sources, name, columns, text) -> str:
        if self._chance(50):
            sources.append(_Source(name, columns))
            return text
        alias = self._one(_ALIASES)
        sources.append(_Source(alias, columns))
        return f"{text}{self._one((' AS ', ' '))}{self._written(alias)}"

    def _aliased(self, sources, columns, text) -> str:
        alias = self._one(_ALIASES)
        renamed = self._some_names(len(columns)) if columns and self._chance(35) else []
        listed = f"({', '.join(map(self._written, renamed))})" if renamed else ""
        sources.append(_Source(alias, renamed + columns[len(renamed) :]))
        return f"{text} AS {self._written(alias)}{listed}"

    def _function(self, sources, outer) -> str:
        text, columns = self._one(
            (
                ("unnest(ARRAY['a','b'])", ["unnest"]),
                ("generate_series(1, 2)", ["generate_series"]),
                ("jsonb_each('{\"a\": 1}')", ["key", "value"]),
                ("jsonb_array_elements_text('[1]')", ["value"]),
                ("unnest(to_tsvector('simple', 'a'))", ["lexeme", "positions", "weights"]),
                ("jsonb_to_recordset('[{}]')", []),
                ("(VALUES ('a', 'b'))", ["column1", "column2"]),
                ("json_table('{}', '$' COLUMNS (value text PATH '$.a', year int PATH '$.b'))", ["value", "year"]),
                ("ROWS FROM (generate_series(1, 2), unnest(ARRAY['a']))", ["generate_series", "unnest"]),
            )
        )
        alias = self._one(_ALIASES)
        if not columns:
            names = self._some_names(2)
            sources.append(_Source(alias, names))
            return f"{text} AS {self._written(alias)}({', '.join(self._written(n) + ' text' for n in names)})"
        if len(columns) == 1 and columns[0] != "value":
            columns = [alias]
        renamed = self._some_names(len(columns)) if self._chance(30) else []
        listed = f"({', '.join(map(self._written, renamed))})" if renamed else ""
        sources.append(_Source(alias, renamed + columns[len(renamed) :]))
        return f"{text} AS {self._written(alias)}{listed}"

    def _some_names(self, most: int) -> list[str]:
        pool = ("a", "b", "clauses", "year", "count", "date", "id", "value", "Größe", "status")
        return self._random.sample(pool, min(self._one((1, 1, 2, most)), most, len(pool)))

    # Expressions

    def _written(self, name: str) -> str:
        if name not in _BARE and name not in _ALIASES and not name.isascii():
            return f'"{name}"'
        if self._chance(8):
            return f'"{name}"'
        return name if name.islower() or name == name.lower() else f'"{name}"'

    def _column(self, scopes) -> str:
        """A column of one of the levels, the nearest first, with or without its table."""
        level = scopes[0] if self._chance(75) or len(scopes) == 1 else self._one(scopes[1:])
        sources = [source for source in level if source.columns]
        if not sources:
            return "1"
        source = self._one(sources)
        name = self._written(self._one(source.columns))
        if source.name in TABLES and self._chance(5):
            return f"public.{source.name}.{name}"
        return name if self._chance(45) else f"{self._written(source.name)}.{name}"

    def _output(self, scopes, depth) -> tuple[str, str]:
        column = self._column(scopes)
        bare = column.rsplit(".", 1)[-1].strip('"')
        alias = self._one(_ALIASES)
        form = self._one(
            (
                "{0}",
                "{0}",
                "{0}",
                "{0} AS {1}",
                "{0} {1}",
                "{2} AS {1}",
                "{2} AS {1}",
                "count({0})",
                "max({0}::text)",
                "coalesce({0}::text, 'x')",
                "{0}::text",
                "row_number() OVER (ORDER BY {0})",
                "count(*)",
                "count({0}) OVER (PARTITION BY {3})",
                "string_agg({0}::text, ',' ORDER BY {3}) AS {1}",
            )
        )
        names = {
            "count({0})": "count",
            "max({0}::text)": "max",
            "coalesce({0}::text, 'x')": "coalesce",
            "count(*)": "count",
            "row_number() OVER (ORDER BY {0})": "row_number",
            "count({0}) OVER (PARTITION BY {3})": "count",
        }
        value = self._value(scopes, depth) if "{2}" in form else ""
        text = form.format(column, self._written(alias), value, self._column(scopes))
        return text, names.get(form, alias if "{1}" in form else bare)

    def _value(self, scopes, depth) -> str:
        if depth > 1 and self._chance(35):
            body, _ = self._query(scopes, depth - 1)
            forms = "EXISTS ({})", "ARRAY(SELECT s1::text FROM ({}) s1)", "(SELECT count(*) FROM ({}) s2)"
            return self._one(forms).replace("{}", body)
        column, other = self._column(scopes), self._column(scopes)
        row = self._written(self._one(scopes[0]).name) if scopes[0] else "1"
        forms = [
            f"({column})",
            f"CASE WHEN {column} IS NULL THEN {other}::text END",
            f"row_to_json({row})",
            f"{row}::text",
            f"to_jsonb({row})",
            f"to_jsonb({column}) -> 'a'",
            f"max(to_jsonb({column}) -> 'a' ->> 'b')",
            f"coalesce(to_jsonb({column}) ->> 'a', {other}::text)",
            f"ROW({column}, {other})::text",
            f"ARRAY[{column}]",
            f"concat({column}, {other})",
            f"nullif({column}::text, {other}::text)",
            f"trim({column}::text)",
            f"substring({column}::text FROM 1 FOR 2)",
            f"position('a' IN {column}::text)",
            f"count({row})",
            f"({row}.*)::text",
            f"count({column}) FILTER (WHERE {other} IS NOT NULL)",
            f"json_build_object('a', {column})",
            f"json_object('a' : {column}, 'b' : {other})",
            f"json_array({column}, {other})",
            f"{row} IS NULL",
            f'{column}::text COLLATE "C"',
            f"upper({column}::text) LIKE {other}::text ESCAPE '!'",
            f"{column}::text || {other}",
            f"json_value(to_jsonb({column}), '$.a' DEFAULT {other}::text ON EMPTY)",
            f"(ARRAY[{column}::text])[1]",
            f"date '2020-01-01' + length({column}::text)",
            f"to_jsonb({column}) IS NOT NULL",
            f"{row}.id",
            f"({row}).id",
            "now()",
            f"to_char(length({other}::text), '9')",
            f"({column}, {other}) IS NULL",
            f"interval '1' day * length({column}::text)",
            f"date_trunc('day', now() + length({column}::text) * interval '1 day')",
        ]
        return self._one(forms)

    def _condition(self, scopes, depth) -> str:
        if depth > 1 and self._chance(30):
            column = self._column(scopes)
            body, _ = self._query(scopes, depth - 1)
            return self._one((f"EXISTS ({body})", f"{column}::text IN (SELECT s3::text FROM ({body}) s3)"))
        column, other = self._column(scopes), self._column(scopes)
        row = self._written(self._one(scopes[0]).name) if scopes[0] else "1"
        forms = [
            f"{column} IS NOT NULL",
            f"{column}::text = {other}::text",
            f"{column}::text LIKE 'a%'",
            "true",
            f"{row} IS NOT NULL",
            f"{column}::text IN ('a', {other}::text)",
            f"({column}, {other}) IS NOT NULL",
            f"{column} IS DISTINCT FROM {column}",
            f"{column}::text BETWEEN {other}::text AND 'z'",
            f"{column}::text = ANY (ARRAY[{other}::text])",
        ]
        return self._one(forms)

    def _key(self, scopes, columns) -> str:
        names = [name for name in columns if name]
        forms = [
            self._column(scopes),
            "1",
            f"{self._column(scopes)} DESC NULLS LAST",
            f"{self._column(scopes)}::text || 'a'",
        ]
        if names:
            forms += [self._written(self._one(names))] * 2
        return self._one(forms)
