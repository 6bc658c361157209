"""What every encoder keeps to: the fake, the ONNX model, and a model behind OpenAI's embeddings API."""

import asyncio
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest
import pytest_asyncio

from services.embedding.config import Settings
from services.embedding.encoder import HashEncoder, Kind
from services.embedding.server import make_encoder
from services.runtime.testing import SECRET

pytestmark = pytest.mark.asyncio(loop_scope="module")

LATE = "La penalización por demora en la entrega es del 2 % mensual (cláusula 8.3)."
LUNCH = "El menú del comedor cambia cada semana; hoy hay sopa de verduras."
QUESTION = "¿Qué penalización hay por demora en la entrega?"


class EmbeddingsApi(BaseHTTPRequestHandler):
    """OpenAI's embeddings API over the hash encoder; answers in reverse order, as the API allows."""

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        assert self.path == "/v1/embeddings"
        embedded = asyncio.run(HashEncoder(64).embed(body["input"], Kind.DOCUMENT, token_vectors=False))
        rows = [{"index": n, "embedding": (3 * one.dense).tolist()} for n, one in enumerate(embedded)]
        answer = json.dumps({"data": rows[::-1], "model": body["model"]}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        """Quiet."""


def settings(model, **others):
    return Settings(identity_secret=SECRET, embedding_model=model, **others)


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=["hash", "onnx", "onnx-in-batches", "openai"])
async def encoder(request):
    server = ThreadingHTTPServer(("127.0.0.1", 0), EmbeddingsApi)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    made = make_encoder(
        {
            "hash": lambda: settings("hash:64"),
            "onnx": lambda: Settings(identity_secret=SECRET),
            "onnx-in-batches": lambda: Settings(identity_secret=SECRET, max_batch_items=8),
            "openai": lambda: settings(f"openai:http://127.0.0.1:{server.server_port}", remote_model="hash"),
        }[request.param]()
    )
    await made.warm_up()
    yield made
    await made.close()
    server.shutdown()
    server.server_close()


async def dense(encoder, *texts, kind=Kind.DOCUMENT):
    return np.stack([one.dense for one in await encoder.embed(texts, kind, token_vectors=False)])


class TestEncoder:
    async def test_vectors_have_unit_length_and_the_stated_dimensions(self, encoder):
        vectors = await dense(encoder, LATE, LUNCH, "x")
        assert vectors.shape == (3, encoder.dimensions)
        np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-4)

    async def test_a_question_is_nearer_to_the_text_that_answers_it(self, encoder):
        (question,) = await dense(encoder, QUESTION, kind=Kind.QUERY)
        late, lunch = await dense(encoder, LATE, LUNCH) @ question
        assert late > lunch + 0.02

    async def test_the_same_text_has_the_same_vector_each_time(self, encoder):
        assert np.array_equal(await dense(encoder, LATE), await dense(encoder, LATE))

    async def test_the_same_text_is_not_the_same_as_query_and_as_document(self, encoder):
        query, document = await dense(encoder, LATE, kind=Kind.QUERY), await dense(encoder, LATE)
        assert not np.allclose(query, document, atol=1e-3)

    async def test_neighbours_in_a_request_do_not_change_a_vector(self, encoder):
        together = await dense(encoder, "hola", LATE * 20, LUNCH, LATE)
        alone = np.concatenate([await dense(encoder, text) for text in ("hola", LATE * 20, LUNCH, LATE)])
        assert (together * alone).sum(axis=1).min() > 0.9999

    async def test_a_text_beyond_the_window_is_reported_and_its_tail_unseen(self, encoder):
        long = "penalización " * 2 * encoder.max_tokens
        short, cut, other_tail = await encoder.embed([LATE, long, long + "sopa"], Kind.DOCUMENT, token_vectors=False)
        assert (short.truncated, cut.truncated) == (False, True)
        assert short.token_count < cut.token_count <= encoder.max_tokens
        assert cut.dense @ other_tail.dense > 0.9999

    async def test_the_last_sentence_of_a_text_within_the_window_is_seen(self, encoder):
        filler = "El almacén abre a las ocho. " * 20
        key = "La llave de repuesto está bajo la taquilla QV-77."
        (question,) = await dense(encoder, "¿Dónde está la llave de repuesto?", kind=Kind.QUERY)
        with_key, without = await encoder.embed([filler + key, filler], Kind.DOCUMENT, token_vectors=False)
        assert not with_key.truncated
        assert with_key.dense @ question > without.dense @ question

    async def test_counting_leaves_out_what_the_model_adds(self, encoder):
        (counted,) = await encoder.count([LATE])
        (embedded,) = await encoder.embed([LATE], Kind.DOCUMENT, token_vectors=False)
        assert 0 < counted < embedded.token_count
        assert await encoder.count([LATE * 3, ""]) == [pytest.approx(3 * counted, abs=4), 0]

    async def test_token_vectors_are_one_unit_row_for_each_of_the_texts_own_tokens(self, encoder):
        (embedded,) = await encoder.embed([LATE], Kind.DOCUMENT, token_vectors=encoder.has_token_vectors)
        if not encoder.has_token_vectors:
            assert embedded.token_vectors is None
            return
        (counted,) = await encoder.count([LATE])
        assert embedded.token_vectors.shape == (counted, encoder.dimensions)
        assert embedded.token_vectors.dtype == np.float16
        np.testing.assert_allclose(np.linalg.norm(embedded.token_vectors.astype(np.float32), axis=1), 1, atol=5e-3)

    @pytest.mark.parametrize("text", ["\0", "\ud800", "\u200b", "a", "🐕", "x" * 5000])
    async def test_odd_texts_have_finite_vectors(self, encoder, text):
        vectors = await dense(encoder, text)
        assert np.isfinite(vectors).all()

    async def test_many_callers_at_once_get_each_their_own(self, encoder):
        texts = [f"Contrato CT-2025-{n:04d}" for n in range(6)]
        together = await asyncio.gather(*(dense(encoder, text) for text in texts))
        alone = [await dense(encoder, text) for text in texts]
        assert min(float((a * b).sum()) for a, b in zip(together, alone, strict=True)) > 0.9999
