"""Judges a corpus of statements that a reviewer brings: for `sabueso sql check`."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass

from services.sql_tool import corpus, ddl, trial


@dataclass(frozen=True)
class Checked:
    """One verdict a case, `{id, verdict, stage, code, reason}`, and where they differ from the `expected` ones."""

    verdicts: Sequence[dict[str, str]]
    differing: Sequence[str]
    expected: int


def check_lines(
    lines: Iterable[str], *, dsn: str = "", schema: str = "", say: Callable[[str], None] = lambda line: None
) -> Checked:
    """Judges each line, see `corpus`; with `dsn` on that database, see `trial`, else by the SQL text of the `schema`.

    Raises InvalidField when a line is wrong, and DependencyFailed when the database does not answer.
    """
    cases = corpus.read_cases(lines)
    if dsn:
        verdicts = asyncio.run(trial.judge(cases, dsn, say))
    else:
        verdicts = list(corpus.without_database(cases, ddl.read(schema) if schema else None))
    differing = corpus.disagreements(cases, verdicts, with_database=bool(dsn))
    return Checked([asdict(verdict) for verdict in verdicts], differing, sum(bool(case.expect) for case in cases))
