"""The table of PostgreSQL's SQLSTATEs: code, message and hint for the model, in our words."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from services.sql_tool import hints
from services.sql_tool.allowlist import AllowedTable, AllowList

_OPERATOR = re.compile(r"[-+*/<>=~!@#%^&|?]+")
_AGGREGATES = (
    "array_agg", "avg", "bit_and", "bit_or", "bool_and", "bool_or", "corr", "count", "every", "grouping", "json_agg",
    "json_object_agg", "jsonb_agg", "jsonb_object_agg", "max", "min", "mode", "percentile_cont", "percentile_disc",
    "stddev", "stddev_pop", "stddev_samp", "string_agg", "sum", "var_pop", "var_samp", "variance",
)  # fmt: skip


@dataclass(frozen=True)
class Place:
    """What may be said of an error: `word` of the statement where it is, types of PostgreSQL, what may be read."""

    word: str = ""
    types: tuple[str, ...] = ()
    sql: str = ""
    allowed: AllowList | None = None

    def tables(self) -> list[AllowedTable]:
        """The permitted tables that the statement names."""
        words = set(re.findall(r"\w+", self.sql.lower()))
        return [t for t in self.allowed.tables.values() if t.name.lower() in words] if self.allowed else []


@dataclass(frozen=True)
class Meaning:
    """One kind of error. `code` is one of codes.CODES."""

    code: str
    message: str
    hint: str = ""


def of(sqlstate: str, place: Place) -> Meaning:
    """What an error of the statement means. A SQLSTATE that is not in the tables gets what its class means."""
    special = _SPECIAL.get(sqlstate)
    found = special(place) if special else _MEANINGS.get(sqlstate) or _BY_CLASS.get(sqlstate[:2], _REFUSED)
    types = f" ({', '.join(place.types)})" if place.types else ""
    near = f" near `{place.word}`" if place.word and not special else ""
    return Meaning(found.code, f"{found.message}{types if found.code == 'type_mismatch' else ''}{near}.", found.hint)


def _syntax(place: Place) -> Meaning:
    if not place.word:
        return Meaning("syntax", "The statement is not valid SQL", "Check brackets, commas and keywords.")
    return Meaning(
        "syntax", f"Syntax error at or near `{place.word}`", "Check brackets, commas and keywords before it."
    )


def _unknown_column(place: Place) -> Meaning:
    wanted = hints.plain(place.word.rsplit(".", 1)[-1].strip())
    tables: Sequence[AllowedTable] = place.tables() or (list(place.allowed.tables.values()) if place.allowed else [])
    near = hints.nearest(wanted, sorted({column for table in tables for column in table.columns}))
    hint = (
        f"Did you mean `{near}`?" if near else "Use the described columns; repeat an expression in place of its alias."
    )
    return Meaning("unknown_column", f"Column `{place.word}` is not known in this place", hint)


def _unknown_table(place: Place) -> Meaning:
    wanted = hints.plain(place.word.split(".", 1)[0].strip())
    near = hints.nearest(wanted, place.allowed.names()) if place.allowed else None
    hint = f"Did you mean `{near}`?" if near else "Name it in FROM before it is used; LATERAL lets a subquery see it."
    return Meaning("unknown_table", f"Table or alias `{place.word}` is not known in this place", hint)


def _grouping(place: Place) -> Meaning:
    if place.word.lower().removeprefix("pg_catalog.") in _AGGREGATES:
        return Meaning(
            "misplaced_call",
            f"Aggregate `{place.word}` is not permitted in this place",
            "Use HAVING in place of WHERE, or aggregate in a subquery or WITH.",
        )
    name = place.word or "the column"
    return Meaning(
        "not_grouped",
        f"`{name}` is neither in GROUP BY nor in an aggregate",
        f"Add {name} to GROUP BY, or put it into an aggregate such as max({name}).",
    )


def _ambiguous(place: Place) -> Meaning:
    name = hints.plain(place.word)
    tables = [table.name for table in place.tables() if name in table.columns]
    where = f": {' and '.join(tables)} have it" if len(tables) > 1 else ""
    return Meaning("ambiguous_name", f"`{place.word}` is ambiguous{where}", f"Write alias.{place.word}.")


def _unknown_call(place: Place) -> Meaning:
    types = f" ({', '.join(place.types)})" if place.types else ""
    if _OPERATOR.fullmatch(place.word):
        return Meaning(
            "type_mismatch",
            f"Operator `{place.word}` does not take these types{types}",
            "Cast one side, such as $1::int or x::text.",
        )
    return Meaning(
        "type_mismatch",
        f"Function `{place.word}` does not take these arguments{types}",
        "Check their number and order, or cast them, such as x::numeric or x::text.",
    )


_REFUSED = Meaning("failed", "The database refused the statement", "Write it in a simpler way.")
_SPECIAL: Mapping[str, Callable[[Place], Meaning]] = {
    "42601": _syntax,
    "42703": _unknown_column,
    "42P01": _unknown_table,
    "42803": _grouping,
    "42702": _ambiguous,
    "42883": _unknown_call,
}
_DATE_HINT = "Write dates as YYYY-MM-DD, and as parameters."
_MEANINGS: Mapping[str, Meaning] = {
    "21000": Meaning(
        "several_rows",
        "A subquery that stands for one value gives several rows",
        "Add LIMIT 1, an aggregate, or use IN.",
    ),
    "22003": Meaning("out_of_range", "A number is too large for its type", "Cast to numeric or bigint."),
    "22004": Meaning("invalid_value", "NULL is not permitted as this value", "Use coalesce(x, …)."),
    "22007": Meaning("invalid_value", "A text is no date or time", _DATE_HINT),
    "22008": Meaning("out_of_range", "A date or time is out of range", _DATE_HINT),
    "22012": Meaning("division_by_zero", "A divisor is zero", "Divide by nullif(x, 0)."),
    "22013": Meaning("invalid_value", "A window's frame has a negative size", "Use a size of 0 or more."),
    "22023": Meaning("invalid_value", "An argument has a value that the function does not take", "Check its values."),
    "22025": Meaning("invalid_value", "LIKE … ESCAPE has an invalid escape", "Escape with one character."),
    "22026": Meaning("invalid_value", "Bit strings have different lengths", "Make them equally long."),
    "2201B": Meaning("invalid_value", "The regular expression is not valid", "Use POSIX syntax, or LIKE."),
    "2201E": Meaning("out_of_range", "The logarithm of zero or less is not defined", "Filter with x > 0."),
    "2201F": Meaning("out_of_range", "The root or power of such a number is not defined", "Filter with x >= 0."),
    "2201W": Meaning("invalid_value", "LIMIT is negative", "Use 0 or more."),
    "2201X": Meaning("invalid_value", "OFFSET is negative", "Use 0 or more."),
    "22030": Meaning("invalid_value", "A JSON object has a key twice", "Use distinct keys."),
    "22032": Meaning("invalid_value", "A text is not JSON", "Cast only texts that hold JSON."),
    "22033": Meaning("out_of_range", "A JSON array has no such element", "Use jsonb_path_query without strict."),
    "22P02": Meaning(
        "invalid_value",
        "A text is no value of the type that it is compared with or cast to",
        "Cast the other side to text, filter out such rows, or check the literal.",
    ),
    "22P03": Meaning("invalid_value", "A value is malformed", "Check the literal."),
    "22P05": Meaning("invalid_value", "A character cannot be converted", "Leave it out."),
    "42611": Meaning("unsupported", "The columns of WITH or FROM are declared in a wrong way", "Name every column."),
    "42701": Meaning("duplicate_name", "Two columns have one name", "Give them different names with AS."),
    "42704": Meaning("unknown_type", "A type, collation or other name is not known", "Use PostgreSQL's own types."),
    "42712": Meaning("duplicate_name", "Two tables have one alias", "Give each its own alias."),
    "42725": Meaning(
        "type_mismatch", "Several functions or operators would fit", "Cast the arguments, such as $1::int."
    ),
    "42804": Meaning("type_mismatch", "Types do not fit together", "Cast to one type, such as x::text or x::numeric."),
    "42809": Meaning(
        "misplaced_call", "A function is used in a way that it does not take", "Check *, DISTINCT and OVER."
    ),
    "42846": Meaning("type_mismatch", "There is no such cast", "Cast to text first, or use another function."),
    "42P02": Meaning("wrong_parameters", "A placeholder has no value", "Give one value per placeholder."),
    "42P08": Meaning(
        "wrong_parameters", "A placeholder is used with two types", "Cast it everywhere, such as $1::int."
    ),
    "42P09": Meaning("ambiguous_name", "An alias is ambiguous", "Give each table its own alias."),
    "42P10": Meaning(
        "invalid_reference",
        "ORDER BY, GROUP BY or DISTINCT refer to what the SELECT list does not have",
        "Add the expression to the SELECT list, and order by it; DISTINCT ON needs the same first in ORDER BY.",
    ),
    "42P18": Meaning("wrong_parameters", "The type of a placeholder is not clear", "Cast it, such as $1::int."),
    "42P19": Meaning(
        "unsupported",
        "The recursive WITH is not of the permitted form",
        "Write WITH RECURSIVE t AS (first UNION ALL SELECT … FROM t …), t once and not in an aggregate or outer join.",
    ),
    "42P20": Meaning("misplaced_call", "A window function or WINDOW is not permitted in this place", "Use a subquery."),
    "42P21": Meaning("type_mismatch", "Collations do not fit together", "Add one COLLATE."),
    "42P22": Meaning("type_mismatch", "The collation is not clear", "Add COLLATE."),
}
_BY_CLASS: Mapping[str, Meaning] = {
    "0A": Meaning("unsupported", "PostgreSQL does not offer this", "Write it in another way, such as with a subquery."),
    "21": _MEANINGS["21000"],
    "22": Meaning("invalid_value", "A value is not valid", "Check literals and casts."),
    "42": Meaning("syntax", "The statement is not valid", "Write it in a simpler way."),
    "54": Meaning("too_large", "The statement is too large or too complex", "Write it in fewer steps, with WITH."),
}
KNOWN: tuple[str, ...] = (*_SPECIAL, *_MEANINGS)
