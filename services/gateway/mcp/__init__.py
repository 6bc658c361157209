"""The tools API: Model Context Protocol over streamable HTTP, at `/mcp`."""
