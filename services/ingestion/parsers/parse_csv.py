"""csv and tsv to blocks: the separator is told from the rows, whatever the name says."""

import csv
import sys
from collections import Counter
from io import StringIO

from services.ingestion.parsed import Outline, Parsed
from services.ingestion.parsers.parse_text import parse_text
from services.ingestion.parsers.sheets import Budget, add_rows, written

_SEPARATORS = (",", ";", "\t", "|")
_SAMPLE_CHARACTERS = 50_000
_SAMPLE_ROWS = 200
# Part of the rows that have the most frequent width: reports have a few lines above and below their table.
_LEAST_EVEN = 0.3
# A quote that never ends must not raise: the rest is then one cell.
csv.field_size_limit(sys.maxsize)


def parse_csv(text: str) -> Parsed:
    """Blocks of a table; a text whose lines have no common separator is read as a text."""
    separator, text = _separator(text)
    if not separator:
        return parse_text(text)
    outline, budget = Outline(), Budget()
    rows = ([written(cell) for cell in row] for row in csv.reader(StringIO(text, newline=""), delimiter=separator))
    add_rows(outline, "", rows, budget)
    return Parsed(blocks=tuple(outline.blocks), warnings=tuple(budget.warnings))


def _separator(text: str) -> tuple[str, str]:
    """The separator, or empty, and the text without Excel's line `sep=;`."""
    first, _, rest = text.partition("\n")
    if first.lower().startswith("sep=") and len(first) == 5:
        return first[4], rest
    sample = text[:_SAMPLE_CHARACTERS]
    if len(text) > _SAMPLE_CHARACTERS:
        sample = sample.rpartition("\n")[0] or sample
    best = max(_SEPARATORS, key=lambda one: _evenness(sample, one))
    return (best if _evenness(sample, best) > _LEAST_EVEN else ""), text


def _evenness(sample: str, separator: str) -> float:
    """Part of the rows that have the most frequent width, a little more for more columns; 0 when nothing is parted."""
    rows = [row for row in csv.reader(StringIO(sample, newline=""), delimiter=separator) if row][:_SAMPLE_ROWS]
    widths = Counter(len(row) for row in rows)
    width, count = max(widths.items(), key=lambda one: (one[1] if one[0] > 1 else 0, one[0]), default=(1, 0))
    return 0.0 if width < 2 else count / len(rows) + width / 1000
