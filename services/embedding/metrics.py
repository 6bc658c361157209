"""Numbers of the queue and of the model's runs."""

from prometheus_client import Gauge, Histogram

QUEUE_TOKENS = Gauge("sabueso_embedding_queue_tokens", "Tokens that wait for the model.", ["kind"])
BATCH_TEXTS = Histogram(
    "sabueso_embedding_batch_texts", "Texts in one run of the model.", ["kind"], buckets=(1, 2, 4, 8, 16, 32, 64)
)
BATCH_TOKENS = Histogram(
    "sabueso_embedding_batch_tokens",
    "Tokens in one run of the model.",
    ["kind"],
    buckets=(16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384),
)
