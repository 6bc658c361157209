"""A run's folder: what is read, and how what cannot be is named."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadtests.report.__main__ import main
from loadtests.report.records import BadFolder, Sample, read
from tests.unit.loadtests.report.runs import run, sample, written


def test_a_folder_is_read_in_the_order_in_which_requests_were_due_and_without_warm_ups(tmp_path):
    samples = [sample(due=2.0), sample(due=1.0), sample(due=0.0, warm_up=True)]
    offered = read(written(tmp_path, samples))
    assert [one.due for one in offered.samples] == [1.0, 2.0]
    assert [one.text for one in offered.failed] == ["1,400 ms, over 1,300"]


def test_a_latency_counts_from_when_the_request_was_due_not_from_when_it_was_sent(tmp_path):
    (one,) = read(written(tmp_path, [sample(due=1.0, sent=3.0, first_event=3.1, ended=3.5)])).samples
    assert one.answer_ms == pytest.approx(2500)
    assert one.until_ms("first_event") == pytest.approx(2100)


def test_scenarios_that_only_samples_name_come_after_those_of_the_run(tmp_path):
    offered = read(written(tmp_path, [sample("unplanned")]))
    assert [one.name for one in offered.scenarios()][-1] == "unplanned"


def test_what_a_later_version_adds_is_no_harm(tmp_path):
    offered = read(written(tmp_path, [sample(colour="blue")], weather="rain"))
    assert len(offered.samples) == 1


def _without(folder, name):
    (folder / name).unlink()


def _line(folder, text):
    with (folder / "samples.jsonl").open("a") as file:
        file.write(text)


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda folder: _without(folder, "run.json"), "run.json is missing"),
        (lambda folder: _without(folder, "samples.jsonl"), "samples.jsonl is missing"),
        (lambda folder: (folder / "run.json").write_text("{"), "run.json: Invalid JSON"),
        (lambda folder: (folder / "run.json").write_text(json.dumps(run(schema=2))), "reads schema 1"),
        (lambda folder: (folder / "run.json").write_text("[]"), "run.json: Input should be"),
        (lambda folder: _line(folder, '{"scenario": "x"}\n'), r"samples.jsonl, line 2: due: Field required"),
        (lambda folder: _line(folder, json.dumps(sample())[:40]), r"samples.jsonl, line 2: Invalid JSON"),
        (lambda folder: _line(folder, json.dumps(sample(ended=float("nan")))), r"line 2: "),
        (lambda folder: (folder / "samples.jsonl").write_bytes(b"\xff\xfe"), "samples.jsonl: it cannot be read"),
    ],
)
def test_what_is_wrong_in_a_folder_is_told_in_one_line_that_names_the_place(tmp_path, spoil, says, capsys):
    spoil(written(tmp_path, [sample()]))
    with pytest.raises(BadFolder, match=says) as caught:
        read(tmp_path)
    assert "\n" not in str(caught.value)
    with pytest.raises(SystemExit) as ended:
        main([str(tmp_path)])
    assert ended.value.code == 2
    assert str(caught.value) in capsys.readouterr().err


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(BadFolder, match="there is no such folder"):
        read(tmp_path / "none")


@settings(max_examples=50)
@given(st.dictionaries(st.text(), st.one_of(st.none(), st.floats(), st.text(), st.booleans())))
def test_no_line_breaks_the_reader_but_as_a_bad_folder(tmp_path_factory, line):
    folder = tmp_path_factory.mktemp("run")
    written(folder, [line])
    try:
        (one,) = read(folder).samples or [None]
    except BadFolder:
        return
    assert one is None or isinstance(one, Sample)
