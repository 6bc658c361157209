"""The pages: self-contained, safe, and the same from the same samples."""

import re
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser

import pytest

from loadtests.report import write
from loadtests.report.__main__ import main
from loadtests.report.plots import latencies
from tests.unit.loadtests.report.runs import many, run, sample, soaked, written

EVIL = "<script>alert(1)</script> | \"x' &amp;"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    samples = [
        *(one for one in many() if one["scenario"] != "SQL and documents in parallel"),
        sample("with web search", 3.2, problem=EVIL),
        sample("naive RAG", 9.1, refused=True, tenant=EVIL),
    ]
    found = written(
        tmp_path_factory.mktemp("run"), samples, watched=soaked(), url=EVIL, scenarios=[run()["scenarios"][0]]
    )
    write(found)
    return found


@pytest.fixture(scope="module")
def page(folder):
    return (folder / "report.html").read_text()


class _Elements(HTMLParser):
    """Every element with its attributes, and every text."""

    def __init__(self):
        super().__init__()
        self.elements, self.ids = [], []

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.elements.append((tag, found))
        if "id" in found:
            self.ids.append(found["id"])


def elements(page):
    parser = _Elements()
    parser.feed(page)
    return parser


def test_the_page_needs_nothing_else_and_runs_nothing(page):
    found = elements(page)
    assert not {"script", "link", "img", "iframe"} & {tag for tag, _ in found.elements}
    for _, attributes in found.elements:
        assert not any(name.startswith("on") for name in attributes)
        for name in ("src", "href", "xlink:href"):
            assert (attributes.get(name) or "#").startswith("#")
    assert "@import" not in page
    assert not re.search(r"url\((?!#)", page)
    assert "default-src 'none'" in page


def test_what_a_request_or_a_folder_says_is_text_and_nothing_else(page, folder):
    assert "<script>" not in page
    assert "&lt;script&gt;" in page
    rows = [line for line in (folder / "report.md").read_text().splitlines() if "<script>" in line]
    assert rows
    assert all("\\|" in row for row in rows)


def test_every_picture_says_in_words_what_it_shows(page):
    labels = [found["aria-label"] for tag, found in elements(page).elements if tag == "svg"]
    # The whole run, two a scenario, stages, gaps and three measures of processes.
    assert len(labels) == 1 + 2 * 2 + 2 + 3
    assert len(set(labels)) == len(labels)
    (naive,) = [label for label in labels if label.startswith("naive RAG. ")]
    assert re.search(r"half took \d+ ms or less, 95 % \d+ ms\. Budgets in ms: p50 260, p95 300\.", naive)


def test_no_two_pictures_share_an_id_and_none_keeps_a_colour_of_its_own(page):
    ids = elements(page).ids
    assert len(set(ids)) == len(ids)
    for svg in re.findall(r"<svg.*?</svg>", page, re.DOTALL):
        assert not set(re.findall(r"#[0-9a-f]{6}\b", svg)) - {"#000000", "#ffffff"}


def test_what_failed_stands_first_and_the_title_counts_it(page, folder):
    assert "1 not as it should be" in page
    assert page.index("1,400 ms, over 1,300") < page.index("240 ms of 300")
    assert (folder / "report.md").read_text().startswith("# Load test slo: 1 not as it should be\n\n2026-11-30")


def test_the_same_samples_make_the_same_picture():
    answers, budgets = {"a": [1.0, 2.0, 3.0]}, {"p95": 2.5}
    assert latencies(answers, budgets, "a") == latencies(answers, budgets, "a")


def test_tables_in_markdown_have_as_many_cells_in_each_row(folder):
    tables = re.findall(r"(?:^\|.*\|$\n?)+", (folder / "report.md").read_text(), re.MULTILINE)
    assert len(tables) == 5
    for table in tables:
        assert len({len(re.findall(r"(?<!\\)\|", row)) for row in table.splitlines()}) == 1, table


def test_the_picture_of_a_soak_stands_alone_by_day_and_by_night(folder, tmp_path, capsys):
    path = tmp_path / "soak.svg"
    assert main([str(folder), "--plot", str(path)]) == 0
    assert capsys.readouterr().out.strip() == str(path)
    drawn = path.read_text()
    ElementTree.fromstring(drawn)
    assert "prefers-color-scheme: dark" in drawn
    assert not set(re.findall(r"#0[0-9a-f]0[0-9a-f]{3}\b", drawn))
    used, known = (set(re.findall(pattern, drawn)) for pattern in (r"var\(--(\w+)\)", r"--(\w+):"))
    assert {"ink", "line", "s0", "s1"} <= used <= known
    for text in ("gateway", "orchestrator", "MiB of memory", "file descriptors", "leases held"):
        assert f">{text}</text>" in drawn
    again = tmp_path / "again.svg"
    assert main([str(folder), "--plot", str(again)]) == 0
    assert again.read_text() == drawn


def test_without_watched_processes_there_is_no_such_picture(tmp_path, capsys):
    with pytest.raises(SystemExit) as ended:
        main([str(written(tmp_path, [])), "--plot", str(tmp_path / "soak.svg")])
    assert ended.value.code == 2
    assert "make load-soak" in capsys.readouterr().err


def test_a_run_without_any_request_is_reported_too(tmp_path):
    write(written(tmp_path, [], verdict=[], scenarios=[], left_out=["noisy neighbour, for it has no key"], workers=3))
    text = (tmp_path / "report.md").read_text()
    assert "nothing was judged" in text
    assert "Left out: noisy neighbour" in text
    assert "3 workers" in (tmp_path / "report.html").read_text()
    write(written(tmp_path, [sample(problem="refused to connect", status=0)], scenarios=[]))
    assert "Nothing was answered." in (tmp_path / "report.html").read_text()


def test_the_command_reports_one_folder_and_compares_two(tmp_path, capsys):
    # One scenario: the command is what is looked at.
    first, second = (
        written(tmp_path / name, [one for one in many(seed, slower) if one["scenario"] == "naive RAG"], scenarios=[])
        for name, seed, slower in (("a", 1, 1.0), ("b", 2, 1.5))
    )
    assert main([str(first)]) == 0
    assert "| naive RAG | 150 | 0 |" in capsys.readouterr().out
    # Worse is an answer, not a failure of the command.
    assert main([str(first), str(second)]) == 0
    said = capsys.readouterr().out
    assert re.search(r"\| naive RAG \| answer p50 \| .* \| worse \|", said)
    assert said.splitlines()[0] == (second / "comparison.md").read_text().splitlines()[0]
    page = (second / "comparison.html").read_text()
    assert "first: half took" in page
    assert "second: half took" in page
