"""Settings of the web tool."""

from pathlib import Path

from pydantic import Field, SecretStr

from services.runtime.settings import ServerSettings

_URL = r"^https?://\S+$"


class Settings(ServerSettings):
    """What the web tool needs to know."""

    tenants_dir: Path = Field(default=Path("/etc/sabueso/tenants"), description="Folder with one YAML file a tenant.")
    search_providers: str = Field(
        default="",
        description="Comma-separated, in order of preference: `searxng`, `brave`, `tavily`, `serper`, `google`. Each "
        "next one is asked when those before it do not answer. Empty: `searxng` where its address is set.",
    )
    search_timeout_seconds: float = Field(
        default=6, gt=0, le=60, description="Time for one search, all providers together."
    )
    search_failures: int = Field(
        default=3, ge=1, le=100, description="Failures in a row after which a search provider is left to rest."
    )
    search_rest_seconds: float = Field(
        default=30, gt=0, le=3600, description="Time that a search provider rests first; doubles while it fails on."
    )
    search_country: str = Field(
        default="",
        pattern="^([A-Z]{2})?$",
        description="Country whose results brave, serper and google prefer, such as `ES`. Empty: their default.",
    )
    searxng_url: str = Field(
        default="",
        pattern=r"^(https?://\S+)?$",
        description="SearXNG with its JSON format enabled, such as `http://searxng:8080`. Empty: no search.",
    )
    brave_api_key: SecretStr = Field(default=SecretStr(""), description="Key of Brave Search.")
    brave_url: str = Field(
        default="https://api.search.brave.com",
        pattern=_URL,
        description="Address of Brave Search, or of a gateway to it.",
    )
    tavily_api_key: SecretStr = Field(default=SecretStr(""), description="Key of Tavily.")
    tavily_url: str = Field(
        default="https://api.tavily.com", pattern=_URL, description="Address of Tavily, or of a gateway to it."
    )
    serper_api_key: SecretStr = Field(default=SecretStr(""), description="Key of Serper.")
    serper_url: str = Field(
        default="https://google.serper.dev", pattern=_URL, description="Address of Serper, or of a gateway to it."
    )
    google_api_key: SecretStr = Field(
        default=SecretStr(""),
        description="Key of Google Programmable Search, which ends for the whole web on 1 January 2027.",
    )
    google_engine_id: str = Field(default="", description="Search engine (`cx`) of Google Programmable Search.")
    google_url: str = Field(
        default="https://www.googleapis.com",
        pattern=_URL,
        description="Address of Google's API, or of a gateway to it.",
    )
    egress_proxy: SecretStr = Field(
        default=SecretStr(""),
        description="HTTP proxy for all public requests, `http://[user:password@]host:port`; it must allow CONNECT to "
        "ports 80 and 443. The address of a page is resolved and checked here, and the proxy is asked for that very "
        "address. Empty: direct.",
    )
    fetch_timeout_seconds: float = Field(
        default=8,
        gt=0,
        le=60,
        description="Time for one page: robots.txt, the host's turn, redirects and extraction included.",
    )
    extract_timeout_seconds: float = Field(
        default=4, gt=0, le=60, description="Time to make text of one page, in a process of its own."
    )
    extract_memory_bytes: int = Field(
        default=256 * 1024 * 1024,
        ge=128 * 1024 * 1024,
        description="Memory (address space) to make text of one page, in bytes.",
    )
    max_pages: int = Field(
        default=24,
        ge=1,
        le=1024,
        description="Pages that are read at the same time, at most two thirds of them of one tenant; more are refused.",
    )
    host_requests_per_second: float = Field(
        default=2, gt=0, le=1000, description="Requests a second to one host; more wait for their turn."
    )
    user_agent_contact: str = Field(
        default="",
        description="Address or URL of who answers for the fetches; said in the user agent as "
        "`sabueso/<version> (+contact)`.",
    )
    max_body_bytes: int = Field(
        default=5 * 1024 * 1024, ge=1024, description="Most that is read of a page, after decompression."
    )
    allowed_private_addresses: str = Field(
        default="",
        description="Comma-separated `host:port` that may be read although not public, such as an intranet page.",
    )
