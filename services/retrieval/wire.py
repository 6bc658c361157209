"""Between the proto's words and retrieval's own; refuses what is malformed, naming the field."""

import base64
import binascii
import math
import re
from collections.abc import Sequence

from sabueso.retrieval.v1 import retrieval_pb2 as pb
from services.retrieval.ranking import Fusion
from services.retrieval.search import Ranked, Request
from services.retrieval.store import (
    ALL_LABELS,
    UNSCANNED,
    Condition,
    Document,
    Filter,
    Mode,
    NewChunk,
    Scan,
    SparseTerms,
    StoredChunk,
    SuspiciousSpan,
    TokenMatrix,
)
from services.runtime.errors import InvalidField

_MODES = {
    pb.SEARCH_MODE_UNSPECIFIED: Mode.HYBRID,
    pb.SEARCH_MODE_DENSE: Mode.DENSE,
    pb.SEARCH_MODE_SPARSE: Mode.SPARSE,
    pb.SEARCH_MODE_HYBRID: Mode.HYBRID,
}
_FUSIONS = {
    pb.FUSION_UNSPECIFIED: None,
    pb.FUSION_RRF: Fusion.RRF,
    pb.FUSION_DBSF: Fusion.DBSF,
    pb.FUSION_CALIBRATED: Fusion.CALIBRATED,
}
_COLLECTION = re.compile(r"[a-z0-9_-]{1,64}")
_DOCUMENT_ID = re.compile(r"[\w\-.:/]{1,200}")
_LANGUAGE = re.compile(r"([a-z]{2})?")
_MOST_CONDITIONS, _MOST_VALUES, _MOST_METADATA, _MOST_LABELS = 50, 1000, 50, 50
_MOST_SUSPICIOUS = 20
_LONGEST_KEY, _LONGEST_VALUE, _LONGEST_QUERY, _LONGEST_TEXT = 100, 1000, 4096, 100_000
_LARGEST_TERM = 2**32 - 1


def search_request(request: pb.SearchRequest) -> Request:
    """A checked search. Raises InvalidField."""
    query = request.query.strip()
    if not query:
        raise InvalidField("`query` must not be empty.", field="query")
    if len(query) > _LONGEST_QUERY:
        raise InvalidField(f"`query` must have at most {_LONGEST_QUERY} characters.", field="query")
    top_k = request.top_k or 5
    if not 1 <= top_k <= 100:
        raise InvalidField("`top_k` must be 1 to 100, or 0 for 5.", field="top_k")
    if request.mode not in _MODES:
        raise InvalidField("`mode` must be dense, sparse or hybrid.", field="mode")
    if request.fusion not in _FUSIONS:
        raise InvalidField("`fusion` must be rrf, dbsf or calibrated.", field="fusion")
    for name in request.collections:
        require_collection_name(name, "collections")
    threshold = request.score_threshold if request.HasField("score_threshold") else None
    if threshold is not None and not math.isfinite(threshold):
        raise InvalidField("`score_threshold` must be a finite number.", field="score_threshold")
    if not 0 <= request.diversity <= 1:
        raise InvalidField("`diversity` must be 0 to 1.", field="diversity")
    if not 0 <= request.max_per_document <= 100:
        raise InvalidField("`max_per_document` must be 1 to 100, or 0 for any.", field="max_per_document")
    return Request(
        query,
        top_k,
        _MODES[request.mode],
        rerank=not request.skip_rerank,
        filter=_filter(request.filter, request.collections),
        fusion=_FUSIONS[request.fusion],
        score_threshold=threshold,
        diversity=request.diversity,
        max_per_document=request.max_per_document,
        route=request.route,
    )


def _filter(wanted: pb.Filter, collections: Sequence[str]) -> Filter:
    if len(wanted.conditions) > _MOST_CONDITIONS:
        raise InvalidField(f"`filter.conditions` must be at most {_MOST_CONDITIONS}.", field="filter.conditions")
    for one in wanted.conditions:
        if not one.key or not 1 <= len(one.any_of) <= _MOST_VALUES:
            raise InvalidField(
                f"Each of `filter.conditions` needs `key` and 1 to {_MOST_VALUES} values.", field="filter.conditions"
            )
    if len(wanted.document_ids) > _MOST_VALUES:
        raise InvalidField(f"`filter.document_ids` must be at most {_MOST_VALUES}.", field="filter.document_ids")
    require_language(wanted.language, "filter.language")
    conditions = [Condition(one.key, list(one.any_of)) for one in wanted.conditions]
    return Filter(list(collections), list(wanted.document_ids), wanted.language, conditions)


def document(header: pb.DocumentHeader) -> Document:
    """A checked header. Raises InvalidField."""
    require_document_id(header.document_id)
    require_collection_name(header.collection, "document.collection")
    require_language(header.language, "document.language")
    if not header.embedding_model:
        raise InvalidField("`document.embedding_model` must name the model.", field="document.embedding_model")
    if len(header.metadata) > _MOST_METADATA:
        raise InvalidField(f"`document.metadata` has more than {_MOST_METADATA} fields.", field="document.metadata")
    for key, value in header.metadata.items():
        if not 1 <= len(key) <= _LONGEST_KEY or len(value) > _LONGEST_VALUE or "\x1f" in key:
            raise InvalidField(
                f"`document.metadata` wants names of 1 to {_LONGEST_KEY} and values of at most {_LONGEST_VALUE}"
                " characters.",
                field="document.metadata",
            )
    labels = tuple(sorted(set(header.labels)))
    if len(labels) > _MOST_LABELS or any(not 1 <= len(one) <= _LONGEST_KEY or one == ALL_LABELS for one in labels):
        raise InvalidField(
            f"`document.labels` wants at most {_MOST_LABELS} of 1 to {_LONGEST_KEY} characters; `*` is not one.",
            field="document.labels",
        )
    return Document(
        document_id=header.document_id,
        collection=header.collection,
        embedding_model=header.embedding_model,
        title=header.title,
        source=header.source,
        language=header.language,
        metadata=dict(header.metadata),
        labels=labels,
        content_hash=header.content_hash,
        content_sha256=header.content_sha256,
        page_count=header.page_count,
        learned_sparse=header.learned_sparse,
    )


def chunk(message: pb.Chunk) -> NewChunk:
    """A checked chunk. Raises InvalidField."""
    if not message.text.strip() or len(message.text) > _LONGEST_TEXT:
        raise InvalidField(f"`chunk.text` must have 1 to {_LONGEST_TEXT} characters.", field="chunk.text")
    if len(message.context) > _LONGEST_TEXT or len(message.parent_text) > _LONGEST_TEXT:
        raise InvalidField(
            f"`chunk.context` and `chunk.parent_text` must have at most {_LONGEST_TEXT} characters.",
            field="chunk.parent_text",
        )
    if message.page < 0:
        raise InvalidField("`chunk.page` must be 0 or more.", field="chunk.page")
    # A sum is finite only when all of its parts are.
    if not any(message.dense) or not math.isfinite(sum(message.dense)):
        raise InvalidField("`chunk.dense` must hold finite numbers that are not all 0.", field="chunk.dense")
    terms = message.sparse
    proper = len(terms.indices) == len(terms.values) == len(set(terms.indices)) and math.isfinite(sum(terms.values))
    if not proper or not all(0 <= index <= _LARGEST_TERM for index in terms.indices):
        raise InvalidField(
            "`chunk.sparse` must have one finite value for each index, and each index (0 to 2^32 - 1) once.",
            field="chunk.sparse",
        )
    return NewChunk(
        text=message.text,
        dense=list(message.dense),
        sparse=SparseTerms(list(terms.indices), list(terms.values)),
        tokens=_tokens(message),
        page=message.page,
        section=message.section,
        context=message.context,
        parent_text="" if message.parent_text == message.text else message.parent_text,
        suspicious=_suspicious(message),
        scan=_scan(message),
    )


def _scan(message: pb.Chunk) -> Scan:
    if not message.HasField("scan"):
        return UNSCANNED
    version, score = message.scan.version, round(message.scan.score, 3)
    if not 1 <= len(version) <= _LONGEST_KEY or not 0 <= score <= 1:
        raise InvalidField(
            f"`chunk.scan` wants a version of 1 to {_LONGEST_KEY} characters and a score of 0 to 1.", field="chunk.scan"
        )
    return Scan(version, score)


def _suspicious(message: pb.Chunk) -> tuple[SuspiciousSpan, ...]:
    spans = message.suspicious_spans
    within = all(0 <= one.start < one.end <= len(message.text) and 0 <= one.score <= 1 for one in spans)
    if not within or len(spans) > _MOST_SUSPICIOUS:
        raise InvalidField(
            f"`chunk.suspicious_spans` wants at most {_MOST_SUSPICIOUS}, each within the text, with a score of 0 to 1.",
            field="chunk.suspicious_spans",
        )
    return tuple(SuspiciousSpan(one.start, one.end, round(one.score, 3), one.kind[:_LONGEST_KEY]) for one in spans)


def _tokens(message: pb.Chunk) -> TokenMatrix | None:
    if not message.HasField("token_vectors") or not message.token_vectors.values:
        return None
    dimensions, values = message.token_vectors.dimensions, message.token_vectors.values
    if dimensions < 1 or len(values) % (2 * dimensions):
        raise InvalidField(
            "`chunk.token_vectors.values` must hold `2 * dimensions` bytes a token.", field="chunk.token_vectors"
        )
    return TokenMatrix(dimensions, values)


def require_document_id(document_id: str) -> None:
    """Raises InvalidField for a malformed id."""
    if not _DOCUMENT_ID.fullmatch(document_id):
        raise InvalidField('`document_id` must be 1 to 200 letters, digits and "-_.:/".', field="document_id")


def require_collection_name(name: str, field: str) -> None:
    """Raises InvalidField for a malformed name; `field` is where it stood."""
    if not _COLLECTION.fullmatch(name):
        raise InvalidField(f'`{field}` must be 1 to 64 characters of a-z, 0-9, "-" and "_".', field=field)


def require_language(language: str, field: str) -> None:
    """Raises InvalidField for anything but two letters or nothing."""
    if not _LANGUAGE.fullmatch(language):
        raise InvalidField(f"`{field}` must be a code of ISO 639-1, such as `es`, or empty.", field=field)


def page_token(last: str) -> str:
    """Where the page after the one that ends with `last` begins."""
    return base64.urlsafe_b64encode(last.encode()).decode()


def after(token: str) -> str:
    """What a page follows. Raises InvalidField."""
    try:
        return base64.b64decode(token.encode("ascii"), b"-_", validate=True).decode()
    except (binascii.Error, UnicodeError):
        raise InvalidField("`page_token` must come from the previous response.", field="page_token") from None


def position_after(token: str) -> int:
    """The position that a page of passages begins with. Raises InvalidField."""
    at = after(token)
    if at and not at.isdecimal():
        raise InvalidField("`page_token` must come from the previous response.", field="page_token")
    return int(at or 0)


def passage_message(chunk: StoredChunk) -> pb.Passage:
    """A passage without scores, as it was cut."""
    return pb.Passage(
        document_id=chunk.document_id,
        chunk_id=chunk.chunk_id,
        text=chunk.text,
        title=chunk.title,
        source=chunk.source,
        page=chunk.page,
        section=chunk.section,
        language=chunk.language,
        collection=chunk.collection,
        metadata=chunk.metadata,
        position=chunk.position,
        suspicious_spans=[
            pb.SuspiciousSpan(start=one.start, end=one.end, score=one.score, kind=one.kind) for one in chunk.suspicious
        ],
        scan=pb.Scan(version=chunk.scan.version, score=chunk.scan.score) if chunk.scan.version else None,
    )


def found_message(one: Ranked) -> pb.Passage:
    """A passage with its scores, to be read as the larger part around it where there is one."""
    chunk = one.hit.chunk
    passage = passage_message(chunk)
    if chunk.parent_text:
        passage.text, passage.matched_text = chunk.parent_text, chunk.text
    passage.score = one.score
    passage.scores.CopyFrom(pb.Scores(dense=one.hit.dense, sparse=one.hit.sparse, fused=one.fused, rerank=one.rerank))
    return passage


def document_message(document: Document) -> pb.Document:
    """A document without its text."""
    described = pb.Document(
        document_id=document.document_id,
        collection=document.collection,
        title=document.title,
        source=document.source,
        language=document.language,
        metadata=document.metadata,
        chunk_count=document.chunk_count,
        content_hash=document.content_hash,
        labels=document.labels,
        content_sha256=document.content_sha256,
        page_count=document.page_count,
        embedding_model=document.embedding_model,
    )
    described.update_time.FromDatetime(document.update_time)
    return described
