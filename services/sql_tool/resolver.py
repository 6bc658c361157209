"""Walks the parsed tree of a statement: every construct must be known and every name must be permitted."""

from collections.abc import Iterable
from typing import cast

from sqlglot import exp

from services.runtime.errors import NotPermitted
from services.sql_tool import constructs, nodes, vocabulary
from services.sql_tool.allowlist import AllowedTable, AllowList
from services.sql_tool.nodes import Node
from services.sql_tool.scope import Columns, Scope, Source, nearest


class Resolver:
    """Checks one statement. `tables` are those that it reads, once `check` has returned."""

    def __init__(self, allowed: AllowList) -> None:
        self._allowed = allowed
        self.tables: dict[str, AllowedTable] = {}

    def check(self, root: Node) -> None:
        """Raises NotPermitted; its `rule` says which rule forbids the statement."""
        self._query(root, Scope())

    def _query(self, node: Node, around: Scope) -> Columns:
        """A whole query within `around`; returns its output columns."""
        if isinstance(node, exp.Select):
            return self._select(node, around)
        if isinstance(node, exp.SetOperation | exp.Subquery):
            scope = self._with(node, around)
            columns = self._query(node.this, scope)
            if isinstance(node, exp.SetOperation):
                self._query(node.expression, scope)
            self._combined_modifiers(node, scope, columns)
            return columns
        if isinstance(node, exp.Values):
            return self._values(node, around)
        raise constructs.unknown(node)

    def _select(self, node: exp.Select, around: Scope) -> Columns:
        scope = self._with(node, around).inner()
        self._from(node, scope)
        outputs = self._outputs(node, scope)
        for key in ("where", "having"):
            if part := node.args.get(key):
                self._expression(part.this, scope)
        for window in node.args.get("windows") or ():
            self._window(window, scope)
        if group := node.args.get("group"):
            constructs.only_known(group)
            for item in nodes.children(group):
                self._grouping(item, scope, outputs)
        if distinct := node.args.get("distinct"):
            for item in nodes.unpacked(distinct.args.get("on")):
                self._sort_key(item, scope, outputs)
        self._modifiers(node, scope, outputs)
        return outputs

    def _with(self, node: Node, around: Scope) -> Scope:
        """`around` with the WITH names of `node`; also checks that `node` has no unknown part."""
        constructs.only_known(node)
        ctes = dict(around.ctes)
        scope = Scope(around.sources, around.parent, ctes)
        clause = node.args.get("with_")
        if clause is None:
            return scope
        recursive = bool(clause.args.get("recursive"))
        if recursive:  # every name of the list is visible in all of them
            for cte in clause.expressions:
                ctes[nodes.name(cte.args["alias"].this)] = _renamed((), cte.args["alias"])
        for cte in clause.expressions:
            constructs.only_known(cte)
            alias = cte.args["alias"]
            name = nodes.name(alias.this)
            if recursive and isinstance(cte.this, exp.SetOperation):
                self._recursive(cte.this, scope, name, alias, ctes)
            else:
                ctes[name] = _renamed(self._query(cte.this, scope), alias)
        return scope

    def _recursive(
        self, node: exp.SetOperation, around: Scope, name: str, alias: Node, ctes: dict[str, Columns]
    ) -> None:
        """The first part of a recursive query names the columns that the second part reads."""
        scope = self._with(node, around)
        columns = self._query(node.this, scope)
        ctes[name] = _renamed(columns, alias)
        own = node.args.get("with_")
        if own is None or name not in {nodes.name(cte.args["alias"].this) for cte in own.expressions}:
            scope = Scope(scope.sources, scope.parent, {**scope.ctes, name: ctes[name]})
        self._query(node.expression, scope)
        self._combined_modifiers(node, scope, columns)

    def _values(self, node: exp.Values, around: Scope) -> Columns:
        constructs.only_known(node)
        width = 0
        for row in node.expressions:
            width = max(width, len(nodes.unpacked(row)))
            self._expression(row, around)
        return tuple(f"column{i + 1}" for i in range(width))

    def _outputs(self, node: exp.Select, scope: Scope) -> Columns:
        columns: list[str | None] = []
        for item in node.expressions:
            star = self._starred(item, scope)
            if star is not None:
                columns += star
                continue
            inner = item.this if isinstance(item, exp.Alias) else item
            self._expression(inner, scope)
            columns.append(nodes.name(item.args["alias"]) if isinstance(item, exp.Alias) else nodes.output_name(item))
        return tuple(columns)

    def _starred(self, item: Node, scope: Scope) -> list[str | None] | None:
        if isinstance(item, exp.Star):
            if any(item.args.values()):
                raise constructs.unknown(item)  # EXCEPT and the like of other databases
            sources = scope.sources
        elif isinstance(item, exp.Column) and isinstance(item.this, exp.Star):
            sources = [self._row(item, scope)]
        else:
            return None
        for source in sources:
            scope.check_row(source)
        return [column for source in sources for column in source.columns]

    def _row(self, star: exp.Column, scope: Scope) -> Source:
        constructs.only_known(star)
        return scope.source(nodes.optional_name(star.args.get("db")), nodes.name(star.args["table"]))

    # FROM

    def _from(self, node: exp.Select, scope: Scope) -> None:
        clause = node.args.get("from_")
        if clause is None:
            return
        self._source(clause.this, scope)
        start = 0
        for join in node.args.get("joins") or ():
            start = self._join(join, scope, start)

    def _join(self, join: exp.Join, scope: Scope, start: int) -> int:
        """Adds the joined sources. A condition sees its own join only: the sources from `start`, which is returned."""
        constructs.only_known(join)
        at = len(scope.sources)
        self._source(join.this, scope)
        how = [key for key in ("on", "using", "kind", "side", "method") if join.args.get(key)]
        if not how:  # a comma starts a new join
            return at
        left, right = scope.beside(scope.sources[start:at]), scope.beside(scope.sources[at:])
        if join.args.get("method"):
            for source in (*left.sources, *right.sources):
                scope.check_row(source)  # compares all columns of the same name, whichever they are
        if condition := join.args.get("on"):
            self._expression(condition, scope.beside(scope.sources[start:]))
        for identifier in join.args.get("using") or ():
            for side in (left, right):
                if not side.has_local(nodes.name(identifier)):
                    raise side.unknown(nodes.name(identifier))
        return start

    def _source(self, node: Node, scope: Scope) -> None:
        constructs.only_known(node)
        at = len(scope.sources)
        alias = node.args.get("alias")
        lateral = Scope(list(scope.sources), scope.parent, scope.ctes)
        if isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier):
            scope.sources.append(self._table(node, scope))
        elif isinstance(node, exp.Subquery) and isinstance(node.this, exp.Table):
            if alias is not None:
                raise constructs.unknown(node)
            self._source(node.this, scope)
        elif isinstance(node, exp.Subquery | exp.Values):
            outer = scope.parent or Scope()
            columns = self._query(node, Scope(outer.sources, outer.parent, scope.ctes))
            scope.sources.append(_derived(columns, alias))
        elif isinstance(node, exp.Lateral) and isinstance(node.this, exp.Subquery):
            scope.sources.append(_derived(self._query(node.this, lateral), alias))
        elif isinstance(node, exp.Table | exp.Lateral | exp.Unnest):
            scope.sources.append(self._function(node, lateral))
        else:
            raise constructs.unknown(node)
        if sample := node.args.get("sample"):
            self._sample(sample, scope)
        for join in node.args.get("joins") or ():
            self._join(join, scope, at)

    def _table(self, node: exp.Table, scope: Scope) -> Source:
        name, schema = nodes.name(node.this), nodes.optional_name(node.args.get("db"))
        alias = node.args.get("alias")
        if node.args.get("catalog") or node.args.get("ordinality"):
            raise NotPermitted(
                "Tables are named as `table` or `schema.table`.", rule="table", hint="Leave out the database."
            )
        if schema is None and name in scope.ctes:
            return _derived(scope.ctes[name], alias, name)
        table = self._allowed.find(schema, name)
        if table is None:
            shown = name if schema is None else f"{schema}.{name}"
            raise NotPermitted(
                f"Table `{shown}` may not be read.", rule="table", name=shown, hint=nearest(name, self._allowed.names())
            )
        self.tables[table.qualified] = table
        if alias is None or not alias.args.get("columns"):
            return Source(name if alias is None else nodes.alias(alias) or name, table.columns, table)
        source = Source(nodes.alias(alias) or name, table.columns, table)
        scope.check_row(source)  # new names hide which column is meant
        return Source(source.name, _renamed(table.columns, alias), table)

    def _function(self, node: Node, scope: Scope) -> Source:
        call = node if isinstance(node, exp.Unnest) else node.this
        alias = node.args.get("alias") or call.args.get("alias")
        name, columns = "unnest", cast(Columns, ("unnest",) * len(call.expressions))
        if isinstance(call, exp.Unnest):
            constructs.only_known(call)
            for item in call.expressions:
                self._expression(item, scope)
        elif isinstance(call, exp.Func | exp.Dot):
            self._expression(call, scope)
            name = nodes.function_name(call)
            columns = vocabulary.FUNCTION_COLUMNS.get(name, (name or None,))
        else:
            raise constructs.unknown(call)
        if isinstance(node, exp.Table) and nodes.optional_name(node.args.get("db")) not in (None, "pg_catalog"):
            raise constructs.foreign_function()
        alias_name = nodes.alias(alias) if alias is not None else ""
        if alias_name and len(columns) == 1:
            columns = (alias_name,)  # PostgreSQL's rule for functions of one column
        offset = call.args.get("offset")
        if isinstance(offset, exp.Identifier):
            alias_columns = (*_alias_columns(alias), nodes.name(offset))
            return Source(alias_name or name, alias_columns)
        if node.args.get("ordinality") or offset:
            columns = (*columns, "ordinality")
        return Source(alias_name or name, _renamed(columns, alias) if alias is not None else columns)

    def _sample(self, sample: Node, scope: Scope) -> None:
        constructs.only_known(sample)
        method = sample.args.get("method")
        if not isinstance(method, exp.Var) or method.name.upper() not in ("BERNOULLI", "SYSTEM"):
            raise constructs.unknown(sample)
        for key in ("percent", "seed"):
            if part := sample.args.get(key):
                self._expression(part, scope)

    # Sorting and grouping: the places where a bare name may be an output column

    def _modifiers(self, node: Node, scope: Scope, outputs: Columns) -> None:
        if order := node.args.get("order"):
            for ordered in order.expressions:
                constructs.only_known(ordered)
                self._sort_key(ordered.this, scope, outputs)
        for key in ("limit", "offset"):
            if part := node.args.get(key):
                self._expression(part, scope)

    def _combined_modifiers(self, node: Node, scope: Scope, outputs: Columns) -> None:
        """ORDER BY after a bracket or UNION: PostgreSQL may hand it to the query inside, so only outputs are safe."""
        if order := node.args.get("order"):
            for ordered in order.expressions:
                constructs.only_known(ordered)
                key = nodes.bare(ordered.this)
                name = nodes.plain_name(key)
                if not isinstance(key, exp.Literal) and (name is None or name not in outputs):
                    raise NotPermitted(
                        "After UNION or a bracket, ORDER BY takes the name or number of an output column.",
                        rule="syntax",
                        hint="Name the column with AS and sort by that name.",
                    )
        for key in ("limit", "offset"):
            if part := node.args.get(key):
                self._expression(part, scope)

    def _sort_key(self, item: Node, scope: Scope, outputs: Columns) -> None:
        item = nodes.bare(item)
        if isinstance(item, exp.Parameter):
            raise NotPermitted(
                "A placeholder cannot be a sort key: it would sort by a constant.",
                rule="placeholder",
                hint="Write the column's name into the statement.",
            )
        name = nodes.plain_name(item)
        if name is None or name not in outputs:
            self._expression(item, scope)

    def _grouping(self, item: Node, scope: Scope, outputs: Columns) -> None:
        item = nodes.bare(item)
        if isinstance(item, exp.GroupingSets | exp.Cube | exp.Rollup | exp.Tuple):
            for child in nodes.children(item):
                self._grouping(child, scope, outputs)
            return
        name = nodes.plain_name(item)
        # The reverse of ORDER BY: columns of FROM come before output columns.
        if name is not None and not scope.has_local(name) and name in outputs:
            return
        if isinstance(item, exp.Parameter):
            self._sort_key(item, scope, outputs)
        self._expression(item, scope)

    # Expressions

    def _expression(self, root: Node, scope: Scope) -> None:
        """Every node below `root`. Iterative: a chain of a thousand ORs is a deep tree."""
        waiting: list[Node] = [root]
        while waiting:
            node = waiting.pop()
            if isinstance(node, exp.Query):
                self._query(node, scope)
            elif isinstance(node, exp.Column):
                self._column(node, scope)
            elif isinstance(node, exp.Identifier):
                scope.check_name(nodes.name(node))  # sqlglot leaves columns bare where it sees a lambda
            else:
                waiting += self._parts(node, scope)

    def _column(self, node: exp.Column, scope: Scope) -> None:
        constructs.only_known(node)
        if isinstance(node.this, exp.Star):
            scope.check_row(self._row(node, scope))
        elif table := node.args.get("table"):
            scope.check_column(nodes.optional_name(node.args.get("db")), nodes.name(table), nodes.name(node.this))
        else:
            scope.check_name(nodes.name(node.this))

    def _parts(self, node: Node, scope: Scope) -> Iterable[Node]:
        """The parts of a construct that remain to be checked."""
        if isinstance(node, exp.Window):
            return self._window(node, scope)
        if isinstance(node, exp.Values):
            self._values(node, scope)
            return ()
        if isinstance(node, exp.Kwarg):
            return (node.expression,)
        if isinstance(node, exp.Dot):
            return (constructs.of_pg_catalog(node),)
        if isinstance(node, exp.Star):
            if not isinstance(node.parent, exp.Count):
                raise constructs.unknown(node)
            return ()
        if isinstance(node, exp.Var):
            constructs.check_var(node)
            return ()
        if isinstance(node, exp.DataType):
            constructs.check_type(node)
            return ()
        if isinstance(node, exp.Parameter | exp.Placeholder):
            constructs.check_placeholder(node)
            return ()
        constructs.check_kind(node)
        return nodes.children(node)

    def _window(self, node: exp.Window, scope: Scope) -> Iterable[Node]:
        constructs.only_known(node)
        inside = [child for key, child in nodes.parts_by_key(node) if key not in ("alias", "this")]
        if isinstance(node.parent, exp.Select) and node.arg_key == "windows":
            for child in inside:  # `this` is the name of the window
                self._expression(child, scope)
            return ()
        return (node.this, *inside)


def _alias_columns(alias: Node | None) -> Columns:
    columns = cast(list[Node], [] if alias is None else alias.args.get("columns") or [])
    for column in columns:
        if isinstance(column, exp.ColumnDef):
            constructs.check_type(column.args["kind"])
            if any(value for key, value in column.args.items() if key not in ("this", "kind")):
                raise constructs.unknown(column)
    return tuple(nodes.name(column.this if isinstance(column, exp.ColumnDef) else column) for column in columns)


def _renamed(columns: Columns, alias: Node) -> Columns:
    """The columns under the names of `t(a, b)`; those that it does not reach keep theirs."""
    names = _alias_columns(alias)
    return (*names, *columns[len(names) :])


def _derived(columns: Columns, alias: Node | None, name: str = "") -> Source:
    if alias is None:
        return Source(name, columns)
    return Source(nodes.alias(alias) or name, _renamed(columns, alias))
