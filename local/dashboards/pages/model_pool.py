"""vLLM's engines, and the pools as the gateway sees them."""

from local.dashboards.panels import NAMESPACE, Dashboard, Panel, Row, Variable
from local.dashboards.questions import HERE, per_second, quantile, quantiles, share

_POOL = 'namespace="$pool_namespace",model_name=~"$model"'


def _vllm(series: str, by: str = "model_name") -> str:
    return f"sum by ({by}) (rate({series}{{{_POOL}}}[$__rate_interval]))"


MODEL_POOL = Dashboard(
    "model-pool",
    "sabueso: model pool",
    "vLLM's engines, and the pools as the gateway sees them.",
    [
        Row(
            "Engines",
            [
                Panel("Running", [(f"sum by (pod) (vllm:num_requests_running{{{_POOL}}})", "{{pod}}")], stacked=True),
                Panel("Waiting", [(f"sum by (pod) (vllm:num_requests_waiting{{{_POOL}}})", "{{pod}}")], stacked=True),
                # A share of each engine: a sum over engines would say nothing.
                Panel(
                    "KV cache in use",
                    [(f"max by (pod, engine) (vllm:kv_cache_usage_perc{{{_POOL}}})", "{{pod}} {{engine}}")],
                    "percentunit",
                    steps=((0.9, "orange"), (0.95, "red")),
                    most=1,
                ),
                Panel("Time to the first token", quantiles("vllm:time_to_first_token_seconds", where=_POOL), "s"),
                Panel(
                    "Time of a token, mean of a request",
                    quantiles("vllm:request_time_per_output_token_seconds", where=_POOL),
                    "s",
                ),
                Panel("Whole requests", quantiles("vllm:e2e_request_latency_seconds", where=_POOL), "s"),
                Panel("Time in the queue", quantiles("vllm:request_queue_time_seconds", where=_POOL), "s"),
                Panel(
                    "Tokens a second",
                    [
                        (_vllm("vllm:prompt_tokens_total"), "read, {{model_name}}"),
                        (_vllm("vllm:generation_tokens_total"), "written, {{model_name}}"),
                    ],
                ),
                Panel(
                    "Prompts from the prefix cache",
                    [
                        (
                            share(_vllm("vllm:prefix_cache_hits_total"), _vllm("vllm:prefix_cache_queries_total")),
                            "{{model_name}}",
                        )
                    ],
                    "percentunit",
                    most=1,
                ),
                Panel(
                    "How requests ended",
                    [(_vllm("vllm:request_success_total", "finished_reason"), "{{finished_reason}}")],
                    "reqps",
                ),
                Panel("Preemptions", [(_vllm("vllm:num_preemptions_total", "pod"), "{{pod}}")], "short"),
                Panel("Turned away", [(_vllm("vllm:admission_rejections_total", "reason"), "{{reason}}")], "reqps"),
                Panel(
                    "Tool calls that were parsed",
                    [(_vllm("vllm:tool_call_parser_invocations_total", "outcome"), "{{outcome}}")],
                    "short",
                    width=12,
                ),
                Panel(
                    "Steps a second",
                    [(_vllm("vllm:iteration_tokens_total_count", "pod"), "{{pod}}")],
                    "short",
                    width=12,
                ),
            ],
        ),
        Row(
            "The gateway's pools",
            [
                Panel(
                    "Replicas that are asked",
                    [
                        (
                            f"sum by (pool) (max by (pool, replica) (sabueso_gateway_replica_healthy{{{HERE}}}))",
                            "{{pool}}",
                        )
                    ],
                ),
                Panel(
                    "In flight and capacity",
                    [
                        (f"sum by (pool) (sabueso_gateway_replica_in_flight{{{HERE}}})", "in flight, {{pool}}"),
                        (f"sum by (pool) (sabueso_gateway_replica_capacity{{{HERE}}})", "capacity, {{pool}}"),
                    ],
                ),
                Panel(
                    "Attempts",
                    [(per_second("sabueso_gateway_attempts_total", "pool, outcome"), "{{pool}} {{outcome}}")],
                    "reqps",
                ),
                Panel(
                    "First token through the gateway, p95",
                    [(quantile(0.95, "sabueso_gateway_model_first_token_seconds", "model"), "{{model}}")],
                    "s",
                ),
                Panel(
                    "Further tokens through the gateway, p95",
                    [(quantile(0.95, "sabueso_gateway_model_output_token_seconds", "model"), "{{model}}")],
                    "s",
                ),
                Panel(
                    "Tokens that were charged",
                    [(per_second("sabueso_gateway_model_tokens_total", "model, type"), "{{model}} {{type}}")],
                ),
                Panel(
                    "Waiting in the queues",
                    [(f"sum by (queue, band) (sabueso_gateway_queue_depth{{{HERE}}})", "{{queue}} {{band}}")],
                ),
                Panel(
                    "Wait, p95",
                    [(quantile(0.95, "sabueso_gateway_queue_wait_seconds", "queue, band"), "{{queue}} {{band}}")],
                    "s",
                ),
                Panel(
                    "Retries, hedges, ejections",
                    [
                        (per_second("sabueso_gateway_retries_total", "reason"), "retry: {{reason}}"),
                        (per_second("sabueso_gateway_hedges_total", "pool"), "hedge: {{pool}}"),
                        (per_second("sabueso_gateway_replica_ejections_total", "pool"), "ejection: {{pool}}"),
                        (per_second("sabueso_gateway_fallbacks_total", "pool"), "fallback: {{pool}}"),
                        (per_second("sabueso_gateway_broken_streams_total", "reason"), "broken: {{reason}}"),
                    ],
                ),
            ],
        ),
        Row(
            "GPUs",
            [
                Panel(
                    "At work",
                    [
                        (
                            'avg by (Hostname, gpu) (DCGM_FI_DEV_GPU_UTIL{namespace="$pool_namespace"}) / 100',
                            "{{Hostname}} {{gpu}}",
                        )
                    ],
                    "percentunit",
                    most=1,
                ),
                Panel(
                    "Memory in use",
                    [
                        (
                            'max by (Hostname, gpu) (DCGM_FI_DEV_FB_USED{namespace="$pool_namespace"})',
                            "{{Hostname}} {{gpu}}",
                        )
                    ],
                    "decmbytes",
                ),
                Panel(
                    "Temperature",
                    [
                        (
                            'max by (Hostname, gpu) (DCGM_FI_DEV_GPU_TEMP{namespace="$pool_namespace"})',
                            "{{Hostname}} {{gpu}}",
                        )
                    ],
                    "celsius",
                ),
            ],
        ),
    ],
    [
        NAMESPACE,
        Variable("pool_namespace", "vllm:num_requests_running", "namespace"),
        Variable("model", "vllm:num_requests_running", "model_name", several=True),
    ],
)
