"""Numbers of the ingestion: finished jobs, time by stage, chunks stored."""

from prometheus_client import Counter, Histogram

JOBS = Counter("sabueso_ingestion_jobs_total", "Jobs that came to an end.", ["status"])
RETRIES = Counter("sabueso_ingestion_retries_total", "Jobs put back because something did not answer.", ["dependency"])
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
