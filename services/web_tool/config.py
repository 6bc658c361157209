"""Settings of the web tool."""

from pathlib import Path

from pydantic import Field

from services.runtime.settings import ServerSettings


class Settings(ServerSettings):
    """What the web tool needs to know."""

    tenants_dir: Path = Field(default=Path("/etc/sabueso/tenants"), description="Folder with one YAML file a tenant.")
    searxng_url: str = Field(
        default="", description="SearXNG with its JSON format enabled, such as `http://searxng:8080`. Empty: no search."
    )
    search_timeout_seconds: float = Field(default=6, gt=0, le=60, description="Time for one search.")
    fetch_timeout_seconds: float = Field(default=8, gt=0, le=60, description="Time for one page, redirects included.")
    max_body_bytes: int = Field(
        default=5 * 1024 * 1024, ge=1024, description="Most that is read of a page, after decompression."
    )
    allowed_private_addresses: str = Field(
        default="",
        description="Comma-separated `host:port` that may be read although not public, such as an intranet page.",
    )
