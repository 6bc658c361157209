"""HTTP in: the OpenAI-compatible API, tenants, limits, the web page."""
