"""`sabueso evals build` and the commands after it, against servers on loopback."""

import asyncio
import json
import shutil
import signal
import subprocess
import sys
import threading

import pytest
from typer.testing import CliRunner

from services.cli.evals_sets import app
from services.evaluation.golden import lock, sets
from services.evaluation.golden.item import Stratum
from services.evaluation.golden.split import check_apart
from services.understudy.config import Settings
from services.understudy.server import build as build_understudy
from services.understudy.server import listen
from tests.integration.writing_model import WritingServer

SUBJECTS = ["hotels", "pensions", "forklifts", "invoices", "gardens", "lifts", "keys", "badges", "samples", "parking"]


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    """Ten documents in two languages; each has a partner in its language that names the same form and archive."""
    texts = tmp_path_factory.mktemp("texts")
    for place, subject in enumerate(SUBJECTS):
        folder = texts / ("es" if place % 2 else "en")
        folder.mkdir(parents=True, exist_ok=True)
        form = f"FORM-{place // 4}{place % 2} of ARCHIVE-{place // 4}{place % 2}"
        rule = (
            f"Rule {place} on {subject} sets a limit of {place * 7 + 11} units. It is written in {form} and kept there."
            if place % 4 < 2
            else f"Whoever needs {subject} asks for {place * 7 + 11} pieces. Requests go by {form}, never by telephone."
        )
        rest = f"The office for {subject} answers letters about number {place}{place} within some days. " * 2
        (folder / f"{subject}.md").write_text(f"# On {subject}\n\n{rule}\n\n## Letters\n\n{rest}\n", encoding="utf-8")
    return texts


@pytest.fixture(scope="module")
def built(tmp_path_factory, texts):
    """A whole set, and what came of building it."""
    folder = tmp_path_factory.mktemp("built") / "set"
    with WritingServer() as model:
        done = evals(*words(folder, texts, model.url, "--review-share", "0.3"))
    assert done.exit_code == 0, done.output
    return folder


@pytest.fixture
def folder(tmp_path, built):
    """A copy of it to work on."""
    return shutil.copytree(built, tmp_path / "set")


def words(folder, texts, url, *more):
    return [
        "build",
        str(folder),
        "--texts",
        str(texts),
        "--model",
        "m",
        "--model-url",
        url,
        "--least-characters",
        "60",
        *more,
    ]


def evals(*words):
    return CliRunner().invoke(app, [str(one) for one in words])


def test_a_set_is_written_checked_parted_and_drawn_for_review(folder):
    dev, test = (sets.read_half(folder, half).items for half in sets.HALVES)
    assert {one.stratum for one in (*dev, *test)} == {
        Stratum.SINGLE_HOP,
        Stratum.MULTI_HOP,
        Stratum.FALSE_PREMISE,
        Stratum.UNANSWERABLE,
    }
    assert min(len(dev), len(test)) >= 5
    check_apart([*dev, *test])
    assert {one.language for one in dev} | {one.language for one in test} == {"es", "en"}
    assert all(one.provenance.startswith("m, prompts ") for one in dev)
    queue = json.loads(evals("review", folder, "--json").stdout)
    assert len(queue["open"]) == round(0.3 * len((*dev, *test)))
    assert all(one["passages"] for one in queue["open"])
    report = (folder / "build-report.md").read_text(encoding="utf-8")
    assert f"{len(dev) + len(test)} taken" in report
    assert evals("check", folder).exit_code == 0


def test_building_again_asks_for_nothing_and_writes_the_same(folder, texts):
    before = (folder / "dev.jsonl").read_bytes()
    with WritingServer() as model:
        again = evals(*words(folder, texts, model.url))
        assert (again.exit_code, model.asked) == (0, [])
    assert (folder / "dev.jsonl").read_bytes() == before


# What runs in the background of a shell without job control is started deaf to Ctrl-C.
INTERRUPTIBLE = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from services.cli.evals_sets import app
app()
"""


@pytest.mark.slow
def test_a_build_that_is_stopped_goes_on_where_it_was(tmp_path, texts):
    folder = tmp_path / "set"
    with WritingServer(most=20) as model:
        command = [sys.executable, "-c", INTERRUPTIBLE]
        with subprocess.Popen(
            [*command, *words(folder, texts, model.url)], stderr=subprocess.PIPE, text=True
        ) as process:
            try:
                assert model.holding.wait(60)
                process.send_signal(signal.SIGINT)
                _, said = process.communicate(timeout=60)
            finally:
                process.kill()
        assert process.returncode == 130, said
        assert "the same command goes on" in said
        done = (folder / "build.journal.jsonl").read_text(encoding="utf-8").count("\n")
        assert done
        assert not (folder / "dev.jsonl").exists()
        model.most = None
        model.go_on.set()
        first = [one for one in model.asked if one[0] == "questions"]
        rest = evals(*words(folder, texts, model.url))
        assert rest.exit_code == 0, rest.output
        assert f"({done} of an earlier run)" in " ".join(rest.output.split())
        second = [one for one in model.asked if one[0] == "questions"][len(first) :]
    # Only what was under way is asked for twice.
    assert len(set(first) & set(second)) <= 4
    assert len({*first, *second}) == 20


def test_over_budget_what_there_is_is_written_and_a_larger_budget_goes_on(tmp_path, texts):
    folder = tmp_path / "set"
    with WritingServer() as model:
        short = evals(*words(folder, texts, model.url, "--max-calls", "30"))
        assert (short.exit_code, len(model.asked)) == (2, 30)
        assert "budget was used up" in short.output
        few = len(sets.read(folder).items)
        whole = evals(*words(folder, texts, model.url))
    assert whole.exit_code == 0
    assert len(sets.read(folder).items) > few


def test_a_step_that_the_model_fails_is_tried_again_by_the_next_build(tmp_path, texts):
    folder = tmp_path / "set"
    with WritingServer() as model:
        model.failing = True
        failed = evals(*words(folder, texts, model.url, "--chunks", "2"))
        assert (failed.exit_code, "steps failed" in failed.output) == (2, True), failed.output
        assert sets.read(folder).items == ()
        model.failing = False
        assert evals(*words(folder, texts, model.url, "--chunks", "2")).exit_code == 0
    assert sets.read(folder).items


def page(*data, after=None):
    return 200, {"data": list(data), "has_more": bool(after), "after": after}


def test_passages_and_model_come_from_the_gateway_unless_others_are_named(tmp_path):
    def document(name, **more):
        return {"document_id": name, "collection": "policies", "status": "ready", "language": "es"} | more

    def passage(name, number):
        text = f"Norma {number} de {name}: el plazo de entrega es de {number} semanas. Lo demás se acuerda por escrito."
        return {
            "document_id": name,
            "text": text,
            "title": name,
            "section": "Plazos",
            "language": "es",
            "collection": "p",
        }

    with WritingServer() as gateway:
        gateway.pages = {
            "/v1/models": (200, {"data": [{"id": "sabueso"}, {"id": "llama"}]}),
            "/v1/documents?limit=1000&after=": page(document("a/1"), document("failed", status="failed"), after="x"),
            "/v1/documents?limit=1000&after=x": page(document("b"), document("c", collection="others")),
            "/v1/documents/a%2F1/chunks?after=": page(passage("a/1", 3), after="y"),
            "/v1/documents/a%2F1/chunks?after=y": page(passage("a/1", 5)),
            "/v1/documents/b/chunks?after=": page(passage("b", 8)),
        }
        environment = {"SABUESO_URL": gateway.url.removesuffix("/v1"), "SABUESO_API_KEY": "sk-test"}
        command = ["build", str(tmp_path / "set"), "--collection", "policies", "--least-characters", "20"]
        done = CliRunner().invoke(app, command, env=environment)
    assert done.exit_code == 0, done.output
    found = [one for half in sets.HALVES for one in sets.read_half(tmp_path / "set", half).items]
    assert {source for one in found for source in one.sources} == {"a/1", "b"}
    assert {one.provenance.partition(",")[0] for one in found} == {"llama"}


def test_review_accepts_edits_and_rejects_on_the_terminal(folder, texts):
    queue = [one["id"] for one in json.loads(evals("review", folder, "--json").stdout)["open"]]
    short = CliRunner().invoke(app, ["review", str(folder), "--limit", "1"], input="x\ns\n")
    # Two questions about the only item: `x` means nothing.
    assert (short.exit_code, short.output.count("Verdict"), len(queue) > 1) == (0, 2, True)
    none = CliRunner().invoke(app, ["review", str(folder), "--language", "pt"])
    assert (none.exit_code, f"{len(queue)} open" in none.output) == (0, True)
    keys = "m\na\ne\nBetter?\nYes.\nr\ntrivial\ns\nq\n"
    done = CliRunner().invoke(app, ["review", str(folder), "--reviewer", "Ana"], input=keys)
    assert done.exit_code == 0, done.output
    assert "1 accepted, 1 edited, 1 rejected" in done.output
    facts = json.loads(evals("review", folder, "--json").stdout)
    assert [(one["id"], one["verdict"]) for one in facts["verdicts"]] == list(
        zip(queue[:3], ["accepted", "edited", "rejected"], strict=True)
    )
    found = {one.id: one for half in sets.HALVES for one in sets.read_half(folder, half).items}
    assert found[queue[0]].reviewer == "Ana"
    assert (found[queue[1]].question, found[queue[1]].reference) == ("Better?", "Yes.")
    assert queue[2] not in found
    refused = evals("review", folder, "--reviewer", "Ana", "--reject", queue[3])
    assert (refused.exit_code, "has a reason" in refused.output) == (1, True)
    assert evals("review", folder, "--reviewer", "Ana", "--accept", queue[3]).exit_code == 0
    again = evals(*words(folder, texts, "http://127.0.0.1:1/v1"))
    assert (again.exit_code, "reviewed items" in again.output) == (1, True)


def test_lock_and_check_tell_of_readings_and_of_changes(folder):
    assert evals("lock", folder).exit_code == 0
    lock.open_test(folder, lock.Reading("release 1.0", "Ana"))
    told = json.loads(evals("lock", folder, "--json").stdout)
    assert [one["reason"] for one in told["readings"]] == ["release 1.0"]
    assert evals("check", folder).exit_code == 0
    with (folder / "test.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"id":"x","question":"?","language":"en","stratum":"no_tool","split":"test"}\n')
    broken = evals("check", folder, "--json")
    assert broken.exit_code == 1
    assert "not what was frozen" in json.loads(broken.stdout)["sets"][0]["complaint"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--pairs", "200"], "200 pairs show"),
        ([], "discordant"),
        (["--json"], '"pairs_needed": 626'),
    ],
)
def test_power_says_how_many_pairs_show_what(words, said):
    done = evals("power", *words)
    assert (done.exit_code, said in done.output) == (0, True), done.output


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["power", "--difference", "0.5", "--discordant", "0.2"], "discordant share"),
        (["lock", "/nowhere"], "set.yaml"),
        (["review", "/nowhere"], "set.yaml"),
        (["build", "/tmp/x", "--texts", "/nowhere", "--model-url", "http://127.0.0.1:1/v1"], "no passages"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line(words, said):
    done = evals(*words)
    assert done.exit_code == 1
    assert said in done.output


class ServedUnderstudy:
    """The understudy on loopback, in a thread of its own."""

    def __enter__(self):
        settings = Settings(host="127.0.0.1", port=0)
        self._server = build_understudy(settings)
        self._listener = listen(settings)
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}/v1"
        self.name = settings.model_name
        self._thread = threading.Thread(target=lambda: asyncio.run(self._server.serve(sockets=[self._listener])))
        self._thread.start()
        return self

    def __exit__(self, *raised):
        self._server.should_exit = True
        self._thread.join()
        self._listener.close()


def test_the_understudy_runs_through_and_its_questions_are_rejected_rather_than_taken(tmp_path, texts):
    with ServedUnderstudy() as model:
        done = evals(*words(tmp_path / "set", texts, model.url, "--chunks", "6", "--model", model.name))
    assert done.exit_code == 0, done.output
    assert "steps failed" not in done.output
    assert sets.read(tmp_path / "set").items == ()
