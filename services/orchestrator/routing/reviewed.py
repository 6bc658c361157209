"""Whether a reviewed query answers a question to the letter: every word of it must be said by the query."""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

from services.orchestrator.routing.slots import Filling, NotFilled, Slot, fill
from services.orchestrator.routing.sql_roles import Comparison, comparisons
from services.orchestrator.routing.wording import cleaned, stems, stems_of, tokens, word_lists
from services.runtime.expressions.folding import fold
from services.runtime.tenants import SqlSource, VerifiedQuery

# What a query does not do says nothing of what it does.
_NOT_FOR = re.compile(r"\b(?:NOT|NO|Not|No)\b[^.]*\.?")
# Of a column: `Day of signature; empty for drafts (fecha de firma, firmado)`, without what follows the semicolon.
_ASIDE = re.compile(r";[^(]*")
_COUNTS, _SUMS = re.compile(r"\bcount\s*\(", re.I), re.compile(r"\bsum\s*\(", re.I)
_GROUPS = re.compile(r"\bgroup\s+by\b", re.I)
_LISTS = re.compile(
    r"\b(?:which|what|que|cuales(?:\s+son)?|list|lista|enumera|show|muestra(?:me)?)\s+(?:(?:all|the|los|las|todos|todas)\s+)*"
    r"(?P<noun>\w+)"
)
_TAKEN = "\0"
_VARIES = re.compile(
    r"^\W*(?:y|e|o|and|or|then|what about|how about|qu[ée] hay de)\b(?:\s+(?:(?:what|how) about|qu[ée] hay de)\b)?",
    re.I,
)
_WANTS_ROWS = re.compile(r"\b(?:which|who|whose|cuales|quien|quienes|list|lista|enumera|why|por que)\b")


@dataclass(frozen=True)
class Reviewed:
    """A reviewed query as the router knows it: slots, the stems of its words, and those of what it is about (`nouns`).

    `counts`, `sums`, `groups`: what the statement does.
    """

    name: str
    slots: tuple[Slot, ...]
    vocabulary: frozenset[str]
    entities: frozenset[str]
    nouns: frozenset[str] = frozenset()
    counts: bool = False
    sums: bool = False
    groups: bool = False

    def fit(self, question: str, today: date) -> Mapping[str, Any]:
        """The arguments that make it answer the question, and nothing else. Raises NotFilled."""
        question = cleaned(question)
        filling = fill(question, self.slots, today, self.nouns)
        self._check_kind(question)
        self._check_words(question, filling)
        return filling.arguments

    def vary(self, question: str, today: date) -> Mapping[str, Any]:
        """The arguments that a question gives which only varies another one of this query (`and in 2024?`).

        Raises NotFilled where it gives none, or says what the query cannot.
        """
        rest = _VARIES.sub("", question)
        filling = fill(rest, self.slots, today, self.nouns, partly=True)
        if not filling.arguments or _WANTS_ROWS.search(fold(rest)):
            raise NotFilled("the question does not vary the one before")
        self._check_words(rest, filling, about_it=True)
        return filling.arguments

    def _check_kind(self, question: str) -> None:
        """`which contracts` wants a list, `how many contracts` a number."""
        lists = any(stems(match["noun"]) & self.entities for match in _LISTS.finditer(fold(question)))
        known = word_lists()
        counted = any(word in known["counting"] | known["summing"] for word, _, _ in tokens(question))
        if (self.counts or self.sums) and (lists or not counted):
            raise NotFilled(f"`{self.name}` gives numbers, the question wants something else")
        if counted and not self.counts and not self.sums:
            raise NotFilled(f"`{self.name}` gives rows, the question wants a number")

    def _check_words(self, question: str, filling: Filling, *, about_it: bool = False) -> None:
        """`about_it`: that the question is about the query's tables is known already."""
        known, text = word_lists(), list(question)
        for start, end in filling.spans:
            text[start:end] = _TAKEN * (end - start)
        left = tokens("".join(text).replace(_TAKEN, " "))
        rest = "".join(text)
        named = about_it
        for index, (word, _, end) in enumerate(left):
            follower = left[index + 1] if index + 1 < len(left) else None
            if word in known["grouping"]:
                grouped = follower is not None and _TAKEN not in rest[end : follower[1]]
                if grouped and not self.groups:
                    raise NotFilled(f"`{self.name}` does not split what it gives")
            elif not self._says(word):
                raise NotFilled(f"`{self.name}` cannot say `{word}`")
            named = named or bool(stems(word) & self.entities)
        if not named:
            raise NotFilled(f"the question does not name what `{self.name}` is about")

    def _says(self, word: str) -> bool:
        known = word_lists()
        return (
            word in known["fillers"]
            or (self.counts and word in known["counting"])
            or (self.sums and word in known["summing"])
            or bool(stems(word) & self.vocabulary)
        )


def reviewed(name: str, query: VerifiedQuery, source: SqlSource) -> Reviewed:
    """What the router needs to know of a query of the tenant's file."""
    compared = comparisons(query.sql)
    identifiers = set(re.findall(r"[a-z_]\w*", query.sql.lower()))
    tables = {table: about for table, about in source.tables.items() if table in identifiers}
    columns = {
        column: about for table in tables.values() for column, about in table.columns.items() if column in identifiers
    }
    alike = Counter(column for table in tables.values() for column in table.columns)
    said = [name.replace("_", " "), _NOT_FOR.sub("", query.description), *(one.question for one in query.examples)]
    said += [parameter.description for parameter in query.parameters.values()]
    of_tables = [_ASIDE.sub("", one.description) for one in tables.values()] + [one.replace("_", " ") for one in tables]
    said += [*of_tables, *(_ASIDE.sub("", one.description) for one in columns.values())]
    nouns = frozenset(word for word, _, _ in tokens(" ".join(of_tables))) - word_lists()["fillers"]
    slots = [
        _slot(parameter, query, compared.get(number), columns, alike)
        for number, parameter in enumerate(query.parameters, start=1)
    ]
    return Reviewed(
        name,
        tuple(slots),
        stems_of(" ".join(said)) - stems_of(" ".join(_LIMITING)),
        frozenset(stem for noun in nouns for stem in stems(noun)),
        nouns,
        bool(_COUNTS.search(query.sql)) or _asks_how_many(query),
        bool(_SUMS.search(query.sql)),
        bool(_GROUPS.search(query.sql)),
    )


def _asks_how_many(query: VerifiedQuery) -> bool:
    """Whether its reviewer has it answer such questions: `how many units are in stock` is a sum."""
    said = (word for one in query.examples for word, _, _ in tokens(one.question))
    return any(word in word_lists()["counting"] for word in said)


# They must be said by a parameter; in a description they limit something else.
_LIMITING = (
    "no not sin without except excepto salvo menos only solo solamente other otro otra otros otras más more less than "
    "before after antes después outside fuera except under below bajo over yet todavía never nunca"
).split()


def _slot(
    name: str,
    query: VerifiedQuery,
    compared: Comparison | None,
    columns: Mapping[str, Any],
    alike: Mapping[str, int],
) -> Slot:
    """`alike`: how many tables have a column of that name."""
    parameter = query.parameters[name]
    column_name = compared.column if compared else ""
    column = columns.get(column_name)
    values = {value: list(names) for value, names in parameter.values.items()}
    if not values and column is not None and alike[column_name] == 1 and parameter.type.startswith("text"):
        values = {value: list[str]() for value in column.values}
    for value, names in values.items():
        if column is not None and value in column.values:
            names += [one.strip() for one in re.split(r"[;,]", column.values[value]) if one.strip()]
    called = " ".join((name.replace("_", " "), parameter.description, column.description if column else ""))
    return Slot(
        name,
        parameter.type,
        compared.operator if compared else "unknown",
        values,
        column.unit if column is not None else "",
        (parameter.minimum, parameter.maximum),
        parameter.default is None,
        frozenset(stem for word, _, _ in tokens(called) if word not in word_lists()["fillers"] for stem in stems(word)),
    )
