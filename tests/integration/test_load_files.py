"""Load files under Locust against a small server: exit statuses, the table, the kept run, several processes."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager

import pytest
import yaml

from loadtests.offering.samples import sample_of
from local import ports
from tests.integration.crooked_server import TRUTH, crooked_server

_SECONDS = 100


@pytest.fixture(scope="module")
def server():
    with crooked_server() as running:
        yield running


@pytest.fixture(scope="module")
def words(tmp_path_factory):
    """Files of a plan with a scenario a word of the crooked server, and of their questions."""
    folder = tmp_path_factory.mktemp("plan")
    names = ("fine", "slow", "wrong", "full")
    scenarios = [
        {"name": name, "questions": [name], "arrivals_per_second": 10, "turns": 2, "p95_ms": {"answer": 60_000}}
        for name in names
    ]
    mix, of = {"seconds": 2, "per_second": 5}, {"scenarios": ["fine"]}
    windows = {"before_seconds": 1, "spike_seconds": 1, "recovers_within_seconds": 1, "after_seconds": 1}
    plan = {
        "profile": "instant", "seconds": 1, "scenarios": scenarios, "mixed": mix, "soak": mix, "smoke_seconds": 2,
        "spike": {**of, "per_second": 10, **windows}, "ingest": {**of, "seconds": 1},
    }  # fmt: skip
    (folder / "plan.yaml").write_text(yaml.safe_dump(plan))
    questions = [{"id": name, "question": f"{name} cuántos", "contains": [[TRUTH]]} for name in names]
    (folder / "questions.yaml").write_text(yaml.safe_dump(questions))
    return ["--plan", str(folder / "plan.yaml"), "--questions", str(folder / "questions.yaml"), "--no-report"]


@contextmanager
def started(server, file, *arguments):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SABUESO_")}
    environment |= {"SABUESO_URL": server.url, "SABUESO_API_KEY": "k"}
    command = [sys.executable, "-m", f"loadtests.{file}", *arguments]
    process = subprocess.Popen(
        command,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # A shell lets what it starts in the background ignore it, and all that is started from there.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def ended(process):
    output, errors = process.communicate(timeout=_SECONDS)
    return process.returncode, output, errors


def run(server, file, *arguments):
    with started(server, file, *arguments) as process:
        return ended(process)


@pytest.mark.slow
def test_a_broken_budget_is_exit_status_1_and_named_in_the_table(server, words, tmp_path):
    status, output, errors = run(server, "smoke", *words, "--out", str(tmp_path / "run"))
    assert status == 1, errors
    lines = output.splitlines()
    wrong = [line for line in lines if line.startswith("✗")]
    assert wrong == [
        "✗ wrong: 2 of 2 failed: wrong: the answer does not say sesenta",
        "✗ full: 2 of 2 were refused (full_code)",
    ]
    assert [line.split()[0] for line in lines[1:5]] == ["fine", "slow", "wrong", "full"]
    told = json.loads((tmp_path / "run" / "run.json").read_text())
    assert [one["scenario"] for one in told["verdict"] if one["failed"]] == ["wrong", "full"]
    assert (told["file"], told["url"], told["workers"]) == ("smoke", server.url, 1)
    samples = [sample_of(json.loads(line)) for line in (tmp_path / "run" / "samples.jsonl").read_text().splitlines()]
    assert {(one.scenario, one.refused, bool(one.problem)) for one in samples} == {
        ("fine", False, False), ("slow", False, False), ("wrong", False, True), ("full", True, False),
    }  # fmt: skip


@pytest.mark.slow
def test_a_plan_with_a_fault_is_exit_status_2_and_offers_nothing(server, tmp_path):
    (tmp_path / "plan.yaml").write_text("profile: instant\n")
    before = sum(server.asked.values())
    status, _, errors = run(server, "slo", "--plan", str(tmp_path / "plan.yaml"))
    assert status == 2
    assert "plan.yaml: scenarios: is missing; add it" in errors
    assert sum(server.asked.values()) == before


@pytest.mark.slow
@pytest.mark.parametrize(("file", "count"), [("slo", 2), ("spike", 4), ("ingest", 2), ("soak", 1)])
def test_every_file_offers_its_windows(server, words, tmp_path, file, count):
    status, output, errors = run(server, file, *words, "--only", "fine", "--out", str(tmp_path / "run"))
    told = json.loads((tmp_path / "run" / "run.json").read_text())
    assert len(told["scenarios"]) == count, output
    assert status == 0, output + errors
    assert bool(told["documents"].get("ready")) == (file == "ingest")


@pytest.mark.slow
def test_an_interrupted_run_is_kept_and_is_exit_status_130(server, words, tmp_path):
    arguments = ("--only", "fine", "--seconds", "60", "--out", str(tmp_path / "run"))
    with started(server, "slo", *words, *arguments) as process:
        before = server.asked["fine"]
        _until(lambda: server.asked["fine"] > before + 5)
        os.killpg(process.pid, signal.SIGINT)
        status, _, errors = ended(process)
    assert status == 130, errors
    assert (tmp_path / "run" / "samples.jsonl").read_text().count("\n") > 5


@pytest.mark.slow
@pytest.mark.parametrize(("only", "status"), [("fine", 0), ("wrong", 1)])
def test_the_master_judges_what_all_workers_offered(server, words, tmp_path, only, status):
    (master, *workers), outputs = _distributed(server, words, tmp_path, only, "2")
    assert master == status, outputs
    assert workers == [0, 0], outputs
    told = json.loads((tmp_path / "run" / "run.json").read_text())
    assert told["workers"] == 2
    planned = [one for one in told["verdict"] if one["what"] == "planned rate"]
    assert planned[0]["text"].startswith("100.0%")


@pytest.mark.slow
def test_a_worker_that_is_lost_fails_the_run(server, words, tmp_path):
    def kill_one(workers):
        before = server.asked["fine"]
        _until(lambda: server.asked["fine"] > before + 5)
        os.killpg(workers[0].pid, signal.SIGKILL)

    (master, killed, other), outputs = _distributed(server, words, tmp_path, "fine", "12", kill_one)
    assert (master, killed < 0, other) == (1, True, 0), outputs
    assert "was lost before it offered its share" in outputs[0][1]


def _distributed(server, words, tmp_path, only, seconds, meanwhile=lambda workers: None):
    [port] = ports.pick(1, ports.random_start())
    own = ("--only", only, "--seconds", seconds, "--out", str(tmp_path / "run"))
    leads = ("--master", "--expect-workers", "2", "--master-bind-host", "127.0.0.1", "--master-bind-port", str(port))
    follows = ("--worker", "--master-host", "127.0.0.1", "--master-port", str(port))
    with ExitStack() as stack:
        master = stack.enter_context(started(server, "slo", *words, *own, *leads))
        workers = [stack.enter_context(started(server, "slo", *follows)) for _ in range(2)]
        meanwhile(workers)
        outputs = [ended(one) for one in (master, *workers)]
    return [status for status, _, _ in outputs], outputs


def _until(true):
    end = time.monotonic() + 60
    while not true():
        assert time.monotonic() < end
        time.sleep(0.05)
