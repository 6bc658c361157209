"""The alert rules as the chart renders them, and planted series that promtool runs them on."""

import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from local import promtool
from tests.chart.cluster_facts import GOOD, of_kind, render

NAMESPACE = "default"
FILES = ("gateway", "agent", "ingestion", "model-pool", "backing", "kubernetes", "slo")
# Where series of others live in the tests: promtool knows no namespaces but by labels.
Rule = dict[str, Any]


@cache
def rendered() -> dict[str, list[Rule]]:
    """Groups of rules by file of charts/sabueso/alerts, with the chart's defaults."""
    rules = of_kind(render(**GOOD, alerts={"enabled": True}), "PrometheusRule")
    return {file: rules[f"try-alerts-{file}"]["spec"]["groups"] for file in FILES}


def all_rules() -> list[Rule]:
    """Every rule of every file."""
    return [rule for groups in rendered().values() for group in groups for rule in group["rules"]]


def all_alerts() -> list[Rule]:
    """Every rule that alerts."""
    return [rule for rule in all_rules() if "alert" in rule]


def run(*words: str) -> tuple[int, str]:
    """Exit code and words of promtool, which must be there."""
    program = promtool.find()
    assert program is not None, promtool.HOW
    done = subprocess.run([program, *words], check=False, capture_output=True, text=True, timeout=300)
    return done.returncode, done.stdout + done.stderr


def write_rules(path: Path, groups: list[Rule]) -> Path:
    """A file of rules for promtool, without annotations: it would compare every number in them."""
    bare = [
        group | {"rules": [{key: rule[key] for key in rule if key != "annotations"} for rule in group["rules"]]}
        for group in groups
    ]
    path.write_text(yaml.safe_dump({"groups": bare}))
    return path


def write_tests(path: Path, rules: Path, tests: list[Rule], every: str) -> str:
    """A file of tests for promtool; its path."""
    path.write_text(yaml.safe_dump({"rule_files": [str(rules)], "evaluation_interval": every, "tests": tests}))
    return str(path)


def series(name: str, values: str, /, **labels: str) -> Rule:
    """One series, of this namespace unless it is said otherwise."""
    told = ",".join(f'{key}="{value}"' for key, value in ({"namespace": NAMESPACE} | labels).items())
    return {"series": f"{name}{{{told}}}", "values": values}


def steady(name: str, per_minute: float, /, minutes: int = 120, **labels: str) -> Rule:
    """A counter that grows evenly."""
    return series(name, f"0+{per_minute}x{minutes}", **labels)


def flat(name: str, value: float, /, minutes: int = 120, **labels: str) -> Rule:
    """A gauge that stays."""
    return series(name, f"{value}x{minutes}", **labels)
