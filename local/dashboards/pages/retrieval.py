"""Search, and documents on their way in."""

from local.dashboards.panels import NAMESPACE, Dashboard, Panel, Row, Variable
from local.dashboards.questions import HERE, per_second, quantile, quantiles

_CALLS = "sabueso_call_duration_seconds_count"
_CALL_SECONDS = "sabueso_call_duration_seconds"
_QDRANT = 'namespace="$qdrant_namespace"'

RETRIEVAL = Dashboard(
    "retrieval",
    "sabueso: retrieval and ingestion",
    "Search, embedding, reranking, Qdrant, and documents on their way in.",
    [
        Row(
            "Search",
            [
                Panel(
                    "Searches",
                    [(per_second(_CALLS, "code", 'service="retrieval",method="Search"'), "{{code}}")],
                    "reqps",
                ),
                Panel("Time of a search", quantiles(_CALL_SECONDS, 'service="retrieval",method="Search"'), "s"),
                Panel("Time of a reranking", quantiles(_CALL_SECONDS, 'service="reranking",method="Rerank"'), "s"),
                Panel("Time of an embedding", quantiles(_CALL_SECONDS, 'service="embedding",method="Embed"'), "s"),
                Panel(
                    "Tokens that wait for the model",
                    [(f"max by (pod, kind) (sabueso_embedding_queue_tokens{{{HERE}}})", "{{pod}} {{kind}}")],
                ),
                Panel(
                    "Texts in a batch, p50",
                    [(quantile(0.5, "sabueso_embedding_batch_texts", "kind"), "{{kind}}")],
                    "short",
                ),
            ],
        ),
        Row(
            "Documents",
            [
                Panel("Unfinished jobs", [(f"max(sabueso_ingestion_open_jobs{{{HERE}}})", "jobs")]),
                Panel(
                    "Age of the oldest",
                    [(f"max(sabueso_ingestion_oldest_job_seconds{{{HERE}}})", "age")],
                    "s",
                    steps=((1800, "red"),),
                ),
                Panel(
                    "Ended",
                    [(per_second("sabueso_ingestion_jobs_total", "status") + " * 60", "{{status}}")],
                    about="A minute.",
                ),
                Panel(
                    "p95 by stage",
                    [(quantile(0.95, "sabueso_ingestion_stage_duration_seconds", "stage"), "{{stage}}")],
                    "s",
                ),
                Panel("Chunks stored", [(per_second("sabueso_ingestion_chunks_total", ""), "chunks a second")]),
                Panel("Put back", [(per_second("sabueso_ingestion_retries_total", "dependency"), "{{dependency}}")]),
            ],
        ),
        Row(
            "Qdrant",
            [
                Panel("Points", [(f"sum by (id) (collection_points{{{_QDRANT}}})", "{{id}}")]),
                Panel(
                    "REST, p95 by endpoint",
                    [
                        (
                            quantile(0.95, "rest_responses_duration_seconds", "endpoint", where=_QDRANT),
                            "{{endpoint}}",
                        )
                    ],
                    "s",
                ),
                Panel(
                    "Responses by status",
                    [
                        (
                            f"sum by (status) (rate(rest_responses_total{{{_QDRANT}}}[$__rate_interval]))",
                            "{{status}}",
                        )
                    ],
                    "reqps",
                ),
                Panel(
                    "Optimisations under way",
                    [(f"sum by (id) (collection_running_optimizations{{{_QDRANT}}})", "{{id}}")],
                ),
                Panel(
                    "Memory",
                    [(f"max by (pod) (memory_resident_bytes{{{_QDRANT}}})", "{{pod}}")],
                    "bytes",
                ),
                Panel(
                    "Replicas that are not active",
                    [(f"max by (pod) (collection_dead_replicas{{{_QDRANT}}})", "{{pod}}")],
                    steps=((1, "red"),),
                ),
            ],
        ),
    ],
    [NAMESPACE, Variable("qdrant_namespace", "app_status_recovery_mode", "namespace")],
)
