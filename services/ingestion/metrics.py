"""Numbers of the ingestion: finished jobs, what waits, time by stage, chunks stored."""

from prometheus_client import Counter, Gauge, Histogram

JOBS = Counter("sabueso_ingestion_jobs_total", "Jobs that came to an end.", ["status"])
RETRIES = Counter("sabueso_ingestion_retries_total", "Jobs put back because something did not answer.", ["dependency"])
# Of the queue that all replicas share: each tells the same, so take the maximum and not the sum.
OPEN_JOBS = Gauge("sabueso_ingestion_open_jobs", "Unfinished jobs of all tenants.")
OLDEST_SECONDS = Gauge(
    "sabueso_ingestion_oldest_job_seconds", "Since the oldest unfinished job came; 0: there is none."
)
CHUNKS = Counter("sabueso_ingestion_chunks_total", "Chunks stored.")
SUSPICIOUS_DOCUMENTS = Counter(
    "sabueso_ingestion_suspicious_documents_total", "Documents that give orders to a model, by policy.", ["policy"]
)
STAGE_SECONDS = Histogram(
    "sabueso_ingestion_stage_duration_seconds",
    "Time of one document in a stage: parse, cut, embed, store.",
    ["stage"],
    buckets=(0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800),
)
