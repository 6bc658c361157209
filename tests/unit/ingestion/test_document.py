from dataclasses import replace
from datetime import timedelta

import pytest

from services.embedding.encoder import HashEncoder, Kind
from services.ingestion.cutting.chunking import Chunking, Sizes
from services.ingestion.document import Collection, Model, Pipeline, Stopped, StoredDocument
from services.ingestion.jobs import Job, Submission
from services.ingestion.parsed import Unreadable
from services.ingestion.parsers.parse_text import parse_text
from services.ingestion.spool import Spool
from services.ingestion.vector_cache import MemoryVectorCache
from services.runtime.errors import InvalidField, ModelMismatch, NotFound, Overloaded

TEXT = "\n\n".join(
    f"{n}. Clause {n}\n\nThe clause number {n} speaks of " + "many things " * 30 + "." for n in range(1, 9)
)
SUBMISSION = Submission(
    *("job1", "acme", "alice", "contracts", "doc1"),
    filename="contract.txt",
    title="Contract",
    language="en",
    metadata={"year": "2025"},
    content_sha256="ab" * 32,
    labels=("legal",),
)


class TextParser:
    """Reads text files in this process."""

    warnings = ()

    async def parse(self, path, filename, content_type):
        parsed = parse_text(path.read_text())
        return replace(parsed, page_count=3, warnings=self.warnings)


class HashEmbedder:
    """Embedder over HashEncoder; counts what it embeds, and fails after `texts_until_failure`."""

    def __init__(self, name="hash-16"):
        self.encoder = HashEncoder(16, max_tokens=512)
        self.name = name
        self.embedded = []
        self.texts_until_failure = 10**9

    async def describe(self):
        return Model(self.name, 512, token_vectors=True, learned_sparse=True)

    async def count_tokens(self, texts):
        return await self.encoder.count(texts)

    async def embed(self, texts, language, *, token_vectors):
        assert 0 < len(texts) <= 32
        if len(self.embedded) + len(texts) > self.texts_until_failure:
            raise Overloaded("busy", retry_after=timedelta(seconds=1))
        self.embedded += texts
        vectors = await self.encoder.embed(texts, Kind.DOCUMENT, token_vectors=token_vectors)
        assert not any(vector.truncated for vector in vectors)
        return [f"{self.name} {language} {token_vectors} ".encode() + vector.dense.tobytes() for vector in vectors]

    async def embed_dense(self, texts):
        vectors = await self.encoder.embed(texts, Kind.DOCUMENT, token_vectors=False)
        return [[float(value) for value in vector.dense] for vector in vectors]


class HashEmbedders:
    """Serves the models that it is given; the first is the default."""

    def __init__(self, *embedders):
        self.embedders = embedders

    async def embedder_for(self, model):
        for one in self.embedders:
            if model in ("", one.name):
                return one
        raise ModelMismatch("not served", model=model)


class MemoryIndex:
    """Keeps documents with their chunks and vectors; refuses those of another model than the collection's."""

    def __init__(self, **collections):
        self.all = collections
        self.documents = {}

    async def collections(self):
        return dict(self.all)

    async def stored(self, document_id):
        if document_id not in self.documents:
            return None
        description, chunks = self.documents[document_id]
        return StoredDocument(
            description.fingerprint, description.title, len(chunks), description.page_count, description.collection
        )

    async def put(self, document, chunks):
        model = self.all[document.collection].model
        if model not in ("", document.model):
            raise ModelMismatch("another model", model=model)
        self.documents[document.document_id] = document, list(chunks)
        return len(self.documents[document.document_id][1])


class MovingIndex(MemoryIndex):
    """Its collection moves to another model right before the first document is stored."""

    async def put(self, document, chunks):
        self.all = {name: replace(one, model="other") for name, one in self.all.items()}
        return await super().put(document, chunks)


class NotingCache:
    """Notes what is forgotten, and what was stored by then."""

    def __init__(self, index):
        self.index = index
        self.forgotten = []

    async def forget(self, collections):
        self.forgotten.append((sorted(collections), sorted(self.index.documents)))


@pytest.fixture
def spool(tmp_path):
    return Spool(tmp_path / "spool", 10**6, 10**8)


@pytest.fixture
def embedder():
    return HashEmbedder()


@pytest.fixture
def index():
    return MemoryIndex(contracts=Collection(language="es"))


@pytest.fixture
def pipeline(spool, embedder, index):
    return Pipeline(TextParser(), spool, HashEmbedders(embedder), index, MemoryVectorCache(), Sizes(20, 40, 8), 100)


async def run(pipeline, submission=SUBMISSION, text=TEXT, on_progress=lambda job: None):
    async def parts():
        yield text.encode()

    if not pipeline.spool.content(submission.job_id).exists():
        await pipeline.spool.put(submission.job_id, parts())

    async def progress(job):
        on_progress(job)

    return await pipeline.run(Job(submission), progress)


async def test_a_document_is_stored_with_all_that_is_known_of_it(pipeline, index):
    seen = []
    job = await run(pipeline, on_progress=seen.append)
    document, chunks = index.documents["doc1"]
    assert (job.status, job.title, job.page_count) == ("READY", "Contract", 3)
    assert job.chunk_count == job.total_chunk_count == len(chunks) > 8
    assert (document.labels, document.content_sha256, document.page_count) == (("legal",), "ab" * 32, 3)
    assert (document.model, document.learned_sparse, document.language) == ("hash-16", True, "en")
    assert all(vectors.startswith(b"hash-16 en True ") for _, vectors in chunks)
    assert all(chunk.context.startswith("Contract") for chunk, _ in chunks)
    assert [job.status for job in seen][:2] == ["PARSING", "EMBEDDING"]
    assert seen[1].total_chunk_count == len(chunks)
    assert (seen[1].chunk_count, seen[-1].chunk_count) == (0, len(chunks))


async def test_the_last_progress_before_storing_says_that_all_vectors_are_made(pipeline, index):
    def stop_when_storing(job):
        if job.is_storing:
            raise Stopped

    for _ in range(2):  # the second time, the vectors are there already
        with pytest.raises(Stopped):
            await run(pipeline, on_progress=stop_when_storing)
        assert index.documents == {}


async def test_the_same_document_is_not_made_again(pipeline, embedder):
    first = await run(pipeline)
    count = len(embedder.embedded)
    again = await run(pipeline, replace(SUBMISSION, job_id="job2"))
    assert (again.status, again.chunk_count, again.page_count) == ("READY", first.chunk_count, 3)
    assert again.total_chunk_count == first.chunk_count
    assert len(embedder.embedded) == count


@pytest.mark.parametrize(
    "changed",
    [
        {"labels": ("legal", "hr")},
        {"content_sha256": "cd" * 32},
        {"metadata": {"year": "2026"}},
        {"title": "Other"},
    ],
)
async def test_whatever_changes_the_stored_document_makes_it_anew(pipeline, index, changed):
    await run(pipeline)
    before = index.documents["doc1"][0]
    await run(pipeline, replace(SUBMISSION, job_id="job2", **changed))
    assert index.documents["doc1"][0] != before


async def test_the_collection_of_now_says_how_a_document_is_cut(pipeline, index):
    await run(pipeline)
    index.all["contracts"] = Collection(chunking=Chunking("fixed", 30, 10, 5, 120))
    await run(pipeline, replace(SUBMISSION, job_id="job2"))
    _, chunks = index.documents["doc1"]
    sizes = {chunk.token_count for chunk, _ in chunks}
    assert max(sizes) <= 30
    assert len(sizes) <= 3
    assert all(chunk.text in chunk.parent_text for chunk, _ in chunks)


@pytest.mark.parametrize("strategy", ["structure", "fixed", "sentences", "recursive", "semantic", "code"])
async def test_every_strategy_works_from_file_to_index(pipeline, index, strategy):
    index.all["contracts"] = Collection(chunking=Chunking(strategy, 50, 20, 5))
    job = await run(pipeline)
    assert job.chunk_count >= 8


async def test_settings_that_cannot_be_met_fail_the_job_and_name_the_field(pipeline, index):
    index.all["contracts"] = Collection(chunking=Chunking("fixed", 30, 10, 30))
    with pytest.raises(InvalidField, match=r"contracts.*overlap_tokens must be smaller than max_tokens"):
        await run(pipeline)


async def test_a_collection_that_is_gone_fails_the_job(pipeline, index):
    index.all.clear()
    with pytest.raises(NotFound, match="contracts"):
        await run(pipeline)


async def test_the_model_of_the_collection_makes_the_vectors(spool, index):
    pipeline = Pipeline(
        *(TextParser(), spool, HashEmbedders(HashEmbedder(), HashEmbedder("other")), index, MemoryVectorCache()),
        *(Sizes(20, 40, 8), 100),
    )
    index.all["contracts"] = Collection(model="other")
    await run(pipeline)
    document, chunks = index.documents["doc1"]
    assert document.model == "other"
    assert all(vectors.startswith(b"other ") for _, vectors in chunks)


async def test_a_model_that_nobody_serves_fails_the_job(pipeline, index):
    index.all["contracts"] = Collection(model="unknown")
    with pytest.raises(ModelMismatch):
        await run(pipeline)


async def test_a_document_is_made_for_the_new_model_when_its_collection_moves_meanwhile(spool):
    index = MovingIndex(contracts=Collection(model="hash-16"))
    embedders = HashEmbedders(HashEmbedder(), HashEmbedder("other"))
    pipeline = Pipeline(TextParser(), spool, embedders, index, MemoryVectorCache(), Sizes(20, 40, 8), 100)
    job = await run(pipeline)
    document, chunks = index.documents["doc1"]
    assert (job.status, document.model) == ("READY", "other")
    assert all(vectors.startswith(b"other ") for _, vectors in chunks)


async def test_an_attempt_goes_on_where_the_last_one_stopped(pipeline, embedder, index):
    text = "\n\n".join(f"Paragraph {n}: " + f"word{n} " * 35 for n in range(90))
    embedder.texts_until_failure = 70
    with pytest.raises(Overloaded):
        await run(replace(pipeline, cache=MemoryVectorCache()), text=text)
    assert len(embedder.embedded) == 64
    embedder.texts_until_failure = 10**9
    job = await run(replace(pipeline, cache=MemoryVectorCache()))
    assert len(embedder.embedded) == job.chunk_count == len(set(embedder.embedded))
    _, chunks = index.documents["doc1"]
    for chunk, vectors in chunks:
        (expected,) = await HashEmbedder().embed([chunk.embedded], "en", token_vectors=True)
        assert vectors == expected


async def test_identical_content_is_embedded_once(pipeline, embedder, index):
    page = "The same page again and again, word for word. " * 3
    await run(pipeline, text="\n\n".join([page] * 6))
    assert len(embedder.embedded) == len(set(embedder.embedded)) < len(index.documents["doc1"][1])
    count = len(embedder.embedded)
    await run(pipeline, replace(SUBMISSION, job_id="job2", document_id="doc2"), text="\n\n".join([page] * 6))
    assert len(embedder.embedded) == count
    vectors = [[vectors for _, vectors in index.documents[name][1]] for name in ("doc1", "doc2")]
    assert vectors[0] == vectors[1]


@pytest.mark.parametrize("changed", [{"tenant": "globex"}, {"language": "es"}])
async def test_vectors_are_not_shared_between_tenants_or_languages(pipeline, embedder, changed):
    await run(pipeline)
    count = len(embedder.embedded)
    await run(pipeline, replace(SUBMISSION, job_id="job2", document_id="doc2", **changed))
    assert len(embedder.embedded) == 2 * count


async def test_a_long_document_is_stored_without_token_vectors(pipeline, index):
    await run(replace(pipeline, token_vector_chunks=3))
    assert all(vectors.startswith(b"hash-16 en False ") for _, vectors in index.documents["doc1"][1])


async def test_what_the_parser_could_not_read_is_told(pipeline):
    pipeline.parser.warnings = ("Pages 2 and 3 need OCR.",)
    job = await run(pipeline)
    assert job.warnings == ("Pages 2 and 3 need OCR.",)


async def test_a_document_of_nothing_to_see_is_refused_with_a_reason(pipeline):
    with pytest.raises(Unreadable, match="holds no text"):
        await run(pipeline, text="\u200b\n\n\u00ad")


async def test_a_file_that_is_gone_is_told(pipeline, spool):
    async def progress(job):
        spool.drop("job1")

    with pytest.raises(Unreadable, match="send the document again"):
        await pipeline.run(Job(SUBMISSION), progress)


async def test_a_document_of_too_many_passages_fails_before_it_is_embedded(pipeline, embedder):
    with pytest.raises(Unreadable, match="cut into 16 passages, and at most 5"):
        await run(replace(pipeline, max_document_chunks=5))
    assert embedder.embedded == []


async def test_what_was_answered_before_is_forgotten_once_a_document_is_stored_and_not_for_one_that_is_known(
    pipeline, index
):
    results = NotingCache(index)
    pipeline = replace(pipeline, results=results)
    await run(pipeline)
    await run(pipeline)
    assert results.forgotten == [(["contracts"], ["doc1"])]


async def test_a_document_that_moves_is_forgotten_in_both_collections(pipeline, index):
    index.all["policies"] = Collection()
    results = NotingCache(index)
    pipeline = replace(pipeline, results=results)
    await run(pipeline)
    await run(pipeline, replace(SUBMISSION, collection="policies"))
    assert results.forgotten[-1][0] == ["contracts", "policies"]
