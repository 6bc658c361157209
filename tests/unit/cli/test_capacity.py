"""`sabueso capacity`: the formulas against known values, against a simulation, and against the page that shows them."""

import json
import math
import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from services.cli.capacity.planning import MODEL, PREFILL, Installation, needed
from services.cli.capacity.profiles import CORES, MIX, POOLS, QUESTIONS
from services.cli.capacity.queues import erlang_c, waiting_seconds
from services.cli.capacity.simulation import exponential, simulate
from services.cli.main import app

PAGE = Path("docs/capacity.md").read_text()
POOL_PAGE = Path("charts/vllm/README.md").read_text()


def plan(profile="h100-tp4", **changed):
    replicas = dict.fromkeys(CORES, 2)
    return replace(Installation(POOLS[profile], 1, replicas, MIX, 30, 4296), **changed)


# Values of the usual tables of Erlang's C formula.
@pytest.mark.parametrize(
    ("servers", "load", "expected"), [(1, 0.5, 0.5), (2, 1.0, 1 / 3), (10, 7.0, 0.2217), (50, 40.0, 0.0870)]
)
def test_the_chance_to_wait_is_that_of_the_tables(servers, load, expected):
    assert erlang_c(servers, load) == pytest.approx(expected, rel=0.01)


def test_one_server_waits_as_long_as_the_textbook_says():
    assert waiting_seconds(1, 5.0, 0.1) == pytest.approx(0.1)  # 0.5 / (1 - 0.5) * 0.1
    assert waiting_seconds(1, 10.0, 0.1) == math.inf


@settings(max_examples=25)
@given(st.integers(1, 500), st.floats(0.001, 0.999), st.integers(1, 50))
def test_more_servers_for_the_same_work_never_wait_longer(servers, busy, more):
    load = servers * busy
    assert 0 <= erlang_c(servers + more, load) <= erlang_c(servers, load) + 1e-12 <= 1 + 1e-12


def test_people_answers_and_times_obey_littles_law():
    one = plan()
    rate = one.answers_per_second(100)
    assert rate * (one.answer_seconds(rate) + one.pause_seconds) == pytest.approx(100, rel=1e-6)


@settings(max_examples=25)
@given(users=st.integers(1, 400), more=st.integers(1, 100))
def test_more_people_get_more_answers_and_wait_longer(users, more):
    one = plan()
    few, many = one.answers_per_second(users), one.answers_per_second(users + more)
    assert few <= many <= one.most_per_second()
    assert one.answer_seconds(few) <= one.answer_seconds(many)


@pytest.mark.parametrize("profile", list(POOLS))
@pytest.mark.parametrize("share", [0.3, 0.7])
def test_the_formulas_agree_with_a_simulation_of_the_same_people(profile, share):
    one = plan(profile)
    users = round(one.users(0.7) * share / 0.7)
    simulated = simulate(one, users, answers=6000, spread=exponential)
    rate = one.answers_per_second(users)
    assert simulated.answers_per_second == pytest.approx(rate, rel=0.05)
    assert simulated.mean == pytest.approx(one.answer_seconds(rate), rel=0.15)
    places = one.stations[-1]
    assert places.name == MODEL
    assert simulated.at_model == pytest.approx(rate * places.demand, rel=0.08)


def test_work_that_is_mostly_alike_waits_less_than_the_formulas_say():
    one = plan()
    users = one.users(0.8)
    assert simulate(one, users, answers=6000).mean < one.answer_seconds(one.answers_per_second(users))


def test_the_replicas_that_are_needed_keep_everything_below_the_ceiling():
    one = plan()
    wanted = needed(one, 1000, 0.7)
    pools = max(wanted.pop(PREFILL), wanted.pop(MODEL))
    assert plan(pool_replicas=pools, replicas=wanted).users(0.75) >= 1000
    assert plan(pool_replicas=pools - 1, replicas=wanted).users(0.7) < 1000


def test_a_better_cached_prompt_serves_more_people_and_a_longer_one_takes_more_room():
    assert plan(uncached=0.25).users(0.7) > 1.5 * plan(uncached=0.5).users(0.7)
    assert POOLS["h100-tp4"].slots(4096) == 128
    assert POOLS["h100-tp4"].slots(16384) == 40
    assert POOLS["h100-tp2"].slots(16384) == 13


def test_every_kind_of_question_names_only_services_that_are_known():
    assert abs(sum(MIX.values()) - 1) < 1e-9
    assert MIX.keys() <= QUESTIONS.keys()
    for question in QUESTIONS.values():
        assert question.cpu_seconds.keys() <= CORES.keys()


@pytest.mark.parametrize("profile", list(POOLS))
def test_room_for_sequences_is_that_of_the_pools_page(profile):
    pool = POOLS[profile]
    row = rf"70B FP8, {pool.gpus} × H100 \| {pool.kv_tokens:,} .*\| {pool.most_sequences} \|"
    assert re.search(row, POOL_PAGE), row


def call(*words):
    return CliRunner().invoke(app, ["capacity", *words])


# The commands of the page, each with the numbers that follow it.
EXAMPLES = re.findall(r"^\$ sabueso capacity(.*)\n((?:(?!\$ |```).*\n)+)", PAGE, re.MULTILINE)


@pytest.mark.parametrize(("words", "shown"), EXAMPLES, ids=[words or "plain" for words, _ in EXAMPLES])
def test_the_page_shows_what_the_command_says(words, shown):
    done = call(*words.split())
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    for line in shown.splitlines():
        assert " ".join(line.split()) in lines, done.stdout


def test_the_page_has_examples():
    assert len(EXAMPLES) >= 2


@pytest.mark.parametrize("kind", [kind for kind in QUESTIONS])
def test_the_page_has_the_costs_of_each_kind(kind):
    costs = QUESTIONS[kind].cpu_seconds
    columns = ["gateway", "orchestrator", "embedding", "retrieval", "sql_tool", "web_tool"]
    cells = [f"{1000 * costs[name]:.0f}" if name in costs else "" for name in columns]
    row = re.escape(f"| `{kind}` | {QUESTIONS[kind].turns} | ") + r"[^|]* \| " + re.escape(" | ".join(cells))
    assert re.search(row, PAGE), (kind, cells)


def test_scripts_read_json_and_a_picture_is_drawn(tmp_path):
    words = ["--users", "60", "--replicas", "gateway=3", "--mix", "rag=1", "--plot", str(tmp_path / "p.svg"), "--json"]
    told = json.loads(call(*words).stdout)
    assert told["users"] == 60
    assert next(one["servers"] for one in told["stations"] if one["name"] == "gateway") == 3
    assert told["answer_seconds"]["simulated_p95"] > told["answer_seconds"]["without_waiting"]
    assert (tmp_path / "p.svg").read_text().startswith("<?xml")


def test_too_many_people_are_told_what_is_full_and_what_they_need():
    done = call("--users", "5000")
    assert "5000 people are too many: prefill cannot keep up." in done.stdout
    assert re.search(r"For 5000: \d+ replicas of the model", done.stdout)


@pytest.mark.parametrize(
    "words",
    [
        ["--profile", "a100"],
        ["--replicas", "gatway=2"],
        ["--replicas", "gateway=two"],
        ["--mix", "rag=-1"],
        ["--mix", "rag=0"],
    ],
)
def test_a_wrong_word_is_refused_with_status_2(words):
    assert call(*words).exit_code == 2
