"""What every scorer keeps to: late interaction, a cross-encoder, servers by URL and the fake."""

import json
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import onnx
import pytest
import pytest_asyncio
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.normalizers import Lowercase
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.processors import TemplateProcessing

from services.embedding.encoder import HashEncoder, Kind
from services.reranking.cross_encoder import CrossEncoderScorer, Load
from services.reranking.queued import QueuedScorer
from services.reranking.remote_scorer import CohereApi, RemoteScorer, TeiApi
from services.reranking.scorer import BrokenModel, MaxSimScorer, OverlapScorer, Scored, TokenVectors
from services.runtime.model_server import ModelServer
from services.runtime.onnx_models import ModelNotFound

LATE = Scored("La penalización por demora en la entrega es del 2 % mensual.")
LUNCH = Scored("El menú del comedor cambia cada semana.")
QUESTION = Scored("penalización por demora")
WORDS = ["[UNK]", "[CLS]", "[SEP]", "la", "penalización", "por", "demora", "en", "entrega", "es", "menú", "el"]


class HashEmbedder:
    """Token vectors of the hash encoder."""

    def __init__(self):
        self._encoder = HashEncoder(64)

    async def query(self, text):
        (one,) = await self._encoder.embed([text], Kind.QUERY, token_vectors=True)
        return TokenVectors(one.token_vectors)

    async def documents(self, texts):
        embedded = await self._encoder.embed(texts, Kind.DOCUMENT, token_vectors=True)
        return [TokenVectors(one.token_vectors, one.truncated) for one in embedded]


def cross_encoder_folder(folder, labels=1):
    """A cross-encoder that counts the words of the text that the query has too.

    Its graph: one-hot of each token, summed over the query's (type 0) and the text's (type 1) real tokens, special and
    unknown tokens without weight; the logit is the scalar product of the two sums.
    """
    tokenizer = Tokenizer(WordLevel({word: n for n, word in enumerate(WORDS)}, unk_token="[UNK]"))
    tokenizer.normalizer = Lowercase()
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 1), ("[SEP]", 2)],
    )
    folder.mkdir(exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    table = np.eye(len(WORDS), dtype=np.float32)
    table[:3] = 0
    node = helper.make_node
    nodes = [
        node("Gather", ["table", "input_ids"], ["words"]),
        node("Cast", ["attention_mask"], ["mask"], to=TensorProto.FLOAT),
        node("Cast", ["token_type_ids"], ["second"], to=TensorProto.FLOAT),
        node("Mul", ["mask", "second"], ["of_text"]),
        node("Sub", ["mask", "of_text"], ["of_query"]),
        node("Unsqueeze", ["of_text", "two"], ["text_weights"]),
        node("Unsqueeze", ["of_query", "two"], ["query_weights"]),
        node("Mul", ["words", "text_weights"], ["text_words"]),
        node("Mul", ["words", "query_weights"], ["query_words"]),
        node("ReduceSum", ["text_words", "one"], ["text"], keepdims=0),
        node("ReduceSum", ["query_words", "one"], ["query"], keepdims=0),
        node("Mul", ["text", "query"], ["shared"]),
        node("ReduceSum", ["shared", "one"], ["logit"], keepdims=1),
        node("Mul", ["logit", "signs"], ["logits"]),
    ]
    signs = np.array([[1], [-1, 1], [0, 1, 2]][labels - 1], np.float32)
    constants = {"table": table, "one": np.array([1]), "two": np.array([2]), "signs": signs}
    value = helper.make_tensor_value_info
    inputs = [value(name, TensorProto.INT64, ["b", "t"]) for name in ("input_ids", "attention_mask", "token_type_ids")]
    graph = helper.make_graph(
        nodes,
        "shared-words",
        inputs,
        [value("logits", TensorProto.FLOAT, ["b", labels])],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, str(folder / "model.onnx"))
    return folder


def cross_encoder(folder, labels=1, max_tokens=32, **load):
    load = Load(**{"batch_items": 2, "parallel_runs": 2} | load)
    return CrossEncoderScorer(
        cross_encoder_folder(folder, labels), name="shared-words", max_tokens=max_tokens, load=load
    )


class RerankingServer(BaseHTTPRequestHandler):
    """Both kinds of API over shared words less one half, so that scores are negative too; best first, as servers do.

    Refuses more than 32 texts, and texts of more than 3,000 characters.
    """

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append(body)
        tei = self.path == "/rerank"
        texts = body["texts" if tei else "documents"]
        if len(texts) > 32 or max(map(len, texts)) > 3000:
            return self._answer(422 if tei else 400, {"message": "the input is too long"})
        scores = OverlapScorer().compute(Scored(body["query"]), [Scored(text) for text in texts]).values - 0.5
        name = "score" if tei else "relevance_score"
        rows = [{"index": int(n), name: float(scores[n])} for n in np.argsort(-scores)]
        return self._answer(200, rows if tei else {"results": rows})

    def _answer(self, status, answer):
        content = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_):
        """Quiet."""


@pytest.fixture
def server():
    server = ThreadingHTTPServer(("127.0.0.1", 0), RerankingServer)
    server.requests = []
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def remote(server, api, max_characters=20_000):
    asked = ModelServer(f"http://127.0.0.1:{server.server_port}", name="test server", api_key="", timeout_seconds=20)
    return RemoteScorer(asked, api, model="m", max_characters=max_characters, max_waiting_candidates=500)


def queued(local):
    return QueuedScorer(local, max_waiting_candidates=100)


@pytest_asyncio.fixture(
    params=["maxsim", "overlap", "cross-encoder", "cross-encoder with two labels", "tei", "cohere"],
)
async def scorer(request, tmp_path, server):
    made = {
        "maxsim": lambda: queued(MaxSimScorer(HashEmbedder())),
        "overlap": lambda: queued(OverlapScorer()),
        "cross-encoder": lambda: queued(cross_encoder(tmp_path)),
        "cross-encoder with two labels": lambda: queued(cross_encoder(tmp_path, labels=2)),
        "tei": lambda: remote(server, TeiApi()),
        "cohere": lambda: remote(server, CohereApi()),
    }[request.param]()
    yield made
    await made.close()


async def scores(scorer, query, *candidates):
    return (await scorer.score(query, candidates)).values


class TestScorer:
    async def test_the_text_that_answers_scores_higher(self, scorer):
        lunch, late = await scores(scorer, QUESTION, LUNCH, LATE)
        assert late > lunch

    async def test_scores_come_in_the_order_of_the_candidates(self, scorer):
        candidates = [LUNCH, LATE, replace(LATE, text="penalización " + LUNCH.text), LUNCH]
        forward = await scores(scorer, QUESTION, *candidates)
        backward = await scores(scorer, QUESTION, *candidates[::-1])
        assert forward.shape == (4,)
        np.testing.assert_allclose(forward, backward[::-1], atol=1e-5)

    async def test_a_candidate_scores_the_same_alone_and_among_others(self, scorer):
        together = await scores(scorer, QUESTION, LUNCH, LATE, replace(LATE, text="demora " * 30))
        alone = await scores(scorer, QUESTION, LATE)
        assert together[1] == pytest.approx(alone[0], abs=1e-5)

    async def test_equal_texts_score_the_same(self, scorer):
        first, second = await scores(scorer, QUESTION, LATE, LATE)
        assert first == second

    @pytest.mark.parametrize("text", ["\0", "\ud800", "🐕", "x " * 5000])
    async def test_odd_texts_have_finite_scores(self, scorer, text):
        assert np.isfinite(await scores(scorer, QUESTION, Scored(text), LATE)).all()
        assert np.isfinite(await scores(scorer, Scored(text), LATE)).all()

    async def test_one_oversized_text_hurts_no_other(self, scorer):
        texts = [Scored(f"penalización {n}") for n in range(9)]
        alone = await scores(scorer, QUESTION, *texts)
        together = await scorer.score(QUESTION, [*texts, Scored("0f3a" * 5000)])
        np.testing.assert_allclose(together.values[:9], alone, atol=1e-5)
        assert list(together.truncated[:9]) == [False] * 9

    async def test_texts_that_answer_nothing_all_have_a_score(self, scorer):
        found = await scorer.score(QUESTION, [LUNCH] * 40)
        assert found.values.shape == (40,)
        assert len(found.truncated) == 40

    async def test_it_says_what_it_is(self, scorer):
        assert scorer.model
        assert isinstance(scorer.reads_token_vectors, bool)


async def test_a_cross_encoder_scores_what_its_graph_says(tmp_path):
    query = Scored("penalización demora zzz")
    candidates = [Scored("por la demora"), Scored("Penalización por demora demora"), Scored("zzz")]
    assert (await scores(queued(cross_encoder(tmp_path)), query, *candidates)).tolist() == [1, 3, 0]
    assert (await scores(queued(cross_encoder(tmp_path, labels=2)), query, *candidates)).tolist() == [2, 6, 0]


@pytest.mark.parametrize("load", [{"batch_items": 1}, {"batch_items": 7}, {"batch_items": 64, "batch_tokens": 70}])
async def test_a_cross_encoders_batches_do_not_change_its_scores(tmp_path, load):
    candidates = [Scored("demora " * (n % 9) + "la") for n in range(30)]
    expected = (
        await scores(queued(cross_encoder(tmp_path, parallel_runs=1, batch_items=1)), QUESTION, *candidates)
    ).tolist()
    assert (await scores(queued(cross_encoder(tmp_path, **load)), QUESTION, *candidates)).tolist() == expected
    assert expected[0] < expected[1] < expected[8]


async def test_a_long_text_is_cut_and_marked_and_the_query_is_whole(tmp_path):
    scorer = queued(cross_encoder(tmp_path))
    fits, long, blank_tail = Scored("demora"), Scored("menú " * 400 + "demora"), Scored("demora" + " " * 5000)
    found = await scorer.score(QUESTION, [fits, long, blank_tail])
    assert found.values.tolist() == [1, 0, 1]
    # What is beyond the character limit is not even looked at.
    assert list(found.truncated) == [False, True, True]


async def test_a_long_query_does_not_push_the_text_out(tmp_path):
    found = await queued(cross_encoder(tmp_path)).score(Scored("demora " * 400), [Scored("demora por la entrega")])
    assert found.values[0] > 0
    assert list(found.truncated) == [False]


async def test_a_classifier_of_three_labels_is_no_reranker(tmp_path):
    with pytest.raises(BrokenModel, match=r"shared-words.* 3 labels"):
        await scores(queued(cross_encoder(tmp_path, labels=3)), QUESTION, LATE)


def test_a_folder_without_tokenizer_or_graph_is_refused(tmp_path):
    options = {"name": "x", "max_tokens": 32, "load": Load()}
    with pytest.raises(ModelNotFound, match=r"tokenizer\.json"):
        CrossEncoderScorer(tmp_path, **options)
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(ModelNotFound, match=r"model\.onnx"):
        CrossEncoderScorer(tmp_path, **options)


@pytest.mark.parametrize("api", [TeiApi(), CohereApi()])
async def test_many_texts_go_to_a_server_in_parts_and_keep_their_places(server, api):
    scorer = remote(server, api)
    candidates = [Scored(f"menú {n}") for n in range(199)]
    candidates.insert(123, LATE)
    found = (await scorer.score(QUESTION, candidates)).values
    assert int(found.argmax()) == 123
    assert found.min() == -0.5
    assert sorted(len(body.get("texts") or body["documents"]) for body in server.requests) == [8] + [32] * 6
    await scorer.close()


@pytest.mark.parametrize("api", [TeiApi(), CohereApi()])
async def test_a_text_that_the_server_finds_too_long_is_cut_and_marked(server, api):
    scorer = remote(server, api, max_characters=10_000)
    found = await scorer.score(QUESTION, [LATE, Scored("penalización " * 300), Scored("x" * 20_000), LUNCH])
    assert list(found.truncated) == [False, True, True, False]
    assert found.values[1] > found.values[2]
    await scorer.close()
