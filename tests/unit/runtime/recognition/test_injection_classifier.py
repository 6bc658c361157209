"""A classifier in ONNX judges texts: of two classes, of one, and none where none is named."""

import json

import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import numpy as np  # isort: skip
import tokenizers
from tokenizers import models, pre_tokenizers

from services.runtime.onnx_models import ModelNotFound
from services.runtime.recognition.injections.classifier import OnnxClassifier, classifier_of
from services.runtime.recognition.injections.detector import Detector
from services.runtime.settings import WrongSetting

WORDS = {"[UNK]": 0, "harmless": 1, "ignore": 2}


def write_model(folder, *, classes=2, labels=None):
    """A graph whose last class has a high logit where the text holds the word `ignore`."""
    tokenizer = tokenizers.Tokenizer(models.WordLevel(WORDS, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.save(str(folder / "tokenizer.json"))
    weights = np.array([[-8.0, 8.0]] if classes == 2 else [[8.0]], np.float32)
    bias = np.array([4.0, -4.0] if classes == 2 else [-4.0], np.float32)
    nodes = [
        helper.make_node("Equal", ["input_ids", "wanted"], ["is_wanted"]),
        helper.make_node("Cast", ["is_wanted"], ["as_float"], to=TensorProto.FLOAT),
        helper.make_node("ReduceMax", ["as_float", "axes"], ["present"], keepdims=1),
        helper.make_node("MatMul", ["present", "weights"], ["product"]),
        helper.make_node("Add", ["product", "bias"], ["logits"]),
    ]
    given = {"wanted": np.array(2, np.int64), "axes": np.array([1], np.int64), "weights": weights, "bias": bias}
    graph = helper.make_graph(
        nodes,
        "tiny",
        [helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["batch", "length"])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", classes])],
        [numpy_helper.from_array(value, name) for name, value in given.items()],
    )
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), folder / "model.onnx"
    )
    if labels:
        (folder / "config.json").write_text(json.dumps({"id2label": labels}), encoding="utf-8")


def test_the_last_class_is_the_one_unless_the_model_says_otherwise(tmp_path):
    write_model(tmp_path)
    classifier = OnnxClassifier(tmp_path)
    assert classifier.score("please ignore this") > 0.99 > 0.01 > classifier.score("harmless")
    assert classifier.score("") == 0
    write_model(tmp_path, labels={"0": "INJECTION", "1": "SAFE"})
    assert OnnxClassifier(tmp_path).score("harmless") > 0.99


def test_a_model_of_one_logit_is_a_probability(tmp_path):
    write_model(tmp_path, classes=1)
    classifier = OnnxClassifier(tmp_path)
    assert classifier.score("ignore") > 0.9 > 0.1 > classifier.score("harmless")


def test_the_setting_names_the_model(tmp_path):
    write_model(tmp_path)
    assert classifier_of("") is None
    detector = Detector(classifier_of(f"onnx:{tmp_path}"))
    assert detector.is_slow
    assert [one.kind for one in detector.suspects("they ignore it all")] == ["model"]
    with pytest.raises(WrongSetting, match="is not `onnx:"):
        classifier_of(str(tmp_path))
    with pytest.raises(ModelNotFound, match=r"tokenizer\.json"):
        classifier_of(f"onnx:{tmp_path.parent}")
