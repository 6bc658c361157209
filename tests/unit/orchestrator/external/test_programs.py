"""Programs that a tenant's file names are started only where a setting says so."""

import sys

import pytest

from services.orchestrator.config import Settings
from services.orchestrator.external.servers import McpOpening
from services.runtime.errors import DependencyFailed
from services.runtime.tenants import McpServer


async def test_by_default_no_program_is_started(tmp_path):
    started = tmp_path / "started"
    program = (sys.executable, "-c", f"open({str(started)!r}, 'w')")
    server = McpServer(name="local", command=program, tools={"env": ""})
    for opening in (McpOpening(tmp_path), McpOpening(tmp_path, stdio=Settings.model_fields["mcp_stdio"].default)):
        with pytest.raises(DependencyFailed, match="SABUESO_MCP_STDIO"):
            await opening(server, lambda: None)
    assert not started.exists()
