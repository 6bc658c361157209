import json
import xml.etree.ElementTree as ElementTree

import pytest

from loadtests import performance, performance_plots
from loadtests.offering import samples
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
    beside("hybrid_search_10k", EXACT, 3.0, cpu_ratio=2.0, cpu_ratio_low=1.9, cpu_ratio_high=2.1),
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
    assert "| not measured: it installs" in rows["`make up` where nothing is installed"]


def test_a_row_says_on_which_day_and_its_figure_of_which_revision_it_is(folder):
    performance.keep([FOUND[0] | {"at": "2026-11-29T20:00+00:00", "revision": "abc"}, FOUND[3]], folder)
    rows = [line for line in page(folder).splitlines() if "| 2026-11-29 |" in line]
    assert [row.split(" | ")[0] for row in rows] == ["| SQL guard, p50", "| the same, p99", "| `sql_guard`"]
    kept = json.loads((folder / "docs/performance.json").read_text(encoding="utf-8"))["figures"]
    assert kept["sql_guard / sqlglot.parse"]["revision"] == "abc"
    assert kept["gateway_added / Envoy"]["revision"] == samples.revision()


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
    lines = [sample | {"due": 1.0, "ended": 1.0 + n / 100} for n in range(1, 21)]
    lines += [sample | {"due": 0.0, "ended": 50.0, **why} for why in ({"warm_up": True}, {"problem": "500"})]
    (run / "samples.jsonl").write_text("".join(json.dumps(one) + "\n" for one in lines))
    performance.keep_answers(run, folder)
    assert "| naive RAG | 300 | 100 | 190 | – | – | 20 | reached |" in page(folder)


def answers(folder, run, **scenarios):
    """The last cell of each row; scenarios by name: p95 budget, answer, the model's part in ms, `median`."""
    run.mkdir()
    offered, lines = [], []
    for name, (budget, answer, model, median) in scenarios.items():
        offered.append({"name": name, "budgets": {"answer": {"p95": budget}}, "median": median})
        fine = {"problem": "", "refused": False, "warm_up": False, "stages_ms": {"model": model}}
        times = answer if isinstance(answer, list) else [answer]
        lines += [fine | {"scenario": name, "due": 1.0, "ended": 1.0 + one / 1000} for one in times]
    about = {"started_at": "2026-11-30T20:00:00+00:00", "profile": "h100-tp4", "scenarios": offered}
    verdict = [{"scenario": one["name"], "what": "median"} for one in offered if one["median"]]
    (run / "run.json").write_text(json.dumps(about | {"revision": "0123456789abcdef+", "verdict": verdict}))
    (run / "samples.jsonl").write_text("".join(json.dumps(one) + "\n" for one in lines))
    performance.keep_answers(run, folder)
    assert "revision 0123456789+" in page(folder)
    rows = [line.strip("| ").split(" | ") for line in page(folder).splitlines() if line.startswith("| ")]
    return {cells[0]: cells for cells in rows if cells[0] in scenarios}


def test_an_answer_that_is_too_late_says_how_far_and_whose_time_it_is(folder, tmp_path):
    found = answers(folder, tmp_path / "run", late=(300, 330, 256, None), slow=(300, 400, 350, None),
                    now_and_then=(300, [290, 290, 340], 256, None))  # fmt: skip
    assert found["late"][1:6] == ["300", "330", "330", "256", "74"]
    assert found["late"][-1] == "missed: 1.10 ×; the model leaves 44 ms for the rest, whose median is 74 ms"
    assert found["now_and_then"][-1] == "missed: 1.13 ×; the median keeps it, p95 lies 50 ms above that"
    assert found["slow"][-1] == "missed: 1.33 ×; the model's turns alone take longer"


def test_a_median_that_the_models_turns_alone_exceed_is_said_to_be_out_of_reach(folder, tmp_path):
    of = {"of": "first", "times": 0.8}
    found = answers(
        folder, tmp_path / "run", first=(560, 500, 450, None), again=(560, 480, 440, of), cheap=(560, 450, 10, of),
        kept=(560, 400, 390, of),
    )  # fmt: skip
    assert found["again"][-1] == (
        "reached; its median is 0.96 × that of first, wanted 0.8 ×; missed: the model's own turns alone are 0.88 × of"
        " it, more than 0.8 ×, so it cannot be met while all turns are made"
    )
    assert found["cheap"][-1] == "reached; its median is 0.90 × that of first, wanted 0.8 ×; missed"
    assert found["kept"][-1] == "reached; its median is 0.80 × that of first, wanted 0.8 ×; reached"


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
    for row in ("gateway, added time / Envoy", f"hybrid search, 10,000 / {EXACT}"):
        assert row in plots["performance-peers.svg"]


def test_without_figures_there_are_no_plots():
    assert performance_plots.plots({}) == {}


def test_no_target_stands_twice():
    assert len({(target.key, target.field) for target in TARGETS}) == len(TARGETS)
