"""Where a graph runs, and which texts share a run."""

import pytest

from services.runtime.onnx_models import choose_providers

GPU, CPU = "CUDAExecutionProvider", "CPUExecutionProvider"


@pytest.mark.parametrize(
    ("available", "chosen"),
    [
        ([CPU], [CPU]),
        (["AzureExecutionProvider", CPU], [CPU]),
        (["TensorrtExecutionProvider", GPU, CPU], [GPU, CPU]),
        ([CPU, GPU], [GPU, CPU]),
    ],
)
def test_a_cuda_device_is_used_where_the_runtime_offers_one(available, chosen):
    assert choose_providers(available) == chosen
