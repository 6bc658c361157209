"""Reads FROM: which tables, queries and functions it names, and which columns each of them brings."""

from collections.abc import Sequence
from typing import Protocol, cast

from sqlglot import exp

from services.runtime.errors import NotPermitted
from services.sql_tool import constructs, nodes, vocabulary
from services.sql_tool.allowlist import AllowedTable, AllowList
from services.sql_tool.nodes import Anything, Inferred, Node
from services.sql_tool.scope import Columns, Scope, Source, nearest
from services.sql_tool.spelling import ROWS_CALL

# Columns of one join; more would take long to put together.
MAX_SHOWN = 10_000


class Walker(Protocol):
    """What the parts of FROM need of the resolver."""

    def take(self, identifier: Node) -> str:
        """The name, now accounted for."""
        ...

    def query(self, node: Node, around: Scope) -> Columns:
        """Checks a query and returns its output columns."""
        ...

    def expression(self, root: Node, scope: Scope) -> None:
        """Checks an expression."""
        ...


class Sources:
    """The sources of a statement. `tables` are those that it reads."""

    def __init__(self, walker: Walker, allowed: AllowList) -> None:
        self._walker = walker
        self._take = walker.take
        self._allowed = allowed
        self.tables: dict[str, AllowedTable] = {}
        self.names = set[str]()

    def read(self, node: exp.Select, scope: Scope) -> None:
        """Adds what FROM names to `scope`. Raises NotPermitted."""
        clause = node.args.get("from_")
        if clause is None:
            return
        shown = self._source(clause.this, scope)
        start = 0
        for join in node.args.get("joins") or ():
            at = len(scope.sources)
            right = self._joined(join, scope)
            if _is_comma(join):  # starts a new join
                scope.shown += shown
                start, shown = at, right
            else:
                shown = self._join(join, scope, start, at, shown, right)
        scope.shown += shown

    def _joined(self, join: exp.Join, scope: Scope) -> list[str | None]:
        constructs.only_known(join)
        return self._source(join.this, scope)

    def _join(
        self, join: exp.Join, scope: Scope, start: int, at: int, shown: list[str | None], right: list[str | None]
    ) -> list[str | None]:
        """What `*` shows of the join. Its condition sees its own sources only: those from `start`, right from `at`."""
        sides = scope.beside(scope.sources[start:at]), scope.beside(scope.sources[at:])
        if condition := join.args.get("on"):
            self._walker.expression(condition, scope.beside(scope.sources[start:]))
        using = [self._take(identifier) for identifier in join.args.get("using") or ()]
        for name in using:
            for side in sides:
                if not side.has_local(name):
                    raise side.unknown(name)
        if join.args.get("method"):
            using = _natural(sides, shown, right)
        if len(shown) + len(right) > MAX_SHOWN:
            raise constructs.too_wide()
        if not using:
            return [*shown, *right]
        return [*using, *(c for c in (*shown, *right) if isinstance(c, Anything) or c not in using)]

    def _source(self, node: Node, scope: Scope) -> list[str | None]:
        """Adds one item with the joins inside of it, and returns what `*` shows of it."""
        constructs.only_known(node)
        at = len(scope.sources)
        alias = node.args.get("alias")
        if isinstance(node, exp.Subquery) and isinstance(node.this, exp.Table):
            if alias is not None:
                raise constructs.unknown(node)
            shown = self._source(node.this, scope)
        else:
            source = self._single(node, alias, scope)
            self.names.add(source.name)
            scope.sources.append(source)
            shown = list(source.columns)
        if sample := node.args.get("sample"):
            self._sample(sample, scope)
        for join in node.args.get("joins") or ():
            middle = len(scope.sources)
            right = self._joined(join, scope)
            shown = self._join(join, scope, at, middle, shown, right)
        return shown

    def _single(self, node: Node, alias: Node | None, scope: Scope) -> Source:
        lateral = Scope(list(scope.sources), scope.parent, scope.ctes)
        if isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier):
            return self._table(node, alias, scope)
        if isinstance(node, exp.Subquery | exp.Values):
            outer = scope.parent or Scope()
            columns = self._walker.query(node, Scope(outer.sources, outer.parent, scope.ctes))
            return self._derived(columns, alias)
        if isinstance(node, exp.Lateral) and isinstance(node.this, exp.Subquery):
            return self._derived(self._walker.query(node.this, lateral), alias)
        if isinstance(node, exp.Table | exp.Lateral | exp.Unnest):
            return self._function(node, alias, lateral)
        raise constructs.unknown(node)

    def _derived(self, columns: Columns, alias: Node | None, name: str = "") -> Source:
        if alias is None:
            return Source(name, columns)
        return Source(self._alias(alias) or name, self.renamed(columns, alias))

    def _table(self, node: exp.Table, alias: Node | None, scope: Scope) -> Source:
        name = self._take(node.this)
        schema = self._take(node.args["db"]) if node.args.get("db") else None
        if node.args.get("catalog") or node.args.get("ordinality"):
            raise NotPermitted(
                "Tables are named as `table` or `schema.table`.", rule="table", hint="Leave out the database."
            )
        if schema is None and name in scope.ctes:
            return self._derived(scope.ctes[name], alias, name)
        table = self._allowed.find(schema, name)
        if table is None:
            shown = name if schema is None else f"{schema}.{name}"
            raise NotPermitted(
                f"Table `{shown}` may not be read.", rule="table", name=shown, hint=nearest(name, self._allowed.names())
            )
        self.tables[table.qualified] = table
        if alias is None:
            return Source(name, table.columns, table)
        source = Source(self._alias(alias) or name, table.columns, table)
        if not alias.args.get("columns"):
            return source
        scope.check_row(source)  # new names hide which column is meant
        return Source(source.name, self.renamed(table.columns, alias), table)

    # Functions

    def _function(self, node: Node, alias: Node | None, scope: Scope) -> Source:
        call = node if isinstance(node, exp.Unnest) else node.this
        alias = alias or call.args.get("alias")
        if isinstance(node, exp.Table) and node.args.get("db") and self._take(node.args["db"]) != "pg_catalog":
            raise constructs.foreign_function()
        name, columns = self._call(call, scope)
        alias_name = self._alias(alias) if alias is not None else ""
        if alias_name and columns == (name,):  # PostgreSQL's rule for functions of one column
            columns = (Inferred(alias_name) if isinstance(columns[0], Inferred) else alias_name,)
        offset = call.args.get("offset")
        if isinstance(offset, exp.Identifier):
            return Source(alias_name or name, (*self.alias_columns(alias), self._take(offset)))
        if node.args.get("ordinality") or offset:
            columns = (*columns, "ordinality")
        return Source(alias_name or name, self.renamed(columns, alias) if alias is not None else columns)

    def _call(self, call: Node, scope: Scope) -> tuple[str, Columns]:
        """The name of the function, and its columns as far as we know them."""
        if isinstance(call, exp.Unnest):
            constructs.only_known(call)
            for item in call.expressions:
                self._walker.expression(item, scope)
            # An array of rows, or a tsvector, has several columns.
            sure = all(_is_literal_array(item) for item in call.expressions)
            return "unnest", ("unnest" if sure else Inferred("unnest"),) * len(call.expressions)
        if isinstance(call, exp.JSONTable):
            return "", tuple(self._json_table(call, scope))
        if isinstance(call, exp.Anonymous) and call.name == ROWS_CALL:
            for item in call.expressions:
                if not isinstance(item, exp.Func | exp.Dot):
                    raise constructs.unknown(item)
                self._walker.expression(item, scope)
            return "", (None,) * len(call.expressions)
        if isinstance(call, exp.Func | exp.Dot):
            self._walker.expression(call, scope)
            name = nodes.function_name(call)
            known = vocabulary.FUNCTION_COLUMNS.get(name, (name,) if name else ())
            sure = name in vocabulary.SURE_FUNCTIONS
            return name, tuple(column if sure else Inferred(column) for column in known) or (None,)
        raise constructs.unknown(call)

    def _json_table(self, call: exp.JSONTable, scope: Scope) -> list[str | None]:
        constructs.only_known(call)
        self._walker.expression(call.this, scope)
        return self._json_columns(call.args.get("schema"))

    def _json_columns(self, schema: Node | None) -> list[str | None]:
        found: list[str | None] = []
        for column in schema.expressions if schema is not None else ():
            constructs.only_known(column)
            if kind := column.args.get("kind"):
                constructs.check_type(kind)
            if column.this is not None:
                found.append(self._take(column.this))
            found += self._json_columns(column.args.get("nested_schema"))
        return found

    def _sample(self, sample: Node, scope: Scope) -> None:
        constructs.only_known(sample)
        method = sample.args.get("method")
        if not isinstance(method, exp.Var) or method.name.upper() not in ("BERNOULLI", "SYSTEM"):
            raise constructs.unknown(sample)
        for key in ("percent", "seed"):
            if part := sample.args.get(key):
                self._walker.expression(part, scope)

    # Aliases

    def _alias(self, alias: Node) -> str:
        return self._take(alias.this) if alias.args.get("this") else ""

    def alias_columns(self, alias: Node | None) -> tuple[str, ...]:
        """The names of `t(a, b)` and of `t(a int, b text)`."""
        names: list[str] = []
        for column in cast(list[Node], [] if alias is None else alias.args.get("columns") or []):
            if isinstance(column, exp.ColumnDef):
                kind = column.args.get("kind")
                if kind is None or any(value for key, value in column.args.items() if key not in ("this", "kind")):
                    raise constructs.unknown(column)
                constructs.check_type(kind)
            names.append(self._take(column.this if isinstance(column, exp.ColumnDef) else column))
        return tuple(names)

    def renamed(self, columns: Columns, alias: Node) -> Columns:
        """The columns under the names of `t(a, b)`; those that it does not reach keep theirs."""
        names = self.alias_columns(alias)
        return (*names, *columns[len(names) :])


def _is_literal_array(node: Node) -> bool:
    return isinstance(node, exp.Array) and all(isinstance(item, exp.Literal) for item in node.expressions)


def _is_comma(join: exp.Join) -> bool:
    return not any(join.args.get(key) for key in ("on", "using", "kind", "side", "method"))


def _natural(sides: tuple[Scope, Scope], shown: Sequence[str | None], right: Sequence[str | None]) -> list[str]:
    """The columns that a NATURAL JOIN compares: those of the same name, whether they may be read or not."""
    hidden = [{name for source in side.sources if source.table for name in source.table.hidden} for side in sides]
    common = ({*shown} | hidden[0]) & ({*right} | hidden[1])
    told = any(hidden) or not any(isinstance(name, Anything) for name in (*shown, *right))
    uncertain = told and any(name is None or isinstance(name, Inferred) for name in (*shown, *right))
    forbidden = sorted(name for name in common if name and (name in hidden[0] or name in hidden[1]))
    if forbidden:
        raise sides[0].unknown(forbidden[0])
    if uncertain:
        raise NotPermitted(
            "NATURAL JOIN needs to know the name of every column.",
            rule="column",
            hint="Name the columns with AS, or use JOIN … USING.",
        )
    return [name for name in shown if name is not None and name in common]
