"""Stock clients that cannot live beside our own packages, as processes of their own: Node, and LlamaIndex.

`make client-libraries` installs them; `make test` does so by itself.
"""

import asyncio
import json
import os
import shutil
import sys
from pathlib import Path

import pytest
import pytest_asyncio

from local.node import node
from tests.integration.gateway_stack import gateway_stack, key_of

pytestmark = pytest.mark.asyncio(loop_scope="module")

ROOT = Path(__file__).parents[2]
CLIENTS, INSTALLED = ROOT / "tests/e2e/clients", ROOT / ".sabueso/clients"
ANSWER = "Firmamos 47 contratos [1]. Penalización del 2 % [2][3]."


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stack(tmp_path_factory):
    async with gateway_stack(tmp_path_factory.mktemp("tenants"), tmp_path_factory.mktemp("web")) as stack:
        yield stack


async def said_by(*command, **environment):
    process = await asyncio.create_subprocess_exec(
        *command,
        env={**os.environ, **environment},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        said, wrong = await asyncio.wait_for(process.communicate(), 100)
    finally:
        if process.returncode is None:
            process.kill()
    assert process.returncode == 0, wrong.decode()
    return json.loads(said)


async def test_openais_client_for_node(stack, tmp_path):
    shutil.copy(CLIENTS / "client.mjs", tmp_path)
    (tmp_path / "node_modules").symlink_to(INSTALLED / "node" / "node_modules")
    got = await said_by(node(), str(tmp_path / "client.mjs"), stack.url, key_of("demo"))
    assert got["whole"] == got["streamed"] == got["response"] == got["final"] == ANSWER
    assert got["annotations"] == ["sql_citation", "file_citation", "url_citation"]
    assert (got["answerId"], got["tokens"]) == ("ans-1", 150)
    assert got["items"] == ["mcp_call", "message"]
    assert {"response.created", "response.mcp_call.completed", "response.completed"} <= set(got["kinds"])
    assert {"sabueso", "mini-1", "small@1"} <= set(got["models"])
    assert got["embeddings"] == [pytest.approx([1, 2, 0.1]), pytest.approx([3, 2, 0.1])]
    assert got["refused"] == [True, "invalid_api_key", True]
    assert got["broken"] == got["brokenResponse"] == [True, "dependency_failed"]


@pytest.mark.slow
async def test_llama_index(stack):
    script = str(CLIENTS / "llama_index_client.py")
    got = await said_by(sys.executable, script, stack.url, key_of("demo"), PYTHONPATH=str(INSTALLED / "python"))
    assert got == {"chat": ANSWER, "streamed": ANSWER, "completed": ANSWER}
