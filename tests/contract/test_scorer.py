"""What every scorer keeps to: late interaction, a cross-encoder and the fake."""

from dataclasses import replace

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.normalizers import Lowercase
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.processors import TemplateProcessing

from services.embedding.encoder import HashEncoder, Kind
from services.reranking.cross_encoder import CrossEncoderScorer
from services.reranking.scorer import BrokenModel, MaxSimScorer, OverlapScorer, Scored
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
        return one.token_vectors

    async def documents(self, texts):
        embedded = await self._encoder.embed(texts, Kind.DOCUMENT, token_vectors=True)
        return [one.token_vectors for one in embedded]


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


def cross_encoder(folder, labels=1, **others):
    options = {"name": "shared-words", "threads": 1, "max_tokens": 32, "batch_items": 2} | others
    return CrossEncoderScorer(cross_encoder_folder(folder, labels), **options)


@pytest.fixture(params=["maxsim", "overlap", "cross-encoder", "cross-encoder with two labels"])
def scorer(request, tmp_path):
    return {
        "maxsim": lambda: MaxSimScorer(HashEmbedder()),
        "overlap": OverlapScorer,
        "cross-encoder": lambda: cross_encoder(tmp_path),
        "cross-encoder with two labels": lambda: cross_encoder(tmp_path, labels=2),
    }[request.param]()


async def scores(scorer, query, *candidates):
    query, candidates = await scorer.prepare(query, candidates)
    return scorer.score(query, candidates)


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

    async def test_it_says_what_it_is(self, scorer):
        assert scorer.model
        assert isinstance(scorer.reads_token_vectors, bool)


async def test_a_cross_encoder_scores_what_its_graph_says(tmp_path):
    query = Scored("penalización demora zzz")
    candidates = [Scored("por la demora"), Scored("Penalización por demora demora"), Scored("zzz")]
    assert (await scores(cross_encoder(tmp_path), query, *candidates)).tolist() == [1, 3, 0]
    assert (await scores(cross_encoder(tmp_path, labels=2), query, *candidates)).tolist() == [2, 6, 0]


async def test_a_long_query_does_not_push_the_text_out(tmp_path):
    (score,) = await scores(cross_encoder(tmp_path), Scored("demora " * 400), Scored("demora por la entrega"))
    assert score > 0


async def test_a_classifier_of_three_labels_is_no_reranker(tmp_path):
    with pytest.raises(BrokenModel, match=r"shared-words.* 3 labels"):
        await scores(cross_encoder(tmp_path, labels=3), QUESTION, LATE)


def test_a_folder_without_tokenizer_or_graph_is_refused(tmp_path):
    options = {"name": "x", "threads": 1, "max_tokens": 32, "batch_items": 2}
    with pytest.raises(ModelNotFound, match=r"tokenizer\.json"):
        CrossEncoderScorer(tmp_path, **options)
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(ModelNotFound, match=r"model\.onnx"):
        CrossEncoderScorer(tmp_path, **options)
