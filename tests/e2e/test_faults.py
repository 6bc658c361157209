"""What happens when parts of the stack are lost, and when a person starts and stops it in unlucky moments."""

import contextlib
import os
import re
import signal
import socket
import threading
import time

import httpx2
import psutil
import pytest

from local import ports
from tests.e2e.conftest import fresh_home, read_env, run_stack
from tests.e2e.test_answers import EN, ask

# A stack of their own, killed and started again and again.
pytestmark = pytest.mark.slow


def wait_until(what, seconds=20):
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.1)


def processes_of(home):
    """Whatever names the stack's folder in its command line or works in it."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if str(home) in " ".join([process.cwd(), *process.cmdline()]):
                found.append(process.name())
    return found


def cache_mode(service):
    """A cached result would hide that a tool is lost; the cache is only asked where it may be used."""
    return "use" if service == "tool_cache" else "refresh"


def question_for(service):
    """One that needs the service."""
    return "What is the price of copper today?" if service == "web_tool" else EN


def summary_of(stack, question=EN):
    return ask(stack, question, cache="off", deadline_ms=15_000).model_extra["sabueso"]


@pytest.mark.parametrize("service", ["sql_tool", "tool_cache", "web_tool"])
def test_a_lost_service_is_named_and_used_again_when_it_is_back(stack, service):
    question = question_for(service)
    stack.control("stop", service)
    try:
        started = time.monotonic()
        lost = ask(stack, question, cache=cache_mode(service)).model_extra["sabueso"]
        assert time.monotonic() - started < 40
    finally:
        stack.control("start", service)
    assert service in {entry["service"] for entry in lost["degraded"]}

    def is_whole():
        return not ask(stack, question, cache="use").model_extra["sabueso"]["degraded"]

    wait_until(is_whole)


@pytest.mark.parametrize("service", ["sql_tool", "tool_cache"])
def test_a_service_that_hangs_holds_nobody_up(stack, service):
    process = psutil.Process(stack.pid(service))
    process.suspend()
    try:
        started = time.monotonic()
        answer = ask(stack, EN, cache=cache_mode(service), deadline_ms=12_000)
        assert time.monotonic() - started < 30
        assert service in {entry["service"] for entry in answer.model_extra["sabueso"]["degraded"]}
    finally:
        process.resume()
    wait_until(lambda: not ask(stack, EN).model_extra["sabueso"]["degraded"])


@pytest.mark.parametrize("service", ["sql_tool", "tool_cache", "web_tool"])
def test_a_service_killed_in_mid_answer_is_named(stack, service):
    """Paused first, so that the kill surely hits it while the answer waits for it."""
    pid = stack.pid(service)
    process = psutil.Process(pid)
    process.suspend()
    killing = threading.Timer(0.3, process.kill)
    killing.start()
    started = time.monotonic()
    answer = ask(stack, question_for(service), cache=cache_mode(service), deadline_ms=15_000)
    killing.join()
    assert time.monotonic() - started < 30
    summary = answer.model_extra["sabueso"]
    assert service in {entry["service"] for entry in summary["degraded"]}
    assert answer.choices[0].message.content
    wait_until(lambda: stack.pid(service) not in (0, pid))
    wait_until(lambda: not ask(stack, question_for(service)).model_extra["sabueso"]["degraded"])


def test_answers_need_no_reranking_service(stack):
    """The store holds the token vectors and computes late interaction itself; texts from outside go to the service."""
    headers = {"authorization": f"Bearer {stack.env['SABUESO_API_KEY']}"}
    texts = {"query": "late delivery", "documents": ["The weather is fine", "Late delivery costs 2 % a month"]}
    stack.control("stop", "reranking")
    try:
        summary = summary_of(stack)
        assert (summary["finish"], summary["degraded"]) == ("answered", [])
        refused = httpx2.post(f"{stack.url}/v1/rerank", json=texts, headers=headers, timeout=20)
        assert refused.status_code == 503
    finally:
        stack.control("start", "reranking")

    def ranked():
        return httpx2.post(f"{stack.url}/v1/rerank", json=texts, headers=headers, timeout=20)

    wait_until(lambda: ranked().status_code == 200)
    assert ranked().json()["results"][0]["index"] == 1


def test_a_killed_service_comes_back_by_itself(stack):
    before = stack.pid("sql_tool")
    os.kill(before, signal.SIGKILL)
    wait_until(lambda: stack.pid("sql_tool") not in (0, before))
    wait_until(lambda: summary_of(stack)["finish"] == "answered")


def test_logs_hold_no_secret_and_no_text(stack):
    ask(stack, "¿Cuántos contratos firmamos en 2025 sobre zanahorias moradas?")
    secrets = [value for name, value in stack.env.items() if name.endswith("KEY")]
    secrets.append((stack.home / "identity-secret").read_text())
    for log in (stack.home / "logs").glob("*.log"):
        text = log.read_text(errors="replace")
        for secret in secrets:
            assert secret not in text, log.name
        if log.name != "postgres.log":
            assert "zanahorias" not in text, log.name
            assert not re.search(r"SELECT .* FROM", text), log.name


def test_a_taken_port_is_named_with_who_has_it(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = run_stack(fresh_home(tmp_path), "up", "--detach", "--port", str(port))
    assert done.returncode == 1
    assert f"Port {port} is taken" in done.stderr
    assert "make up PORT=" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_second_up_says_that_it_runs(stack):
    done = run_stack(stack.home, "up", "--detach")
    assert done.returncode == 1
    assert stack.url in done.stderr


@pytest.mark.timeout(300)
def test_after_a_killed_run_the_next_one_works(tmp_path):
    home = fresh_home(tmp_path)
    port = ports.pick(1, ports.random_start())[0]

    def kill_in_the_middle():
        wait_until(lambda: (home / "supervisord.pid").exists(), 60)
        time.sleep(1)
        os.kill(int((home / "supervisord.pid").read_text()), signal.SIGKILL)

    thread = threading.Thread(target=kill_in_the_middle)
    thread.start()
    run_stack(home, "up", "--detach", "--port", str(port))
    thread.join()
    try:
        again = run_stack(home, "up", "--detach", "--port", str(port))
        assert again.returncode == 0, again.stdout + again.stderr
        assert httpx2.get(f"{read_env(home)['SABUESO_URL']}/readyz", trust_env=False).status_code == 200
    finally:
        tail = run_stack(home, "down")
    assert tail.returncode == 0
    assert processes_of(home) == [], "something is left running"
