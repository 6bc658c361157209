"""What a tool found as a JSON object for programs: ids, scores and metadata, which no model reads."""

import json
from collections.abc import Callable, Sequence
from typing import Any

from services.orchestrator.results import Found, Page, Pages, Passage, Passages, Reply, Rows

# Far above what a tool finds, and far below what a message may hold.
_MAX_CHARS = 512 * 1024


def structured(found: Found, max_chars: int = _MAX_CHARS) -> dict[str, Any]:
    """The object: `passages`, `results`, `text`, or `columns` and `rows`; `truncated` where not all of it is there.

    `max_chars`: ceiling of the list's JSON text; what does not fit is left out whole.
    """
    match found:
        case Passages():
            return _listed("passages", found.passages, _passage, max_chars)
        case Pages():
            return _listed("results", found.pages, _page, max_chars)
        case Rows():
            rows = _fitting([list(row) for row in found.rows], max_chars)
            return {
                "columns": list(found.columns),
                "rows": rows,
                "row_count": len(found.rows),
                "truncated": found.truncated or len(rows) < len(found.rows),
                "statement": found.statement,
                "params": json.loads(found.params_json or "[]"),
            }
        case Reply():
            return {"text": found.text[:max_chars], "truncated": len(found.text) > max_chars}


def _listed(name: str, found: Sequence[Any], describe: Callable[[Any], dict[str, Any]], most: int) -> dict[str, Any]:
    kept = _fitting([describe(one) for one in found], most)
    return {name: kept, "truncated": len(kept) < len(found)}


def _fitting(items: Sequence[Any], most: int) -> list[Any]:
    """The first items, as many as fit."""
    kept: list[Any] = []
    for item in items:
        most -= len(json.dumps(item, ensure_ascii=False)) + 2
        if most < 0:
            break
        kept.append(item)
    return kept


def _passage(passage: Passage) -> dict[str, Any]:
    body: dict[str, Any] = {
        "document_id": passage.document_id,
        "chunk_id": passage.chunk_id,
        "collection": passage.collection,
        "title": passage.title,
        "source": passage.source,
        "page": passage.page or None,
        "section": passage.section,
        "language": passage.language,
        "score": passage.score,
        "metadata": dict(passage.metadata),
        "text": passage.text,
    }
    return body


def _page(page: Page) -> dict[str, Any]:
    return {"title": page.title, "url": page.url, "snippet": page.snippet, "published": page.published}
