"""The sources behind the marks of an answer, in OpenAI's form."""

import json
from typing import Any
from urllib.parse import quote

from sabueso.orchestrator.v1 import orchestrator_pb2 as pb


def annotation(citation: pb.Citation, text: str) -> dict[str, Any]:
    """A source. Indices count characters of the content; they name the first `[n]` in it."""
    mark = f"[{citation.mark}]"
    start = text.find(mark)
    # A source that the text does not name stands at its end.
    start, end = (start, start + len(mark)) if start >= 0 else (len(text), len(text))
    place = {"index": citation.mark, "start_index": start, "end_index": end}
    kind, fields = _source(citation)
    return {"type": kind, kind: {**place, **fields}}


def evidence(shown: pb.Evidence) -> dict[str, Any]:
    """A piece of evidence. `score` is null for what was not searched for; what else there is depends on its kind."""
    citation = shown.source
    facts: dict[str, Any] = {"mark": citation.mark, "source": "", "title": "", "text": ""}
    match citation.WhichOneof("source"):
        case "document":
            one = citation.document
            facts |= {"source": one.source, "title": one.title, "text": one.quote}
            facts |= {"document_id": one.document_id, "chunk_id": one.chunk_id}
        case "sql":
            facts |= {"source": "sql", "text": citation.sql.preview_json, "statement": citation.sql.statement}
        case "tool":
            facts |= {"source": citation.tool.tool, "text": citation.tool.quote, "tool": citation.tool.tool}
        case _:
            page = citation.web
            facts |= {"source": page.url, "title": page.title, "text": page.quote, "url": page.url}
    return facts | {"score": round(shown.score, 6) if shown.score else None, "cited": shown.cited}


def flat(annotation: dict[str, Any]) -> dict[str, Any]:
    """An annotation of a chat message in the form of the Responses API: its fields beside its type.

    Stock clients know a closed list of types and warn of others, so a statement over the database is a file citation
    of the file `sql`, and what another tool said one of the file that bears its name; each says more under its own.
    """
    kind = annotation["type"]
    fields: dict[str, Any] = annotation[kind]
    if kind not in ("sql_citation", "tool_citation"):
        return {"type": kind, **fields}
    place = {name: fields[name] for name in ("index", "start_index", "end_index")}
    said = {name: value for name, value in fields.items() if name not in place}
    file_id, filename = ("sql", "SQL") if kind == "sql_citation" else (fields["tool"], fields["tool"])
    return {"type": "file_citation", "file_id": file_id, "filename": filename, **place, kind: said}


def parsed(text: str, empty: Any, otherwise: Any = None) -> Any:
    """The value of a JSON text; `empty` for none, `otherwise` (or `empty`) for what is not JSON."""
    try:
        return json.loads(text) if text else empty
    except ValueError:
        return empty if otherwise is None else otherwise


def _source(citation: pb.Citation) -> tuple[str, dict[str, Any]]:
    match citation.WhichOneof("source"):
        case "document":
            return "file_citation", _document(citation.document)
        case "sql":
            return "sql_citation", _sql(citation.sql)
        case "tool":
            said = citation.tool
            arguments = parsed(said.arguments_json, {}, otherwise=said.arguments_json)
            return "tool_citation", {"tool": said.tool, "arguments": arguments, "quote": said.quote}
        case _:
            web = citation.web
            return "url_citation", {"url": web.url, "title": web.title, "quote": web.quote}


def _document(source: pb.DocumentSource) -> dict[str, Any]:
    return {
        "file_id": source.document_id,
        "filename": source.source,
        "chunk_id": source.chunk_id,
        "title": source.title,
        "page": source.page or None,
        "section": source.section,
        "quote": source.quote,
        "url": f"/v1/documents/{quote(source.document_id, safe='')}/chunks",
    }


def _sql(source: pb.SqlSource) -> dict[str, Any]:
    preview = parsed(source.preview_json, {})
    return {
        "statement": source.statement,
        "params": parsed(source.params_json, []),
        "row_count": source.row_count,
        "columns": preview.get("columns", []),
        "rows": preview.get("rows", []),
    }
