"""Identifiers in a query, such as CT-2025-0091: who writes one wants the passages that hold just that one."""

import re
from collections.abc import Collection

from services.retrieval.store import StoredChunk

# Letters first, then digits, in one word or in parts: amounts, years, dates and clause numbers are no identifiers.
_CODE = re.compile(r"(?<![\w-])[A-Za-z]{1,10}(?:[-_/.]?\d+)+(?:[-_/]\w+)*(?![\w-])")
_MIN_CHARS = 4


def codes(query: str) -> frozenset[str]:
    """The identifiers of a query, case-folded."""
    return frozenset(found.casefold() for found in _CODE.findall(query) if len(found) >= _MIN_CHARS)


def held(wanted: Collection[str], chunk: StoredChunk) -> int:
    """How many of the identifiers a passage, or its document, holds as whole words."""
    if not wanted:
        return 0
    text = " ".join((chunk.document_id, chunk.title, chunk.section, chunk.text, *chunk.metadata.values())).casefold()
    return sum(re.search(rf"(?<![\w-]){re.escape(code)}(?![\w-])", text) is not None for code in wanted)
