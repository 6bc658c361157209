"""The capacity table in the chart's README, reckoned again."""

import re
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from tests.chart.vllm_pools import PROFILES, merged

GIB = 2**30
# `nvidia.com/gpu.memory` of an H100 SXM, in MiB, as GPU feature discovery writes it.
GPU_GIB = 81_559 / 1024
OVERHEAD_GIB = 4
LENGTHS = (2048, 4096, 8192, 16384)


@dataclass(frozen=True)
class Model:
    """Numbers of a model's config.json; parameters in all."""

    layers: int
    kv_heads: int
    head_size: int
    parameters: float
    vocabulary: int
    hidden_size: int

    @property
    def weights_bytes(self) -> float:
        in_two_bytes = 2 * self.vocabulary * self.hidden_size
        return self.parameters + in_two_bytes

    def token_bytes(self, value_bytes: int = 2) -> int:
        return 2 * self.layers * self.kv_heads * self.head_size * value_bytes

    def tokens(self, gpus: int, utilization: float, value_bytes: int = 2) -> int:
        room = (GPU_GIB * utilization - OVERHEAD_GIB) * gpus * GIB - self.weights_bytes
        return int(room // self.token_bytes(value_bytes))


LLAMA_70B = Model(80, 8, 128, 70.554e9, 128_256, 8192)
LLAMA_8B = Model(32, 8, 128, 8.03e9, 128_256, 4096)
QWEN_72B = Model(80, 8, 128, 72.706e9, 152_064, 8192)
VALUES = yaml.safe_load(Path("charts/vllm/values.yaml").read_text())
TP2 = yaml.safe_load((PROFILES / "tp2.yaml").read_text())
ROWS = {
    "Llama-3.1-70B FP8, 4 × H100": (LLAMA_70B, VALUES["pools"]["large"]),
    "Llama-3.1-70B FP8, 2 × H100": (LLAMA_70B, TP2["pools"]["large"]),
    "Llama-3.1-8B FP8, 1 × H100": (LLAMA_8B, VALUES["pools"]["small"]),
    "Qwen2.5-72B FP8, 4 × H100": (QWEN_72B, VALUES["pools"]["judge"]),
}


def settings(pool):
    return merged(VALUES["defaults"], pool)


@pytest.fixture(scope="module")
def table():
    rows = re.findall(r"^\| (.+?) \|((?: [\d,]+ \|){6})$", Path("charts/vllm/README.md").read_text(), re.M)
    return {name: [int(cell.replace(",", "")) for cell in cells.strip("| ").split(" | ")] for name, cells in rows}


def test_the_table_has_a_row_for_each_profile(table):
    assert set(table) == set(ROWS)


@pytest.mark.parametrize("name", ROWS)
def test_the_table_is_what_the_formula_says(table, name):
    model, pool = ROWS[name]
    pool = settings(pool)
    tokens = model.tokens(pool["gpus"], pool["gpuMemoryUtilization"])
    assert table[name] == [tokens, *(tokens // length for length in LENGTHS), pool["maxNumSeqs"]]
    assert name.endswith(f"{pool['gpus']} × H100")


@pytest.mark.parametrize("name", ROWS)
def test_a_pool_takes_no_more_sequences_than_fit_at_an_ordinary_length(name):
    model, pool = ROWS[name]
    pool = settings(pool)
    # What many questions share (instructions, tools) counts once.
    assert pool["maxNumSeqs"] * 3600 <= model.tokens(pool["gpus"], pool["gpuMemoryUtilization"])
    assert model.tokens(pool["gpus"], pool["gpuMemoryUtilization"]) >= 8 * pool["maxModelLen"]


def test_weights_leave_room_on_two_gpus_and_not_on_one():
    assert LLAMA_70B.tokens(2, 0.9) > 0
    assert LLAMA_70B.tokens(1, 0.9) < 16_384


def test_half_as_many_bytes_hold_twice_the_tokens():
    assert LLAMA_70B.token_bytes() == 320 * 1024
    assert LLAMA_70B.tokens(4, 0.9, value_bytes=1) // 2 == LLAMA_70B.tokens(4, 0.9)
