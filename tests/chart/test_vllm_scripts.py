"""The scripts that charts/vllm ships, run: files that arrive whole or not at all, and the question of `helm test`."""

import asyncio
import contextlib
import hashlib
import subprocess
import sys
from pathlib import Path

import pytest
import uvicorn

from services.understudy.app import build_app
from services.understudy.config import Settings

PREFETCH = Path("charts/vllm/files/prefetch.sh").resolve()
ASK = Path("charts/vllm/files/ask.py").resolve()
FILES = {"config.json": "{}", "weights/a b.safetensors": "weights"}
# Stands in for the hub's client: writes the files that its folder `hub` has, and what it was asked.
HUB = """#!/bin/sh
echo "$@" >> {folder}/asked
while [ "$1" != --local-dir ]; do shift; done
mkdir -p "$2/.cache" && cp -rn {folder}/hub/. "$2"
"""


@pytest.fixture
def hub(tmp_path):
    for name, content in {**FILES, "README.md": "not asked for"}.items():
        (tmp_path / "hub" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "hub" / name).write_text(content)
    (tmp_path / "hf").write_text(HUB.format(folder=tmp_path))
    (tmp_path / "hf").chmod(0o755)
    sums = [f"{hashlib.sha256(content.encode()).hexdigest()}  {name}" for name, content in FILES.items()]
    (tmp_path / "SHA256SUMS").write_text("\n".join(sums) + "\n")
    (tmp_path / "models").mkdir()
    return tmp_path


def prefetch(hub, *patterns, wish="one"):
    environment = {
        "PATH": f"{hub}:/usr/bin:/bin",
        "FOLDER": str(hub / "models/llama"),
        "REPOSITORY": "example/llama",
        "REVISION": "abc",
        "SUMS": str(hub / "SHA256SUMS"),
        "WISH": wish,
    }
    command = ["/bin/sh", str(PREFETCH), *patterns]
    return subprocess.run(command, env=environment, check=False, capture_output=True, text=True, timeout=60)


def names_in(folder):
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_verified_files_and_only_those_get_the_folder_s_name(hub):
    done = prefetch(hub, "original/*", "*.pth")
    assert done.returncode == 0, done.stderr
    assert [path.name for path in (hub / "models").iterdir()] == ["llama"]
    assert names_in(hub / "models/llama") == {*FILES, ".verified"}
    asked = (hub / "asked").read_text()
    assert asked.startswith("download example/llama --revision abc --local-dir ")
    assert asked.rstrip().endswith("--exclude original/* --exclude *.pth")


def test_a_second_run_fetches_nothing(hub):
    assert prefetch(hub).returncode == 0
    assert prefetch(hub).returncode == 0
    assert len((hub / "asked").read_text().splitlines()) == 1


def test_a_wrong_file_is_never_served_and_only_it_is_fetched_again(hub):
    right = (hub / "hub/config.json").read_text()
    (hub / "hub/config.json").write_text("broken")
    done = prefetch(hub)
    assert done.returncode == 1
    assert "config.json is not what its checksum says" in done.stderr
    (part,) = (hub / "models").iterdir()
    assert part.name != "llama"
    assert "config.json" not in names_in(part)
    assert "weights/a b.safetensors" in names_in(part)
    (hub / "hub/config.json").write_text(right)
    assert prefetch(hub).returncode == 0
    assert names_in(hub / "models/llama") == {*FILES, ".verified"}


def test_a_missing_file_is_a_failure(hub):
    (hub / "hub/config.json").unlink()
    assert prefetch(hub).returncode != 0
    assert not (hub / "models/llama").exists()


def test_another_wish_does_not_touch_what_is_served(hub):
    assert prefetch(hub).returncode == 0
    done = prefetch(hub, wish="two")
    assert done.returncode == 1
    assert "name another model.path" in done.stderr
    assert (hub / "models/llama/.verified").read_text() == "one"


@contextlib.asynccontextmanager
async def model_server(name):
    server = uvicorn.Server(uvicorn.Config(build_app(Settings(model_name=name)), port=0, log_level="error"))
    task = asyncio.create_task(server.serve())
    try:
        async with asyncio.timeout(60):
            while not server.started:
                await asyncio.sleep(0.01)
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/v1"
    finally:
        server.should_exit = True
        await task


async def ask(url, model):
    environment = {"URL": url, "MODEL": model, "API_KEY": "key"}
    pipes = {"stdout": asyncio.subprocess.PIPE, "stderr": asyncio.subprocess.STDOUT}
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", ASK.read_text(), env=environment, **pipes)
    async with asyncio.timeout(60):
        said, _ = await process.communicate()
    return process.returncode, said.decode()


async def test_the_test_of_a_release_wants_the_model_and_an_answer():
    async with model_server("example/llama") as url:
        code, said = await ask(url, "example/llama")
        assert code == 0, said
        assert said.strip()
        code, said = await ask(url, "example/other")
        assert code != 0
        assert "example/other is not among ['example/llama']" in said
