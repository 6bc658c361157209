"""One document on its way: parse, cut, embed, store. Knows other services only by the protocols here."""

import asyncio
import hashlib
import json
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Protocol

from services.ingestion import chunking, language, metrics
from services.ingestion.chunking import Chunk, Sizes
from services.ingestion.jobs import Job, Submission
from services.ingestion.parsed import Block, Parsed, Unreadable
from services.ingestion.parsing import Parser
from services.ingestion.spool import Spool

# Part of the fingerprint: a change here makes the same file be read, cut and embedded anew.
PIPELINE_VERSION = 1
_BATCH_TEXTS = 32


@dataclass(frozen=True)
class Model:
    """The embedding model. `window_tokens` includes prefix and special tokens."""

    name: str
    window_tokens: int
    token_vectors: bool


@dataclass(frozen=True)
class Description:
    """What is said once about a document when it is stored."""

    document_id: str
    collection: str
    title: str
    source: str
    language: str
    metadata: dict[str, str]
    fingerprint: str
    model: str


@dataclass(frozen=True)
class StoredDocument:
    """A document as it is stored now."""

    fingerprint: str
    title: str
    chunk_count: int
    page_count: int


class Embedder(Protocol):
    """Counts tokens and makes vectors. All raise the errors of services/runtime."""

    async def describe(self) -> Model:
        """The model that is loaded."""
        ...

    async def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each text, any number of texts."""
        ...

    async def embed(self, texts: Sequence[str], language: str, *, token_vectors: bool) -> list[bytes]:
        """Vectors of each text, encoded; at most 32 texts."""
        ...


class Index(Protocol):
    """Where passages are kept. All raise the errors of services/runtime."""

    async def collections(self) -> dict[str, str]:
        """The tenant's collections and the language of each, or empty."""
        ...

    async def stored(self, document_id: str) -> StoredDocument | None:
        """The document as stored, or None."""
        ...

    async def put(self, document: Description, chunks: Iterator[tuple[Chunk, bytes]]) -> int:
        """Stores or replaces a document as a whole; the number of its chunks."""
        ...


class Stopped(Exception):
    """The job is no longer ours: it was cancelled, or another worker has it."""


Progress = Callable[[Job], Awaitable[None]]


@dataclass(frozen=True)
class Pipeline:
    """Takes a document from file to index. `token_vector_chunks`: longer documents are stored without token vectors."""

    parser: Parser
    spool: Spool
    embedder: Embedder
    index: Index
    sizes: Sizes
    token_vector_chunks: int

    async def run(self, job: Job, progress: Progress) -> Job:
        """The job in its final state READY. Calls `progress` at each step, which raises Stopped to end it.

        Raises Unreadable, and the errors of services/runtime.
        """
        submission = job.submission
        model = await self.embedder.describe()
        mark = fingerprint(submission, model, self.sizes)
        stored = await self.index.stored(submission.document_id)
        if stored is not None and stored.fingerprint == mark:
            return replace(
                job,
                status="READY",
                reason="",
                title=stored.title,
                chunk_count=stored.chunk_count,
                page_count=stored.page_count,
            )
        job = replace(job, status="PARSING", chunk_count=0)
        await progress(job)
        parsed = await self._parse(submission)
        job = replace(job, title=title_of(submission, parsed), page_count=parsed.page_count)
        with metrics.STAGE_SECONDS.labels("cut").time():
            sizes = self.sizes.within(model.window_tokens)
            # An id in the place of a title would only blur the vectors.
            title = "" if job.title == submission.document_id else job.title
            chunks = await chunking.cut(_below_title(parsed), title, sizes, self.embedder.count_tokens)
        job = replace(job, status="EMBEDDING")
        await progress(job)
        spoken = await asyncio.to_thread(_language, submission, parsed)
        with metrics.STAGE_SECONDS.labels("embed").time():
            job = await self._embed(job, chunks, mark, spoken, model, progress)
        description = Description(
            submission.document_id,
            submission.collection,
            job.title,
            submission.source or submission.filename,
            spoken,
            dict(submission.metadata),
            mark,
            model.name,
        )
        with metrics.STAGE_SECONDS.labels("store").time():
            vectors = self.spool.vectors(submission.job_id, mark).read()
            count = await self.index.put(description, zip(chunks, vectors, strict=True))
        metrics.CHUNKS.inc(count)
        return replace(job, status="READY", reason="", chunk_count=count)

    async def _parse(self, submission: Submission) -> Parsed:
        path = self.spool.content(submission.job_id)
        if not path.exists():
            raise Unreadable("The stored file is gone; send the document again.")
        with metrics.STAGE_SECONDS.labels("parse").time():
            return await self.parser.parse(path, submission.filename, submission.content_type)

    async def _embed(
        self, job: Job, chunks: list[Chunk], mark: str, language: str, model: Model, progress: Progress
    ) -> Job:
        """Fills the spool's vector file, going on where an earlier attempt stopped."""
        token_vectors = model.token_vectors and len(chunks) <= self.token_vector_chunks
        file = await asyncio.to_thread(self.spool.vectors, job.job_id, mark)
        while file.count < len(chunks):
            batch = chunks[file.count : file.count + _BATCH_TEXTS]
            texts = [chunk.embedded for chunk in batch]
            vectors = await self.embedder.embed(texts, language, token_vectors=token_vectors)
            await asyncio.to_thread(file.append, vectors)
            job = replace(job, chunk_count=file.count)
            await progress(job)
        return job


def fingerprint(submission: Submission, model: Model, sizes: Sizes) -> str:
    """Changes with whatever would change the stored document: bytes, options, model, way of cutting."""
    parts = [
        PIPELINE_VERSION,
        submission.content_sha256,
        submission.collection,
        submission.filename,
        submission.content_type,
        submission.title,
        submission.language,
        submission.collection_language,
        submission.source,
        sorted(submission.metadata.items()),
        [model.name, model.window_tokens, model.token_vectors],
        [sizes.min_tokens, sizes.max_tokens, sizes.overlap_tokens],
    ]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def _below_title(parsed: Parsed) -> list[Block]:
    """The blocks, their sections without the document's own title: whoever sees a section sees the title beside it."""
    own = (parsed.title,)
    return [replace(block, section=block.section[1:]) if block.section[:1] == own else block for block in parsed.blocks]


def title_of(submission: Submission, parsed: Parsed) -> str:
    """As the sender says, else as the document says, else the file name."""
    own = " ".join(parsed.title.split())[:300]
    return submission.title or own or PurePath(submission.filename).stem or submission.document_id


def _language(submission: Submission, parsed: Parsed) -> str:
    """In which the words are stemmed, too: retrieval stems queries in the languages of the documents."""
    if submission.language:
        return submission.language
    text = "\n".join(block.text for block in parsed.blocks[:2000])[:200_000]
    # What a page declares is often the template's language, so the text itself is asked first.
    return language.detect(text) or language.known(parsed.language) or submission.collection_language
