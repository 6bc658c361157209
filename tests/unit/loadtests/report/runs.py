"""Folders of runs, made up: what a load test would have written."""

import json
import random
from pathlib import Path

SCENARIOS = {"naive RAG": 0.2, "SQL and documents in parallel": 0.45, "with web search": 1.0}


def sample(scenario="naive RAG", due=0.0, seconds=0.2, **changed):
    """A line of samples.jsonl as a dict; an answer that is right."""
    return {
        "scenario": scenario,
        "tenant": "demo",
        "question": "q",
        "due": due,
        "sent": due + 0.001,
        "first_event": due + 0.02,
        "first_token": due + 0.7 * seconds,
        "ended": due + seconds,
        "status": 200,
        "problem": "",
        "refused": False,
        "finish": "stop",
        "degraded": False,
        "stages_ms": {"gateway": 4.0, "model": 700 * seconds, "tools": 100 * seconds, "total": 800 * seconds},
        "gap_ms_p50": 8.0,
        "gap_ms_max": 30.0,
        "warm_up": False,
    } | changed


def run(**changed):
    """run.json as a dict."""
    budgets = {"answer": {"p50": 260, "p95": 300, "p99": None}, "first_event": {"p50": None, "p95": 60, "p99": None}}
    return {
        "schema": 1,
        "file": "slo",
        "started_at": "2026-11-30T20:00:00Z",
        "seconds": 30,
        "profile": "h100-tp4",
        "url": "http://127.0.0.1:8080",
        "machine": {"cores": 2, "memory_gib": 24, "cpu": "Xeon"},
        "revision": "0123456789abcdef",
        "scenarios": [
            {
                "name": name,
                "planned_per_second": 5,
                "budgets": budgets,
                "max_error_share": 0.0,
                "max_refused_share": 0.0,
                "median": None,
            }
            for name in SCENARIOS
        ],
        "verdict": [
            {"scenario": "naive RAG", "what": "p95 of answer", "failed": False, "text": "240 ms of 300"},
            {"scenario": "with web search", "what": "p95 of answer", "failed": True, "text": "1,400 ms, over 1,300"},
        ],
        "watched": [],
    } | changed


def written(folder: Path, samples, **changed) -> Path:
    """The folder, with both files in it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "run.json").write_text(json.dumps(run(**changed)))
    (folder / "samples.jsonl").write_text("".join(json.dumps(one) + "\n" for one in samples))
    return folder


def many(seed=1, slower=1.0, seconds=30, per_second=5):
    """Samples of all scenarios side by side, spread as answers are; seeded."""
    dice = random.Random(seed)
    return [
        sample(name, due, mean * slower * dice.gammavariate(30, 1 / 30))
        for name, mean in SCENARIOS.items()
        for due in sorted(dice.uniform(0, seconds) for _ in range(seconds * per_second))
    ]


def soaked(processes=("gateway", "orchestrator"), seconds=600, every=10):
    """What was watched: memory that grows in the first of them."""
    return [
        {
            "at": at,
            "process": name,
            "rss_bytes": (200 + (at / 10 if number == 0 else 0)) * 2**20,
            "file_descriptors": 60 + number,
            "leases": at // every % 3,
        }
        for at in range(0, seconds, every)
        for number, name in enumerate(processes)
    ]
