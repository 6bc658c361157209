"""Translates between protobuf and the encoder."""

from collections.abc import Sequence
from typing import Any

from sabueso.embedding.v1 import embedding_pb2 as pb
from sabueso.embedding.v1 import embedding_pb2_grpc as rpc
from services.embedding import sparse
from services.embedding.encoder import Embedded, Encoder, Kind
from services.embedding.learned_sparse import Weigher
from services.runtime.errors import InvalidField

_MAX_TEXTS, _MAX_COUNTED_TEXTS = 256, 4096
# Signs without ink or width, of which a text may consist without saying anything.
_UNSEEN = dict.fromkeys(map(ord, "\0\u00ad\u200b\u200c\u200d\u2060\ufeff"))
_KINDS = {pb.INPUT_TYPE_QUERY: Kind.QUERY, pb.INPUT_TYPE_DOCUMENT: Kind.DOCUMENT}


class EmbeddingService(rpc.EmbeddingServiceServicer):
    """Serves one encoder, and what gives the sparse weights."""

    def __init__(self, encoder: Encoder, weigher: Weigher, languages: Sequence[str]) -> None:
        self._encoder = encoder
        self._weigher = weigher
        self._languages = languages

    async def Embed(self, request: pb.EmbedRequest, context: Any) -> pb.EmbedResponse:
        """Raises InvalidField, and what the encoder raises."""
        texts = list(request.texts)
        kind = self._check(request, texts)
        embedded = await self._encoder.embed(texts, kind, token_vectors=request.with_token_vectors)
        embeddings = [_to_proto(one) for one in embedded]
        if request.with_sparse:
            # A learned model knows its own languages: it would say the same again.
            others = () if self._weigher.model else request.other_languages
            for language in dict.fromkeys((request.language, *others)):
                weights = await self._weigher.weigh(texts, kind, language)
                for embedding, one in zip(embeddings, weights, strict=True):
                    _add_terms(embedding, one)
        return pb.EmbedResponse(embeddings=embeddings, model=self._model())

    async def CountTokens(self, request: pb.CountTokensRequest, context: Any) -> pb.CountTokensResponse:
        """Raises InvalidField."""
        _check_count(len(request.texts), _MAX_COUNTED_TEXTS)
        return pb.CountTokensResponse(token_counts=await self._encoder.count(list(request.texts)))

    async def Describe(self, request: pb.DescribeRequest, context: Any) -> pb.DescribeResponse:
        """Never fails."""
        return pb.DescribeResponse(
            model=self._model(),
            dimensions=self._encoder.dimensions,
            max_tokens=self._encoder.max_tokens,
            token_vectors=self._encoder.has_token_vectors,
            languages=self._languages,
            learned_sparse=bool(self._weigher.model),
        )

    def _model(self) -> str:
        return "+".join(filter(None, (self._encoder.model, self._weigher.model)))

    def _check(self, request: pb.EmbedRequest, texts: Sequence[str]) -> Kind:
        _check_count(len(texts), _MAX_TEXTS)
        for n, text in enumerate(texts):
            if not text.translate(_UNSEEN).strip():
                raise InvalidField(f"`texts[{n}]` is empty; leave blank texts out.", field=f"texts[{n}]")
        kind = _KINDS.get(request.input_type)
        if kind is None:
            raise InvalidField(
                "`input_type` is missing; say INPUT_TYPE_QUERY or INPUT_TYPE_DOCUMENT.", field="input_type"
            )
        _check_language(request.language, "language")
        if request.other_languages and kind is not Kind.QUERY:
            raise InvalidField(
                "`other_languages` is for queries; a document is in one language.", field="other_languages"
            )
        for n, language in enumerate(request.other_languages):
            _check_language(language, f"other_languages[{n}]")
        if request.with_token_vectors and not self._encoder.has_token_vectors:
            raise InvalidField(
                f"`with_token_vectors`: the model {self._encoder.model} has none; see Describe.",
                field="with_token_vectors",
            )
        return kind


def _check_language(language: str, field: str) -> None:
    try:
        sparse.check_language(language)
    except sparse.UnknownLanguage as error:
        raise InvalidField(f"`{field}`: {error}.", field=field) from None


def _check_count(count: int, most: int) -> None:
    if not 1 <= count <= most:
        raise InvalidField(f"`texts` has {count} entries; 1 to {most} are allowed.", field="texts")


def _add_terms(embedding: pb.Embedding, weights: sparse.TermWeights) -> None:
    """A term that is there already keeps its weight."""
    known = set(embedding.sparse.indices)
    for index, value in zip(weights.indices, weights.values, strict=True):
        if index not in known:
            embedding.sparse.indices.append(index)
            embedding.sparse.values.append(value)
    embedding.truncated |= weights.truncated


def _to_proto(embedded: Embedded) -> pb.Embedding:
    embedding = pb.Embedding(
        dense=embedded.dense.tolist(), token_count=embedded.token_count, truncated=embedded.truncated
    )
    if embedded.token_vectors is not None:
        embedding.token_vectors.dimensions = embedded.token_vectors.shape[1]
        embedding.token_vectors.values = embedded.token_vectors.astype("<f2").tobytes()
    return embedding
