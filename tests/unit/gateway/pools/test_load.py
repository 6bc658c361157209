import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.gateway.pools.load import Load, load_of
from services.understudy.metrics import EngineMetrics

VLLM = b"""# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="llama"} 12.0
vllm:num_requests_running{engine="1",model_name="llama"} 3.0
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{engine="0",model_name="llama"} 2.0
vllm:num_requests_waiting{engine="1",model_name="llama"} 0.0
vllm:num_requests_waiting_by_reason{engine="0",model_name="llama",reason="capacity"} 2.0
vllm:kv_cache_usage_perc{engine="0",model_name="llama"} 0.25
vllm:kv_cache_usage_perc{engine="1",model_name="llama"} 0.75
"""


def test_the_load_is_summed_over_engines_and_the_fullest_cache_counts():
    assert load_of(VLLM) == Load(15, 2, 0.75)


@pytest.mark.parametrize(
    "text",
    [
        b"vllm:num_requests_running 4\nvllm:num_requests_waiting 1\n",
        b"vllm:num_requests_running\t4 1700000000000\r\nvllm:num_requests_waiting{} 1\r\n",
        b'vllm:num_requests_running 4e0 # {trace_id="x"} 1\nvllm:num_requests_waiting 1.0\n# EOF\n',
    ],
)
def test_every_text_format_is_read(text):
    assert load_of(text) == Load(4, 1, 0)


@pytest.mark.parametrize(
    "text",
    [b"", b"vllm:num_requests_running 4\n", b"# vllm:num_requests_running 4\nvllm:num_requests_waiting 1\n",
     b"vllm:num_requests_running NaN\nvllm:num_requests_waiting +Inf\n"],
)  # fmt: skip
def test_a_server_that_does_not_say_has_no_load(text):
    assert load_of(text) is None


def test_a_negative_number_is_nothing():
    assert load_of(b"vllm:num_requests_running -3\nvllm:num_requests_waiting 1\n") == Load(0, 1, 0)


def test_the_understudy_is_understood():
    metrics = EngineMetrics("mini")
    metrics.running.set(5)
    metrics.waiting.set(2)
    metrics.kv_cache_usage.set(0.5)
    assert load_of(metrics.exposition()) == Load(5, 2, 0.5)


@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_nothing_breaks_the_reader(noise):
    for text in (noise, VLLM + noise, noise + b"\n" + VLLM):
        load = load_of(text)
        assert load is None or (load.running >= 0 and load.waiting >= 0 and 0 <= load.kv_cache <= 1)
