"""Indexes a corpus on a Ray cluster, with the ingestion service's own pipeline (docs/ray.md)."""
