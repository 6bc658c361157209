"""Makes an int8 model beside one in 32 bit, which the services then take: twice as fast on a processor.

Usage: python -m services.embedding.quantise FOLDER_OR_HUB_ID [OUTPUT_DIR]      (needs the group `local`)
"""

import argparse
import logging
import shutil
import sys
import warnings
from pathlib import Path

from services.runtime.onnx_models import ModelNotFound, locate, model_file

INT8, _TOKENIZER = "model_int8.onnx", "tokenizer.json"


def quantise(source: Path, target: Path) -> None:
    """Writes `target` with int8 weights; activations are quantised while it runs. All or nothing."""
    # Imported here: they take a second.
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic  # pyright: ignore[reportUnknownVariableType]

    partial = target.with_name(f".{target.name}.partial")
    root = logging.getLogger()
    level = root.level
    try:
        # It advises a preparation for static shapes, of which these graphs have none.
        root.setLevel(logging.ERROR)
        with warnings.catch_warnings(action="ignore"):
            quantize_dynamic(
                source,
                partial,
                weight_type=QuantType.QInt8,
                per_channel=True,
                # 7 bits: processors without VNNI saturate on 8.
                reduce_range=True,
                op_types_to_quantize=["MatMul"],
                # Said, since it cannot be inferred behind an operator outside of the standard.
                extra_options={"DefaultTensorType": onnx.TensorProto.FLOAT},
            )
        partial.rename(target)
    finally:
        root.setLevel(level)
        partial.unlink(missing_ok=True)


def make(name: str, output: Path | None = None) -> Path:
    """The int8 model of a folder or hub id, in `output` or in the folder itself. Raises ModelNotFound."""
    folder = locate(name, "FOLDER_OR_HUB_ID")
    source = model_file(folder, "FOLDER_OR_HUB_ID")
    output = output or folder
    output.mkdir(parents=True, exist_ok=True)
    if output != folder:
        shutil.copyfile(folder / _TOKENIZER, output / _TOKENIZER)
    if source.name != INT8:
        quantise(source, output / INT8)
    elif output != folder:
        shutil.copyfile(source, output / INT8)
    return output / INT8


def main() -> None:
    """The command; status 1 and one line on stderr when there is no such model."""
    parser = argparse.ArgumentParser(prog="python -m services.embedding.quantise", description=__doc__)
    parser.add_argument("name", metavar="FOLDER_OR_HUB_ID")
    parser.add_argument("output", type=Path, nargs="?", metavar="OUTPUT_DIR")
    arguments = parser.parse_args()
    try:
        print(make(arguments.name, arguments.output))
    except ModelNotFound as error:
        print(f"quantise: {error}", file=sys.stderr)
        raise SystemExit(1) from None


if __name__ == "__main__":
    main()
