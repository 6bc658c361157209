"""Each image runs as a cluster runs it; all together they answer."""

import time

import httpx2
import pytest

from local import ports
from tests.image.conftest import RUNNING, image
from tests.image.containers import HARDENED, TMP, Mounts, removed, start

# The first test waits for all containers, on a machine that may be busy.
pytestmark = pytest.mark.timeout(900)
_GRACE_SECONDS = 60
_PNG_TEXT = """
import io, json, sys
from PIL import Image, ImageDraw, ImageFont
picture = Image.new("L", (900, 200), 255)
ImageDraw.Draw(picture).text((30, 60), "Contract 2025 penalty", fill=0, font=ImageFont.load_default(64))
out = io.BytesIO()
picture.save(out, "PNG")
sys.stdout.buffer.write(out.getvalue())
"""


@pytest.mark.parametrize("service", RUNNING)
def test_a_container_is_healthy_without_rights(containers, service):
    container = containers.of[service]
    assert container.is_healthy(), container.log()[-2000:]
    status = container.status_in_proc()
    assert status["Uid"].split() == ["65532"] * 4
    assert status["Gid"].split() == ["65532"] * 4
    assert int(status["CapEff"], 16) == 0
    assert status["NoNewPrivs"] == "1"


@pytest.mark.parametrize("service", RUNNING)
def test_the_root_cannot_be_written(containers, service):
    code = (
        "import sys\ntry:\n  open('/app/x', 'w')\nexcept OSError as e:\n  print(e.errno)\nopen('/tmp/x', 'w').close()"
    )
    assert containers.of[service].run("python", "-c", code) in ("13", "30")


@pytest.mark.parametrize("service", RUNNING)
def test_a_log_has_no_complaint_of_the_file_system(containers, service):
    log = containers.of[service].log()
    for complaint in ("Read-only file system", "Permission denied", "is not a writable", "Traceback"):
        assert complaint not in log, log[-3000:]


def test_all_together_answer_the_question_that_needs_documents_and_tables(containers):
    body = {
        "model": "sabueso",
        "messages": [
            {
                "role": "user",
                "content": "How many contracts above 100k€ did we sign in 2025 with EU providers, and which special "
                "conditions recur?",
            }
        ],
    }
    with httpx2.Client(trust_env=False, timeout=120) as client:
        url = f"http://{containers.of['gateway'].address}/v1/chat/completions"
        answer = client.post(url, json=body, headers={"Authorization": f"Bearer {containers.key}"})
    assert answer.status_code == 200, answer.text
    message = answer.json()["choices"][0]["message"]
    assert "47" in message["content"]
    assert {note["type"] for note in message["annotations"]} >= {"file_citation", "sql_citation"}


@pytest.mark.parametrize("service", [*RUNNING, "cli", "loadtests"])
def test_an_image_holds_no_installer_no_compiler_and_no_set_uid_file(engine, service):
    code = """
import importlib.util, os, pathlib, shutil, stat
folders = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"
names = "pip pip3 uv apt apt-get dpkg gcc cc g++ ld make perl bash curl wget git su mount".split()
print([name for name in names if shutil.which(name, path=folders)])
print([name for name in ("pip", "setuptools", "ensurepip", "grpc_tools", "pytest") if importlib.util.find_spec(name)])
found = []
for folder, folders, files in os.walk("/"):
    if folder == "/":
        folders[:] = [name for name in folders if name not in ("proc", "sys", "dev")]
    for name in files:
        mode = os.lstat(os.path.join(folder, name)).st_mode
        if stat.S_ISREG(mode) and mode & 0o6000:
            found.append(name)
print(found)
"""
    said = engine.call("run", "--rm", *HARDENED, *engine.limits, "--entrypoint", "python", image(service), "-c", code)
    # Locust requires pytest: it also runs files of tests.
    of_python = ["pytest"] if service == "loadtests" else []
    assert said.splitlines() == ["[]", str(of_python), "[]"]


@pytest.mark.parametrize("service", [*RUNNING, "cli", "loadtests"])
def test_an_image_says_what_it_is_and_who_runs_it(engine, service):
    labels, user, entry = (
        engine.call("image", "inspect", "--format", form, image(service))
        for form in ("{{json .Config.Labels}}", "{{.Config.User}}", "{{json .Config.Entrypoint}}")
    )
    for label in ("title", "licenses", "version", "revision", "source", "created"):
        assert f"org.opencontainers.image.{label}" in labels
    assert (user, entry) == ("65532:65532", '["python","/app"]')


@pytest.mark.parametrize("service", [*RUNNING, "cli", "loadtests"])
def test_the_history_of_an_image_tells_no_mirror(engine, service):
    history = engine.call("history", "--no-trunc", "--format", "{{.CreatedBy}}", image(service))
    environment = engine.call("image", "inspect", "--format", "{{json .Config.Env}}", image(service))
    for word in ("INDEX_URL=", "http://", "https://", "SSL_CERT_FILE"):
        assert word not in history
        assert word not in environment


def test_a_scanned_page_is_read_in_the_container_of_ingestion(containers):
    code = f"exec({_PNG_TEXT.replace('sys.stdout.buffer.write(out.getvalue())', '')!r}); " + (
        "open('/tmp/p.png', 'wb').write(out.getvalue()); import subprocess;"
        "done = subprocess.run(['tesseract', '/tmp/p.png', '-', '-l', 'spa'], capture_output=True, text=True);"
        "print(done.stdout, done.stderr)"
    )
    assert "2025" in containers.of["ingestion"].run("python", "-c", code)


def test_the_weekly_evaluation_and_the_command_line_find_all_they_import(engine):
    options = ("run", "--rm", *HARDENED, *TMP, *engine.limits)
    weekly = (
        "--entrypoint",
        "python",
        image("evaluation"),
        "-c",
        "from services.cli.evals import app; app()",
        "--help",
    )
    assert "run" in engine.call(*options, *weekly)
    assert "doctor" in engine.call(*options, image("cli"), "--help")
    assert "--rate" in engine.call(*options, image("loadtests"), "slo", "--help")


@pytest.mark.parametrize("service", ["understudy", "embedding"])
def test_any_other_user_does_as_well(engine, service):
    port = ports.pick(1, ports.random_start())[0]
    environment = {"SABUESO_IDENTITY_SECRET": "x" * 32, "SABUESO_METRICS_PORT": "0"}
    with removed(engine) as started:
        container = start(engine, image(service), service, port, environment, Mounts(), user="1000660000:0")
        started.append(container)
        container.wait_until_healthy()
        assert container.status_in_proc()["Uid"].split()[0] == "1000660000"


# The last ones: they stop what the others use.


def test_a_container_that_is_told_to_stop_while_it_starts_stops(engine, containers):
    name = containers.of["embedding"].name + "-early"
    command = ("run", "--detach", "--name", name, *HARDENED, *TMP, *engine.limits)
    engine.call(*command, "--env", f"SABUESO_IDENTITY_SECRET={'x' * 32}", "--env", "SABUESO_PORT=1", image("embedding"))
    try:
        time.sleep(0.3)
        engine.call("stop", "--time", str(_GRACE_SECONDS), name, seconds=2 * _GRACE_SECONDS)
        assert engine.call("inspect", "--format", "{{.State.ExitCode}}", name) != "137"
    finally:
        engine.call("rm", "--force", name)


@pytest.mark.parametrize("service", RUNNING)
def test_sigterm_ends_a_container_within_its_grace(containers, service):
    container = containers.of[service]
    container.stop(_GRACE_SECONDS)
    # 137 is SIGKILL: the grace was over.
    assert container.state()["ExitCode"] == 0, container.log()[-3000:]
