"""Walks the parsed tree of a statement: every construct must be known and every name must be permitted."""

from collections.abc import Iterable, Mapping, Sequence

from sqlglot import exp

from services.runtime.errors import NotPermitted
from services.sql_tool import constructs, nodes
from services.sql_tool.allowlist import AllowedTable, AllowList
from services.sql_tool.nodes import Node
from services.sql_tool.scope import Columns, Scope, Source
from services.sql_tool.sources import Sources

# PostgreSQL's own limit of a SELECT list.
MAX_COLUMNS = 1664


class Resolver:
    """Checks one statement. `added` are the columns of SEARCH and CYCLE by the offset of the WITH query's name."""

    def __init__(self, allowed: AllowList, added: Mapping[int, Sequence[str]] | None = None) -> None:
        self._sources = Sources(self, allowed)
        self._added = added or {}
        # Offsets of the names that were checked.
        self.taken = set[int]()

    def check(self, root: Node) -> None:
        """Raises NotPermitted; its `rule` says which rule forbids the statement."""
        self.query(root, Scope())

    @property
    def tables(self) -> Mapping[str, AllowedTable]:
        """The tables that the statement reads, once `check` has returned."""
        return self._sources.tables

    def guarded(self) -> set[str]:
        """Names that stand for what may not be read: hidden columns, and whole rows that hold some."""
        hidden = {column for table in self.tables.values() for column in table.hidden}
        return hidden | self._sources.names if hidden else hidden

    def take(self, identifier: Node) -> str:
        """The name, now accounted for."""
        self.taken.add(nodes.position(identifier))
        return nodes.name(identifier)

    def query(self, node: Node, around: Scope) -> Columns:
        """A whole query within `around`; returns its output columns."""
        if isinstance(node, exp.Select):
            return self._select(node, around)
        if isinstance(node, exp.SetOperation | exp.Subquery):
            scope = self._with(node, around)
            columns = self.query(node.this, scope)
            if isinstance(node, exp.SetOperation):
                self.query(node.expression, scope)
            self._combined_modifiers(node, scope, columns)
            return columns
        if isinstance(node, exp.Values):
            return self._values(node, around)
        raise constructs.unknown(node)

    def _select(self, node: exp.Select, around: Scope) -> Columns:
        scope = self._with(node, around).inner()
        self._sources.read(node, scope)
        outputs = self._outputs(node, scope)
        for key in ("where", "having"):
            if part := node.args.get(key):
                self.expression(part.this, scope)
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
        constructs.only_known(clause)
        recursive = bool(clause.args.get("recursive"))
        if recursive:  # every name of the list is visible in all of them
            for cte in clause.expressions:
                alias = cte.args["alias"]
                ctes[self.take(alias.this)] = self._sources.renamed((), alias)
        for cte in clause.expressions:
            constructs.only_known(cte)
            alias = cte.args["alias"]
            name = self.take(alias.this)
            if recursive and isinstance(cte.this, exp.SetOperation):
                self._recursive(cte.this, scope, name, alias, ctes)
            else:
                ctes[name] = self._sources.renamed(self.query(cte.this, scope), alias)
            ctes[name] = (*ctes[name], *self._added.get(nodes.position(alias.this), ()))
        return scope

    def _recursive(
        self, node: exp.SetOperation, around: Scope, name: str, alias: Node, ctes: dict[str, Columns]
    ) -> None:
        """The first part of a recursive query names the columns that the second part reads."""
        scope = self._with(node, around)
        columns = self.query(node.this, scope)
        ctes[name] = self._sources.renamed(columns, alias)
        own = node.args.get("with_")
        if own is None or name not in {nodes.name(cte.args["alias"].this) for cte in own.expressions}:
            scope = Scope(scope.sources, scope.parent, {**scope.ctes, name: ctes[name]})
        self.query(node.expression, scope)
        self._combined_modifiers(node, scope, columns)

    def _values(self, node: exp.Values, around: Scope) -> Columns:
        constructs.only_known(node)
        width = 0
        for row in node.expressions:
            width = max(width, len(nodes.unpacked(row)))
            self.expression(row, around)
        return tuple(f"column{i + 1}" for i in range(width))

    def _outputs(self, node: exp.Select, scope: Scope) -> Columns:
        columns: list[str | None] = []
        for item in node.expressions:
            star = self._starred(item, scope)
            if star is not None:
                columns += star
                if len(columns) > MAX_COLUMNS:  # each WITH query can double those of the one before
                    raise constructs.too_wide()
                continue
            inner = item.this if isinstance(item, exp.Alias) else item
            self.expression(inner, scope)
            columns.append(self.take(item.args["alias"]) if isinstance(item, exp.Alias) else nodes.output_name(item))
        return tuple(columns)

    def _starred(self, item: Node, scope: Scope) -> Sequence[str | None] | None:
        if isinstance(item, exp.Star):
            if any(item.args.values()):
                raise constructs.unknown(item)  # EXCEPT and the like of other databases
            for source in scope.sources:
                scope.check_row(source)
            return scope.shown
        if isinstance(item, exp.Column) and isinstance(item.this, exp.Star):
            source = self._row(item, scope)
            scope.check_row(source)
            return source.columns
        return None

    def _row(self, star: exp.Column, scope: Scope) -> Source:
        constructs.only_known(star)
        return scope.source(self._optional(star.args.get("db")), self.take(star.args["table"]))

    def _optional(self, identifier: Node | None) -> str | None:
        return None if identifier is None else self.take(identifier)

    # Sorting and grouping: the places where a bare name may be an output column

    def _modifiers(self, node: Node, scope: Scope, outputs: Columns) -> None:
        if order := node.args.get("order"):
            for ordered in order.expressions:
                constructs.only_known(ordered)
                self._sort_key(ordered.this, scope, outputs)
        for key in ("limit", "offset"):
            if part := node.args.get(key):
                self.expression(part, scope)

    def _combined_modifiers(self, node: Node, scope: Scope, outputs: Columns) -> None:
        """ORDER BY after a bracket or UNION: PostgreSQL may hand it to the query inside, so only outputs are safe."""
        if order := node.args.get("order"):
            for ordered in order.expressions:
                constructs.only_known(ordered)
                key = nodes.bare(ordered.this)
                name = self._plain_name(key)
                if not isinstance(key, exp.Literal) and (name is None or not _names(outputs, name)):
                    raise NotPermitted(
                        "After UNION or a bracket, ORDER BY takes the name or number of an output column.",
                        rule="syntax",
                        hint="Name the column with AS and sort by that name.",
                    )
        for key in ("limit", "offset"):
            if part := node.args.get(key):
                self.expression(part, scope)

    def _plain_name(self, item: Node) -> str | None:
        """The name of an unqualified column, accounted for, else None."""
        if nodes.plain_name(item) is None:
            return None
        return self.take(item.this)

    def _sort_key(self, item: Node, scope: Scope, outputs: Columns) -> None:
        item = nodes.bare(item)
        if constructs.is_placeholder(item):
            raise constructs.constant_key()
        name = self._plain_name(item)
        if name is None or not (_names(outputs, name) or (name in outputs and not scope.hides(name))):
            self.expression(item, scope)

    def _grouping(self, item: Node, scope: Scope, outputs: Columns) -> None:
        item = nodes.bare(item)
        if isinstance(item, exp.GroupingSets | exp.Cube | exp.Rollup | exp.Tuple):
            for child in nodes.children(item):
                self._grouping(child, scope, outputs)
            return
        name = self._plain_name(item)
        # The reverse of ORDER BY: columns of FROM come before output columns.
        if name is not None and not scope.has_local(name) and _names(outputs, name):
            return
        if constructs.is_placeholder(item):
            raise constructs.constant_key()
        self.expression(item, scope)

    # Expressions

    def expression(self, root: Node, scope: Scope) -> None:
        """Every node below `root`. Iterative: a chain of a thousand ORs is a deep tree."""
        waiting: list[Node] = [root]
        while waiting:
            node = waiting.pop()
            if isinstance(node, exp.Query):
                self.query(node, scope)
            elif isinstance(node, exp.Column):
                self._column(node, scope)
            elif isinstance(node, exp.Identifier):
                scope.check_name(self.take(node))  # sqlglot leaves columns bare where it sees a lambda
            else:
                waiting += self._parts(node, scope)

    def _column(self, node: exp.Column, scope: Scope) -> None:
        constructs.only_known(node)
        if isinstance(node.this, exp.Star):
            scope.check_row(self._row(node, scope))
        elif table := node.args.get("table"):
            scope.check_column(self._optional(node.args.get("db")), self.take(table), self.take(node.this))
        else:
            scope.check_name(self.take(node.this))

    def _parts(self, node: Node, scope: Scope) -> Iterable[Node]:
        """The parts of a construct that remain to be checked."""
        if isinstance(node, exp.Window):
            return self._window(node, scope)
        if isinstance(node, exp.Values):
            self._values(node, scope)
            return ()
        if isinstance(node, exp.Kwarg):
            return (node.expression,)
        if isinstance(node, exp.Collate):
            self.take(constructs.collation(node))
            return (node.this,)
        if isinstance(node, exp.Dot):
            return (constructs.of_pg_catalog(node),)
        if constructs.is_leaf(node):
            return ()
        constructs.check_kind(node)
        return nodes.children(node)

    def _window(self, node: exp.Window, scope: Scope) -> Iterable[Node]:
        constructs.only_known(node)
        inside = [child for key, child in nodes.parts_by_key(node) if key not in ("alias", "this")]
        for key in ("alias", "this"):
            if isinstance(name := node.args.get(key), exp.Identifier):
                self.take(name)
        if isinstance(node.parent, exp.Select) and node.arg_key == "windows":
            for child in inside:  # `this` is the name of the window
                self.expression(child, scope)
            return ()
        return (node.this, *inside)


def _names(outputs: Columns, name: str) -> bool:
    """Whether PostgreSQL is bound to take the name for an output column."""
    return any(own == name and not isinstance(own, nodes.Inferred) for own in outputs)
