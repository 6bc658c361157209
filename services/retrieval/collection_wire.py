"""Collections between the proto's words and retrieval's own; refuses what is malformed, naming the field."""

from sabueso.retrieval.v1 import retrieval_pb2 as pb
from services.retrieval import wire
from services.retrieval.store import (
    NEVER,
    Chunking,
    Collection,
    Index,
    Migration,
    MigrationState,
    Quantization,
    Strategy,
)
from services.runtime.errors import InvalidField

_STRATEGIES = {
    pb.CHUNKING_STRATEGY_UNSPECIFIED: Strategy.STRUCTURE,
    pb.CHUNKING_STRATEGY_STRUCTURE: Strategy.STRUCTURE,
    pb.CHUNKING_STRATEGY_FIXED: Strategy.FIXED,
    pb.CHUNKING_STRATEGY_SENTENCES: Strategy.SENTENCES,
    pb.CHUNKING_STRATEGY_RECURSIVE: Strategy.RECURSIVE,
    pb.CHUNKING_STRATEGY_SEMANTIC: Strategy.SEMANTIC,
    pb.CHUNKING_STRATEGY_CODE: Strategy.CODE,
}
_STRATEGY_NUMBERS = {strategy: number for number, strategy in _STRATEGIES.items()}
_QUANTIZATIONS = {
    pb.QUANTIZATION_UNSPECIFIED: Quantization.NONE,
    pb.QUANTIZATION_SCALAR: Quantization.SCALAR,
    pb.QUANTIZATION_BINARY: Quantization.BINARY,
    pb.QUANTIZATION_PRODUCT: Quantization.PRODUCT,
}
_QUANTIZATION_NUMBERS = {kind: number for number, kind in _QUANTIZATIONS.items()}
_STATES = {
    MigrationState.RUNNING: pb.MIGRATION_STATE_RUNNING,
    MigrationState.DONE: pb.MIGRATION_STATE_DONE,
    MigrationState.FAILED: pb.MIGRATION_STATE_FAILED,
    MigrationState.CANCELLED: pb.MIGRATION_STATE_CANCELLED,
}
_LONGEST_DESCRIPTION = 4000
_LARGEST_CHUNK = 8192


def collection(message: pb.Collection) -> Collection:
    """A checked collection. Raises InvalidField."""
    wire.require_collection_name(message.name, "collection.name")
    wire.require_language(message.language, "collection.language")
    if len(message.description) > _LONGEST_DESCRIPTION:
        raise InvalidField(
            f"`collection.description` must have at most {_LONGEST_DESCRIPTION} characters.",
            field="collection.description",
        )
    return Collection(
        message.name, message.description, message.language, _chunking(message.chunking), index(message.index)
    )


def _chunking(message: pb.Chunking) -> Chunking:
    if message.strategy not in _STRATEGIES:
        raise InvalidField("`chunking.strategy` is not known.", field="chunking.strategy")
    overlap = message.overlap_tokens if message.HasField("overlap_tokens") else None
    for name, value, least in (
        ("max_tokens", message.max_tokens, 16),
        ("min_tokens", message.min_tokens, 1),
        ("parent_tokens", message.parent_tokens, 16),
    ):
        if value and not least <= value <= _LARGEST_CHUNK:
            raise InvalidField(
                f"`chunking.{name}` must be {least} to {_LARGEST_CHUNK}, or 0 for the default.",
                field=f"chunking.{name}",
            )
    if overlap is not None and (overlap < 0 or (message.max_tokens and overlap >= message.max_tokens)):
        raise InvalidField(
            "`chunking.overlap_tokens` must be 0 or more and below `chunking.max_tokens`.",
            field="chunking.overlap_tokens",
        )
    if message.max_tokens and message.min_tokens > message.max_tokens:
        raise InvalidField(
            "`chunking.min_tokens` must not be above `chunking.max_tokens`.", field="chunking.min_tokens"
        )
    if message.parent_tokens and message.parent_tokens < message.max_tokens:
        raise InvalidField(
            "`chunking.parent_tokens` must not be below `chunking.max_tokens`.", field="chunking.parent_tokens"
        )
    return Chunking(
        _STRATEGIES[message.strategy], message.max_tokens, message.min_tokens, overlap, message.parent_tokens
    )


def index(message: pb.Index) -> Index:
    """A checked index; what is 0 has its default. Raises InvalidField."""
    for name, value, least, most in (
        ("hnsw_m", message.hnsw_m, 4, 64),
        ("hnsw_ef_construct", message.hnsw_ef_construct, 16, 1024),
        ("hnsw_ef", message.hnsw_ef, 16, 1024),
        ("oversampling", message.oversampling, 1, 10),
    ):
        if value and not least <= value <= most:
            raise InvalidField(
                f"`index.{name}` must be {least} to {most}, or 0 for the default.", field=f"index.{name}"
            )
    if message.quantization not in _QUANTIZATIONS:
        raise InvalidField("`index.quantization` must be scalar, binary or product.", field="index.quantization")
    default = Index()
    return Index(
        message.hnsw_m or default.hnsw_m,
        message.hnsw_ef_construct or default.hnsw_ef_construct,
        message.hnsw_ef or default.hnsw_ef,
        _QUANTIZATIONS[message.quantization],
        message.oversampling or default.oversampling,
        not message.skip_rescore,
    )


def message_of(collection: Collection) -> pb.Collection:
    """A collection as it is told."""
    described = pb.Collection(
        name=collection.name,
        description=collection.description,
        language=collection.language,
        document_count=collection.document_count,
        chunking=_chunking_message(collection.chunking),
        index=_index_message(collection.index),
        embedding_model=collection.model,
    )
    if collection.update_time > NEVER:
        described.update_time.FromDatetime(collection.update_time)
    described.differs = collection.differs
    if collection.migration is not None:
        described.migration.CopyFrom(_migration_message(collection.migration))
    return described


def _chunking_message(chunking: Chunking) -> pb.Chunking:
    return pb.Chunking(
        strategy=_STRATEGY_NUMBERS[chunking.strategy],
        max_tokens=chunking.max_tokens,
        min_tokens=chunking.min_tokens,
        overlap_tokens=chunking.overlap_tokens,
        parent_tokens=chunking.parent_tokens,
    )


def _index_message(index: Index) -> pb.Index:
    return pb.Index(
        hnsw_m=index.hnsw_m,
        hnsw_ef_construct=index.hnsw_ef_construct,
        hnsw_ef=index.hnsw_ef,
        quantization=_QUANTIZATION_NUMBERS[index.quantization],
        oversampling=index.oversampling,
        skip_rescore=not index.rescore,
    )


def _migration_message(migration: Migration) -> pb.Migration:
    return pb.Migration(
        state=_STATES[migration.state],
        embedding_model=migration.model,
        done_count=migration.done_count,
        total_count=migration.total_count,
        reason=migration.reason,
    )
