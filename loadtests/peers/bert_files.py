"""Writes the default model's weights as transformers wants them: `-m loadtests.peers.bert_files WEIGHTS TOKENIZER TO`.

Runs where PyTorch is. `TO/bi` is the encoder, `TO/cross` a cross-encoder of the same size, for speed and not for sense.
"""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

_NAMES = {
    "attention.self.query": "q",
    "attention.self.key": "k",
    "attention.self.value": "v",
    "attention.output.dense": "ao",
    "intermediate.dense": "fi",
    "output.dense": "fo",
}
_NORMS = {"attention.output.LayerNorm": "aln", "output.LayerNorm": "oln"}


def write(weights: Path, tokenizer_file: Path, folder: Path) -> None:
    """Both models."""
    from transformers import BertConfig, BertForSequenceClassification, BertModel, PreTrainedTokenizerFast

    arrays = dict(np.load(weights))
    vocabulary, hidden = arrays["emb.word"].shape
    layers = sum(name.endswith(".fi.b") for name in arrays)
    config = BertConfig(
        vocab_size=vocabulary,
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=hidden // 32,
        intermediate_size=arrays["l0.fi.b"].shape[0],
        max_position_embeddings=arrays["emb.pos"].size // hidden,
        type_vocab_size=arrays["emb.type"].size // hidden,
        layer_norm_eps=1e-12,
        num_labels=1,
        pad_token_id=1,
    )
    bert = BertModel(config, add_pooling_layer=False)
    bert.load_state_dict(_state(arrays, layers))
    cross = BertForSequenceClassification(config)
    cross.bert.load_state_dict(bert.state_dict(), strict=False)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_file=str(tokenizer_file),
        pad_token="<pad>",
        model_max_length=512,
        model_input_names=["input_ids", "attention_mask"],
    )
    for model, name in ((bert, "bi"), (cross, "cross")):
        model.save_pretrained(folder / name)
        tokenizer.save_pretrained(folder / name)
        _name_tokenizer(folder / name / "tokenizer_config.json")


def _name_tokenizer(path: Path) -> None:
    """By the name that older versions of transformers know too: Infinity has one."""
    config = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(config | {"tokenizer_class": "PreTrainedTokenizerFast"}), encoding="utf-8")


def _state(arrays: dict[str, np.ndarray], layers: int) -> dict[str, Any]:
    """BERT's parameters by their names in transformers."""
    import torch

    hidden = arrays["emb.ln.w"].shape[0]
    found = {
        "embeddings.word_embeddings.weight": arrays["emb.word"],
        "embeddings.position_embeddings.weight": arrays["emb.pos"].reshape(-1, hidden),
        "embeddings.token_type_embeddings.weight": arrays["emb.type"].reshape(-1, hidden),
        "embeddings.LayerNorm.weight": arrays["emb.ln.w"],
        "embeddings.LayerNorm.bias": arrays["emb.ln.b"],
    }
    for n in range(layers):
        for name, short in (_NAMES | _NORMS).items():
            found[f"encoder.layer.{n}.{name}.weight"] = arrays[f"l{n}.{short}.w"]
            found[f"encoder.layer.{n}.{name}.bias"] = arrays[f"l{n}.{short}.b"]
    return {name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in found.items()}


if __name__ == "__main__":
    write(*map(Path, sys.argv[1:4]))
