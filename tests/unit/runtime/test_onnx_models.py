import subprocess
import sys

import pytest

from services.runtime.onnx_models import ModelNotFound, locate, model_file, short_name, tokenizable


@pytest.mark.parametrize("name", ["./nowhere", "/nowhere", "nowhere", "a/b/c"])
def test_a_name_that_can_be_no_hub_id_is_refused_with_the_setting(name):
    with pytest.raises(ModelNotFound, match="is not a folder") as caught:
        locate(name, "SABUESO_EMBEDDING_MODEL")
    assert caught.value.setting == "SABUESO_EMBEDDING_MODEL"


def test_the_smaller_model_is_taken_first(tmp_path):
    (tmp_path / "onnx").mkdir()
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(ModelNotFound, match=r"holds none of model_int8\.onnx"):
        model_file(tmp_path, "SABUESO_EMBEDDING_MODEL")
    for name in ("model.onnx", "onnx/model_int8.onnx"):
        (tmp_path / name).touch()
        assert model_file(locate(str(tmp_path), "X"), "X") == tmp_path / name


def test_a_models_name_has_neither_place_nor_revision():
    assert short_name("/models/e5") == "e5"
    assert short_name("intfloat/multilingual-e5-small@abc") == "multilingual-e5-small"


def test_what_tokenizers_cannot_read_is_left_out():
    assert tokenizable("a\0b\ud800c ñ") == "a bc ñ"


def test_no_runtime_of_models_is_loaded_before_a_model_is():
    loaded = (
        "import services.runtime.onnx_models, sys; print({'onnxruntime', 'numpy', 'huggingface_hub'} & {*sys.modules})"
    )
    assert (
        subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True).stdout == "set()\n"
    )
