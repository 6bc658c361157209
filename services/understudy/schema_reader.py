"""Reads the CREATE TABLE text that the sql_query tool carries in its description."""

import re
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache

_NUMERIC = re.compile(
    r"^(?:numeric|decimal|money|real|double|float|integer|int|bigint|smallint|serial|bigserial)", re.I
)
_DATE = re.compile(r"^(?:date|timestamp)", re.I)
_TEXT = re.compile(r"^(?:text|character|varchar|char|citext|uuid|name)", re.I)


@dataclass(frozen=True)
class Column:
    """A column. `values` maps all its values to meanings, `examples` are some; `references` is (table, column)."""

    name: str
    type: str
    description: str = ""
    unit: str = ""
    values: Mapping[str, str] = field(default_factory=dict[str, str])
    examples: tuple[str, ...] = ()
    primary_key: bool = False
    references: tuple[str, str] | None = None

    @property
    def is_number(self) -> bool:
        """Whether it can be added up, as far as the type says."""
        return bool(_NUMERIC.match(self.type))

    @property
    def is_key(self) -> bool:
        """Whether its numbers are names of rows."""
        return self.primary_key or self.references is not None

    @property
    def is_date(self) -> bool:
        """Whether it holds days or moments."""
        return bool(_DATE.match(self.type))

    @property
    def is_text(self) -> bool:
        """Whether it holds text."""
        return bool(_TEXT.match(self.type))


@dataclass(frozen=True)
class Table:
    """A table and its columns by name."""

    name: str
    description: str
    columns: Mapping[str, Column]

    @property
    def key(self) -> Column | None:
        """The primary key, if it is one column."""
        keys = [column for column in self.columns.values() if column.primary_key]
        return keys[0] if len(keys) == 1 else None

    @property
    def label(self) -> Column | None:
        """The column that names a row for people."""
        texts = [c for c in self.columns.values() if c.is_text and not c.references and not c.values]
        named = re.compile(r"(?:^|_)(?:name|title|nombre|titulo|label|denominacion)$", re.I)
        return next((c for c in texts if named.search(c.name)), None)


@dataclass(frozen=True)
class Join:
    """`table.column = other.other_column`; `fans_out` when one row of `table` may meet several of `other`."""

    table: str
    column: str
    other: str
    other_column: str
    fans_out: bool


@dataclass(frozen=True, eq=False)
class Schema:
    """The tables of a description, by name. Two schemas are equal only when they are one."""

    tables: Mapping[str, Table]

    def paths(self, start: str) -> dict[str, list[Join]]:
        """Shortest joins from a table to each that it can reach; along its own references first."""
        found: dict[str, list[Join]] = {start: []}
        queue = deque([start])
        while queue:
            table = queue.popleft()
            for join in sorted(self._joins(table), key=lambda one: one.fans_out):
                if join.other not in found:
                    found[join.other] = [*found[table], join]
                    queue.append(join.other)
        return found

    def _joins(self, table: str) -> Iterator[Join]:
        for column in self.tables[table].columns.values():
            if column.references and column.references[0] in self.tables:
                yield Join(table, column.name, *column.references, fans_out=False)
        for other in self.tables.values():
            for column in other.columns.values():
                if column.references and column.references[0] == table and other.name != table:
                    yield Join(table, column.references[1], other.name, column.name, fans_out=True)


_NAME = r'(?:"(?:[^"]|"")+"|[A-Za-z_][\w$]*)'
_CREATE = re.compile(rf"CREATE\s+TABLE\s+(?:IF\s+NOT\s+EXISTS\s+)?(?:{_NAME}\.)?(?P<name>{_NAME})\s*\(", re.I)
_REFERENCES = re.compile(rf"REFERENCES\s+(?:{_NAME}\.)?(?P<table>{_NAME})\s*(?:\(\s*(?P<column>{_NAME})\s*\))?", re.I)
_COLUMN = re.compile(
    rf"(?P<name>{_NAME})\s+(?P<type>(?!KEY\b|CONSTRAINT\b)[A-Za-z][\w ]*?(?:\([\d, ]*\))?"
    r"(?:\s+with(?:out)? time zone)?(?:\[\])?)"
    r"(?=\s+(?:PRIMARY|REFERENCES|NOT|NULL|UNIQUE|DEFAULT|CHECK|GENERATED|COLLATE)\b|\s*$)",
    re.I,
)
_KEY_ITEM = re.compile(rf"(?:CONSTRAINT\s+{_NAME}\s+)?(?P<kind>PRIMARY|FOREIGN)\s+KEY\s*\((?P<names>[^)]*)\)", re.I)
_OTHER_ITEM = re.compile(
    r"(?:CONSTRAINT|UNIQUE|CHECK|EXCLUDE|LIKE)\b(?!\s+(?:text|varchar|integer|date|numeric)\b)", re.I
)
_VALUE = re.compile(r"'((?:[^']|'')*)'\s*(?:[=:]\s*(.*?))?\s*(?=[;,]\s*'(?:[^']|'')*'\s*(?:[=:;,]|$)|[.;,]?\s*$)")
_LABELS = re.compile(r"\b(Unit|Values|Examples)\s*:\s*", re.I)


@lru_cache(maxsize=64)
def read_schema(text: str) -> Schema:
    """Every table of a text, whatever prose is around; empty when there is none. The same text is read once."""
    tables: dict[str, Table] = {}
    for match in _CREATE.finditer(text):
        name = _unquoted(match["name"])
        head, items = _items(text, match.end())
        tables[name] = Table(name, head, _columns(items))
    return Schema(tables)


def _unquoted(name: str) -> str:
    return name[1:-1].replace('""', '"') if name.startswith('"') else name


def _items(text: str, start: int) -> tuple[str, list[tuple[str, str]]]:
    """The table's own comment, and (definition, comment) of each item up to the closing bracket."""
    head: list[str] = []
    items: list[tuple[str, list[str]]] = []
    depth, current, at = 0, "", start
    comments = head
    while at < len(text):
        char = text[at]
        if text.startswith("--", at):
            end = text.find("\n", at)
            end = len(text) if end < 0 else end
            own: list[str] = []
            if current.strip():  # the last column has no comma before its comment
                items.append((current.strip(), own))
                current, comments = "", own
            comments.append(text[at + 2 : end].strip())
            at = end
            continue
        if char in ",)" and depth == 0:
            if current.strip():
                comments = list[str]()
                items.append((current.strip(), comments))
            current = ""
            if char == ")":
                tail = re.match(r"\s*;?[ \t]*--([^\n]*)", text[at + 1 : at + 2000])
                if tail and not head:
                    head.append(tail[1].strip())
                break
        else:
            depth += (char == "(") - (char == ")")
            current += char
        at += 1
    return " ".join(head), [(definition, " ".join(own)) for definition, own in items]


def _columns(items: list[tuple[str, str]]) -> dict[str, Column]:
    columns: dict[str, Column] = {}
    keys: set[str] = set()
    foreign: dict[str, tuple[str, str]] = {}
    for definition, comment in items:
        reference = _REFERENCES.search(definition)
        target = (_unquoted(reference["table"]), _unquoted(reference["column"] or "id")) if reference else None
        if key := _KEY_ITEM.match(definition):
            names = [_unquoted(name.strip()) for name in key["names"].split(",")]
            if key["kind"].upper() == "PRIMARY":
                keys.update(names)
            elif target and len(names) == 1:
                foreign[names[0]] = target
            continue
        match = None if _OTHER_ITEM.match(definition) else _COLUMN.match(definition)
        if match:
            name = _unquoted(match["name"])
            primary = bool(re.search(r"\bPRIMARY\s+KEY\b", definition, re.I))
            columns[name] = _column(name, match["type"].strip(), comment, primary, target)
    return {
        name: replace(
            one,
            primary_key=one.primary_key or name in keys,
            references=one.references or foreign.get(name),
        )
        for name, one in columns.items()
    }


def _column(name: str, kind: str, comment: str, primary: bool, target: tuple[str, str] | None) -> Column:
    parts = _LABELS.split(comment)
    unit, values, examples = "", dict[str, str](), tuple[str, ...]()
    for label, text in zip(parts[1::2], parts[2::2], strict=True):
        found = {m[1].replace("''", "'"): (m[2] or "").strip(" .,;") for m in _VALUE.finditer(text)}
        match label.lower():
            case "unit":
                unit = text.strip().rstrip(".;,").strip()
            case "values":
                values = found
            case _:
                examples = tuple(found)
    return Column(name, kind, parts[0].strip(), unit, values, examples, primary, target)
