"""What a store refuses, in the same words whatever the store."""

from services.retrieval.placement import placement
from services.retrieval.store import ALL_LABELS, Collection, Distribution, Document, Index, Reader
from services.runtime.errors import InvalidField, ModelMismatch, NotFound, NotPermitted, Overloaded

_RULE = "labels"


def no_collection(name: str) -> NotFound:
    """The tenant does not have the collection."""
    return NotFound(f"There is no collection `{name}`; create it with PutCollection.", collection=name)


def no_document(document_id: str) -> NotFound:
    """The tenant does not have the document, or it is closed to the reader."""
    return NotFound(f"There is no document `{document_id}`.", document_id=document_id)


def closed_document(document_id: str) -> NotPermitted:
    """Somebody would replace what they may not read. Says nothing of what is there."""
    return NotPermitted(f"`{document_id}` names a document that is closed to you; choose another id.", rule=_RULE)


def closed_collection(name: str) -> NotPermitted:
    """Somebody would delete what they may not read."""
    return NotPermitted(f"Collection `{name}` holds documents that are closed to you.", rule=_RULE)


def other_model(collection: str, model: str, offered: str) -> ModelMismatch:
    """The collection's vectors are of `model`, and vectors of `offered` came."""
    return ModelMismatch(
        f"Collection `{collection}` has vectors of `{model}`; those of `{offered}` do not compare with them. Embed it"
        f" anew with `sabueso collections migrate {collection}`.",
        collection=collection,
        model=model,
    )


def changed_meanwhile(collection: str) -> Overloaded:
    """The collection got other vectors while a document for it was being written."""
    return Overloaded(f"Collection `{collection}` was changed while the document was being stored; try again.")


def check_labels(reader: Reader, document: Document) -> None:
    """Raises NotPermitted when the document would bear labels that the writer does not hold, InvalidField for `*`."""
    if ALL_LABELS in document.labels:
        raise InvalidField(f"`labels` must not hold `{ALL_LABELS}`: a document without labels is open.", field="labels")
    foreign = sorted(set(document.labels) - set(reader.labels))
    if foreign and not reader.sees_all:
        names = ", ".join(f"`{label}`" for label in foreign)
        raise NotPermitted(f"A document may only bear labels that you hold; you do not hold {names}.", rule=_RULE)


def check_index(known: Collection, wanted: Index) -> None:
    """Raises InvalidField when a collection with documents would get another graph or compression.

    What is said with each query (`hnsw_ef`, `oversampling`, `rescore`) may change at any time.
    """
    if known.document_count and placement("", known.index, False) != placement("", wanted, False):
        raise InvalidField(
            f"Collection `{known.name}` has documents, whose graph and compression stay as they are; change them with"
            f" `sabueso collections migrate {known.name}`.",
            field="collection.index",
        )


def not_in_force(name: str, wanted: Distribution, shard_number: int, on_disk: bool | None) -> str:
    """What of a collection's wished distribution its vectors do not have; empty when they have all of it."""
    found: list[str] = []
    if wanted.shard_number != shard_number:
        found.append(f"`shard_number` is {shard_number or 'the default'}, not {wanted.shard_number or 'the default'}")
    if wanted.on_disk != on_disk:
        shown = {None: "the default", True: "true", False: "false"}
        found.append(f"`on_disk` is {shown[on_disk]}, not {shown[wanted.on_disk]}")
    if not found:
        return ""
    return f"Of collection `{name}` {' and '.join(found)}: `sabueso collections migrate {name}` changes it."


def check_dimensions(model: str, known: int, found: int) -> None:
    """Raises InvalidField when a vector has another length than those of its model. `known` 0: there are none."""
    if known not in (0, found):
        raise InvalidField(f"`chunk.dense` has {found} values; vectors of `{model}` have {known}.", field="chunk.dense")
