"""Which series there are: those of our code by its registries, and those of others by a written list."""

import importlib
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from prometheus_client import REGISTRY, CollectorRegistry

from services.evaluation.gauges import RunGauges

_EXPORTERS = Path("tests/data/metrics/exporters.yaml")
_ENDINGS = {
    "counter": ("_total",),
    "summary": ("_sum", "_count"),
    "histogram": ("_bucket", "_sum", "_count"),
    "gauge": ("",),
}


@cache
def exporters() -> dict[str, Any]:
    """What programs of others export, by program."""
    return yaml.safe_load(_EXPORTERS.read_text(encoding="utf-8"))


@cache
def _families() -> list[Any]:
    for path in Path("services").rglob("*.py"):
        # The understudy has vLLM's names, which are looked up in vLLM's list; Ray is in the images of Ray only.
        if "understudy" in path.parts or path.stem.startswith("ray_"):
            continue
        if "prometheus_client" in path.read_text(encoding="utf-8"):
            importlib.import_module(".".join(path.with_suffix("").parts))
    offline = CollectorRegistry()
    RunGauges(offline)
    return [family for registry in (REGISTRY, offline) for family in registry.collect()]


@cache
def ours() -> frozenset[str]:
    """Names of all series that our code tells."""
    return frozenset(f"{one.name}{ending}" for one in _families() for ending in _ENDINGS.get(one.type, ()))


@cache
def all_names() -> frozenset[str]:
    """Names of all series that a rule or a dashboard may ask for, but for what rules record."""
    theirs = (pair for program in exporters().values() for pair in program["metrics"].items())
    return ours() | {f"{name}{ending}" for name, kind in theirs for ending in _ENDINGS[kind]}


def buckets_of(name: str) -> tuple[str, ...]:
    """What `le` may be in the series of a histogram of ours, as its process writes it."""
    ours()
    histogram: Any = REGISTRY._names_to_collectors[name]
    label = ["a test"] * len(histogram._labelnames)
    one = histogram.labels(*label) if label else histogram
    found = tuple(sample.labels["le"] for family in one.collect() for sample in family.samples if "le" in sample.labels)
    if label:
        histogram.remove(*label)
    return found
