import json
import xml.etree.ElementTree as ElementTree

import pytest

from loadtests import performance, performance_plots
from loadtests.targets import TARGETS

PAGE = "# Costs\n\nabout\n\n<!-- measured -->\nyesterday\n<!-- /measured -->\n\nafter\n"


def beside(name, peer, ratio, **more):
    return {
        "name": name, "unit": "ms", "p50": 4.0, "p99": 9.0, "n": 7, "peer": {"name": peer, "p50": 4.0 / ratio},
        "ratio": ratio, "ratio_low": ratio - 0.1, "ratio_high": ratio + 0.1, **more,
    }  # fmt: skip


EXACT = "exact search in numpy"
FOUND = [
    beside("sql_guard", "sqlglot.parse", 2.0),
    beside("hybrid_search_10k", EXACT, 3.0),
    beside("hybrid_search_100k", EXACT, 0.5, recall_at_10=0.9),
    beside("gateway_added", "Envoy", 3.0),
]


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/performance.md").write_text(PAGE, encoding="utf-8")
    return tmp_path


def page(folder):
    return (folder / "docs/performance.md").read_text(encoding="utf-8")


def test_the_page_is_written_between_its_marks_and_the_same_again(folder):
    performance.keep(FOUND, folder)
    written = page(folder)
    assert written.startswith("# Costs\n\nabout\n\n<!-- measured -->\n")
    assert written.endswith("<!-- /measured -->\n\nafter\n")
    assert "yesterday" not in written
    performance.write(folder)
    assert page(folder) == written


def test_a_target_is_reached_missed_by_so_much_or_not_measured(folder):
    performance.keep(FOUND, folder)
    rows = {line.split(" | ")[0].strip("| "): line for line in page(folder).splitlines() if line.startswith("| ")}
    assert rows["hybrid search, 100,000 chunks, p50"].endswith("| reached |")
    assert "missed: 4.00 ×" in rows["SQL guard, p50"]
    assert "missed: 1.09 ×" in rows["its recall@10 against exact"]
    assert rows["whole stack idle"].endswith("| not measured |")


def test_a_figure_that_is_measured_again_replaces_its_own_only(folder):
    performance.keep(FOUND, folder)
    performance.keep([beside("sql_guard", "sqlglot.parse", 1.5)], folder)
    kept = json.loads((folder / "docs/performance.json").read_text(encoding="utf-8"))["figures"]
    assert kept["sql_guard / sqlglot.parse"]["ratio"] == 1.5
    assert kept["gateway_added / Envoy"]["ratio"] == 3.0
    assert all(fields["at"] and "load" in fields for fields in kept.values())


def test_answers_come_from_the_samples_of_a_load_test(folder, tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    scenario = {"name": "naive RAG", "budgets": {"answer": {"p50": None, "p95": 300, "p99": None}}}
    about = {"started_at": "2026-11-30T20:00:00+00:00", "profile": "h100-tp4", "scenarios": [scenario]}
    (run / "run.json").write_text(json.dumps(about))
    sample = {"scenario": "naive RAG", "problem": "", "refused": False, "warm_up": False}
    samples = [sample | {"due": 1.0, "ended": 1.0 + n / 100} for n in range(1, 21)]
    samples += [sample | {"due": 0.0, "ended": 50.0, **why} for why in ({"warm_up": True}, {"problem": "500"})]
    (run / "samples.jsonl").write_text("".join(json.dumps(one) + "\n" for one in samples))
    performance.keep_answers(run, folder)
    assert "| naive RAG | 300 | 100 | 190 | 20 | reached |" in page(folder)


def test_plots_are_pictures_that_follow_the_readers_colours(folder):
    performance.keep(FOUND, folder)
    plots = {path.name: path.read_text(encoding="utf-8") for path in (folder / "docs").glob("*.svg")}
    assert plots.keys() == {"performance-search.svg", "performance-peers.svg"}
    for name, plot in plots.items():
        assert f"]({name})" in page(folder)
        ElementTree.fromstring(plot)
        assert "prefers-color-scheme: dark" in plot
        assert "var(--ink)" in plot
        assert "#0102" not in plot
        assert len(plot) < 40_000
    assert "gateway, added time / Envoy" in plots["performance-peers.svg"]


def test_without_figures_there_are_no_plots():
    assert performance_plots.plots({}) == {}


def test_no_target_stands_twice():
    assert len({(target.key, target.field) for target in TARGETS}) == len(TARGETS)
